"""The folder of an embedded store: who may open it, whether it is whole, and how it begins.

    FOLDER/lock             held by the process that has the store open; says for which process it does
    FOLDER/data/store.json  `Manifest`
    FOLDER/data/shard/      the engine's own files

The engine repairs what it finds broken by dropping it, so a folder is looked through before the engine may touch it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from rrext.errors import ToolError
from rrext.nodes.vectors.edge.lock import FolderLock, is_gone
from rrext.nodes.vectors.store import Space

__all__ = ["BATCH", "ENGINE", "FORMAT", "Manifest", "StoreFolder"]

FORMAT: Final = 2
"""The version of this layout and of the engine's fields. A store of a version that is not known is not opened."""
OLDER: Final = frozenset({1})
"""Versions that become today's when they are opened: 1 has no words beside its contents."""
ENGINE: Final = "qdrant-edge"
BATCH: Final = 64
"""Points that are written or deleted in one call of the engine: about 5 ms, in which its process does nothing else."""
LEAVING: Final = 5.0
"""Seconds to wait for a folder whose owner was killed: who had it open for that owner needs up to these to end."""
_AGAIN: Final = 0.02

LOCK, DATA, NEW, MANIFEST, SHARD = "lock", "data", "new", "store.json", "shard"
HEAD: Final = 64 * 1024
"""Bytes of each file that are compared with the manifest, beside its size: where the engine's headers are."""
VOLATILE: Final = "_journal.dat"
"""How the names of files end that the engine makes and removes as it likes, also when it fails to open a store."""


class Manifest(msgspec.Struct, frozen=True):
    """What a store says of itself. `clean`: it was closed in order, and the `chunks` and `files` are those of that time.

    `files` has size and checksum of the head for each file of the engine, by its path in the shard.
    """

    format: int
    engine: str
    model: str
    vector_size: int
    clean: bool
    chunks: int
    files: dict[str, tuple[int, int]]

    @property
    def space(self) -> Space:
        """The space of the vectors in the store."""
        return Space(self.model, self.vector_size)


class StoreFolder:
    """One folder. `shown` is how messages name it: as the node's settings do. Methods raise `ToolError`.

    `owner` is the process for which this one uses the folder, and which others are told of; without it, itself.
    """

    __slots__ = ("_lock", "_owner", "path", "shown")

    def __init__(self, path: str, shown: str, *, owner: int | None = None) -> None:
        self.path = Path(path)
        self.shown = shown
        self._owner = os.getpid() if owner is None else owner
        self._lock: FolderLock | None = None

    @property
    def shard(self) -> str:
        """Where the engine's files are."""
        return str(self.path / DATA / SHARD)

    def has_store(self) -> bool:
        """Whether a store is there; false if nothing is, so that one can begin. Anything else is an error."""
        try:
            names = set(os.listdir(self.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unusable(error) from error
        if DATA in names:
            return True
        if names - {LOCK, NEW}:
            raise ToolError(
                f'The folder "{self.shown}" holds something, but no vector store: it is left alone',
                code="not_a_store",
                hint="Give an empty folder, one that does not exist yet, or one that a store has made.",
            )
        return False

    def acquire(self) -> None:
        """Be the only one who uses the folder, until `release`."""
        try:
            os.makedirs(self.path, exist_ok=True)
            lock, holder = self._take_lock()
        except OSError as error:
            raise self._unusable(error) from error
        if lock is None:
            here = " (this process)" if holder == str(self._owner) else ""
            raise self.in_use(f"process {holder or '?'}{here}")
        self._lock = lock

    def _take_lock(self) -> tuple[FolderLock | None, str]:
        """The lock, or None and who has it. If that one was killed, the process that worked for it is about to end."""
        deadline = time.monotonic() + LEAVING
        while True:
            lock, holder = FolderLock.take(self.path / LOCK, self._owner)
            if lock is not None or not is_gone(holder) or time.monotonic() > deadline:
                return lock, holder
            time.sleep(_AGAIN)

    def release(self) -> None:
        """Let others use the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def manifest(self) -> Manifest:
        """What the store says of itself, if the files are those that it knows of."""
        try:
            found = msgspec.json.decode((self.path / DATA / MANIFEST).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise self.corrupt(f'"{DATA}/{MANIFEST}" cannot be read: {error}') from error
        if found.engine != ENGINE or found.format not in OLDER | {FORMAT}:
            raise ToolError(
                f'The store in "{self.shown}" is {found.engine}, format {found.format}; this version reads {ENGINE}, {FORMAT}',
                code="store_format",
                hint="Open it with the version of rrext that made it.",
            )
        self._require_whole(found)
        return found

    def _require_whole(self, manifest: Manifest) -> None:
        files = _files(Path(self.shard))
        for name, (size, head) in manifest.files.items():
            if name not in files:
                raise self.corrupt(f'"{name}" is missing')
            elif manifest.clean and files[name] != (size, head):
                raise self.corrupt(f'"{name}" is not what it was when the store was closed')
            elif files[name][0] == 0 < size:
                raise self.corrupt(f'"{name}" is empty')

    def begin(self, space: Space, make: Callable[[str], None]) -> Manifest:
        """Make a store: `make` puts the engine's files into the folder that it is given. It is there as a whole or not."""
        new = self.path / NEW
        manifest = Manifest(FORMAT, ENGINE, space.model, space.size, True, 0, {})
        try:
            if new.exists():
                shutil.rmtree(new)  # of a process that ended before anybody was told that something is stored
            new.mkdir()
            make(str(new / SHARD))
            manifest = msgspec.structs.replace(manifest, files=_files(new / SHARD))
            _write(new / MANIFEST, msgspec.json.encode(manifest))
            os.rename(new, self.path / DATA)
            _sync_folder(self.path)
        except OSError as error:
            raise self._unusable(error) from error
        return manifest

    def save(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        try:
            _write(self.path / DATA / MANIFEST, msgspec.json.encode(manifest))
        except OSError as error:
            raise self._unusable(error) from error

    def files(self) -> dict[str, tuple[int, int]]:
        """The engine's files as a manifest has them."""
        return _files(Path(self.shard))

    def disk_bytes(self) -> int:
        """What the folder takes on the disk: blocks, as files have holes."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                try:
                    status = os.stat(os.path.join(folder, name))
                except OSError:
                    continue
                total += getattr(status, "st_blocks", 0) * 512 or status.st_size
        return total

    def require_room(self, least: int) -> None:
        """Raise `ToolError` (`store_full`) if less than `least` bytes are free.

        The engine writes through mapped memory: with a full disk its process would not get an error, but be killed.
        """
        free = shutil.disk_usage(self.path).free
        if free < least:
            raise ToolError(
                f'The disk of "{self.shown}" has {free:,} bytes left; with less than {least:,} nothing is stored',
                code="store_full",
                hint='Make room. The bound is "min_free_bytes" in the settings of the node.',
            )

    def in_use(self, who: str) -> ToolError:
        """The error for a store that somebody else has open."""
        return ToolError(
            f'The folder "{self.shown}" is in use by {who}, and a store is opened only once',
            code="store_in_use",
            hint="Let all work go through one node of one pipeline, or take PostgreSQL for several processes.",
        )

    def corrupt(self, what: str) -> ToolError:
        """The error for a store that cannot be trusted."""
        return ToolError(
            f'The vector store in "{self.shown}" is damaged: {what}. Nothing was changed',
            code="store_corrupt",
            hint="Restore the whole folder from a backup, or move it away and fill a new store.",
        )

    def _unusable(self, error: OSError) -> ToolError:
        return ToolError(
            f'The folder "{self.shown}" cannot be used: {error.strerror or "the system gives no reason"}', code="store_unusable"
        )

    def __repr__(self) -> str:
        return f"<StoreFolder {self.shown}>"


def _files(shard: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for folder, _, names in os.walk(shard):
        for name in names:
            path = Path(folder, name)
            if name.endswith(VOLATILE):
                continue
            with open(path, "rb") as file:
                found[path.relative_to(shard).as_posix()] = (os.fstat(file.fileno()).st_size, crc32(file.read(HEAD)))
    return found


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """A rename survives a power cut once its folder is written; only POSIX can be asked for that."""
    if os.name == "posix":
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
