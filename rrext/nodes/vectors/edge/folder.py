"""The folder of an embedded store: its lock, its check for damage, and its creation.

    FOLDER/lock             held by the process that has nobody's partition open; see `rrext.nodes.files.turns`
    FOLDER/data/store.json  `Manifest`
    FOLDER/data/journal     the request that is being carried out; see `journal`
    FOLDER/data/shard/      Qdrant's own files
    FOLDER/owners/OWNER/    the partition of another owner, a folder with the same lock and data

Qdrant repairs damage by dropping the damaged data, so the store checks a folder before Qdrant opens it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from rrext.errors import ToolError
from rrext.nodes.files.turns import NEXT, FileLock, InUse
from rrext.nodes.vectors.edge.messages import Journal
from rrext.nodes.vectors.store import SIMPLE, VectorSpace

COMPARED_HEAD: Final = 64 * 1024
"""Bytes of each file that are compared with the manifest, beside its size: the part with Qdrant's headers."""

FORMAT: Final = 5
"""The version of this layout and of Qdrant's fields. A store of an unknown version is not opened."""
WITHOUT_OWNERS, WITHOUT_FACTS, WITHOUT_PARTITIONS = 2, 3, 4
"""The versions before chunks had owners, before they could be filtered by metadata, and before owners had partitions. Their
stores are brought to the present one when they are opened."""
ENGINE: Final = "qdrant-edge"
LOCK, DATA, NEW, OLD, MANIFEST, SHARD, JOURNAL = "lock", "data", "new", "old", "store.json", "shard", "journal"
OWNERS: Final = "owners"
VOLATILE: Final = "_journal.dat"
"""Suffixes of files that Qdrant creates and removes at any time, even when it fails to open a store."""
LOG: Final = "wal/"
"""The folder of Qdrant's log, whose files come and go, and get other names, as it fills."""


class Manifest(msgspec.Struct, frozen=True):
    """The description of a store in its folder. `clean`: it was closed in order, with these `chunks` and `files`.

    `files` has size and checksum of the head for each file of Qdrant, by its path in the shard.
    """

    format: int
    engine: str
    model: str
    vector_size: int
    clean: bool
    chunks: int
    files: dict[str, tuple[int, int]]
    language: str = SIMPLE

    @property
    def space(self) -> VectorSpace:
        """The space of the vectors in the store."""
        return VectorSpace(self.model, self.vector_size)


class StoreFolder:
    """The folder of a store. `shown` is its name in messages, as in the node's settings. Methods raise `ToolError`.

    `owner` is the process for which this one uses the folder, shown to other processes; by default this process.
    """

    def __init__(self, path: str, shown: str, *, owner: int | None = None) -> None:
        self.path = Path(path)
        self.shown = shown
        self._owner = os.getpid() if owner is None else owner
        self._lock: FileLock | None = None

    def partition(self, owner: str) -> StoreFolder:
        """The folder of the partition of an owner, which is not nobody."""
        return StoreFolder(str(self.path / OWNERS / owner), self.shown, owner=self._owner)

    @property
    def shard(self) -> str:
        """The folder of Qdrant's files."""
        return str(self.path / DATA / SHARD)

    @property
    def journal(self) -> Journal:
        """The journal of the store."""
        return Journal(self.path / DATA / JOURNAL)

    def has_store(self) -> bool:
        """Whether the folder holds a store; false if it is empty or missing. Raises for any other content."""
        try:
            names = set(os.listdir(self.path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self.unusable(error) from error
        if DATA in names:
            return True
        if names - {LOCK, LOCK + NEXT, NEW, OLD, OWNERS}:
            raise ToolError(
                f'The folder "{self.shown}" holds something, but no vector store: it is left alone',
                code="not_a_store",
                hint="Give an empty folder, one that does not exist yet, or one that a store has made.",
            )
        return False

    def acquire(self, wait: float, check: Callable[[], object]) -> None:
        """Lock the folder for this process until `release`; wait for the lock that many seconds.

        The process that has the folder open releases it when idle. `check` is called meanwhile.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = FileLock.take(str(self.path / LOCK), self._owner, wait=wait, check=check)
        except OSError as error:
            raise self.unusable(error) from error
        except InUse as error:
            here = " (this process)" if error.holder == str(self._owner) else ""
            raise self.in_use(f"process {error.holder or '?'}{here}, and did not become free within {wait:g} s") from None

    def is_wanted(self) -> bool:
        """Whether another process waits for the folder."""
        return self._lock is not None and self._lock.is_wanted()

    def release(self) -> None:
        """Release the lock of the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def manifest(self) -> Manifest:
        """Read the manifest and check that the files agree with it."""
        found = self._manifest()
        self._require_whole(found)
        return found

    def is_of_earlier_version(self) -> bool:
        """Whether the folder holds a store that has to be brought to the present version first."""
        return self.has_store() and self._manifest().format != FORMAT

    def _manifest(self) -> Manifest:
        try:
            found = msgspec.json.decode((self.path / DATA / MANIFEST).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError) as error:
            raise self.corrupt(f'"{DATA}/{MANIFEST}" cannot be read: {error}') from error
        if found.engine != ENGINE or found.format not in (WITHOUT_OWNERS, WITHOUT_FACTS, WITHOUT_PARTITIONS, FORMAT):
            raise ToolError(
                f'The store in "{self.shown}" is {found.engine}, format {found.format}; this version reads {ENGINE}, {FORMAT}',
                code="store_format",
                hint="Open it with the version of rrext that made it.",
            )
        return found

    def _require_whole(self, manifest: Manifest) -> None:
        files = _files(Path(self.shard))
        if not any(name.startswith(LOG) for name in files):
            raise self.corrupt(f'"{LOG}" is empty')
        for name, (size, head) in manifest.files.items():
            if not manifest.clean and name.startswith(LOG):
                continue
            elif name not in files:
                raise self.corrupt(f'"{name}" is missing')
            elif manifest.clean and files[name] != (size, head):
                raise self.corrupt(f'"{name}" is not what it was when the store was closed')
            elif files[name][0] == 0 < size:
                raise self.corrupt(f'"{name}" is empty')

    def begin(self, space: VectorSpace, language: str, make: Callable[[str], None]) -> Manifest:
        """Create a store, whole or not at all: `make` puts Qdrant's files into the folder of its argument.

        Replaces an empty, closed store.
        """
        new, old, data = self.path / NEW, self.path / OLD, self.path / DATA
        manifest = Manifest(FORMAT, ENGINE, space.model, space.size, True, 0, {}, language)
        try:
            for left in (new, old):  # left by a process that ended before it reported that anything was stored
                if left.exists():
                    shutil.rmtree(left)
            new.mkdir()
            make(str(new / SHARD))
            manifest = msgspec.structs.replace(manifest, files=_files(new / SHARD))
            _write(new / MANIFEST, msgspec.json.encode(manifest))
            if data.exists():
                os.rename(data, old)
            os.rename(new, data)
            _sync_folder(self.path)
            if old.exists():
                shutil.rmtree(old)
        except OSError as error:
            raise self.unusable(error) from error
        return manifest

    def save(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        try:
            _write(self.path / DATA / MANIFEST, msgspec.json.encode(manifest))
        except OSError as error:
            raise self.unusable(error) from error

    def files(self) -> dict[str, tuple[int, int]]:
        """The sizes and checksums of Qdrant's files, for a manifest."""
        return _files(Path(self.shard))

    def disk_bytes(self) -> int:
        """The disk space of the partition: blocks, because files have holes."""
        total = 0
        for folder, _, names in os.walk(self.path / DATA):
            for name in names:
                try:
                    status = os.stat(os.path.join(folder, name))
                except OSError:
                    continue
                total += status.st_blocks * 512
        return total

    def require_room(self, least: int, more: int = 0) -> None:
        """Raise `ToolError` (`store_full`) if less than `least` bytes are free when `more` are written.

        Qdrant writes through mapped memory: on a full disk, a signal would kill its process instead of an error.
        """
        free = shutil.disk_usage(self.path).free
        if free < least + more:
            raise ToolError(
                f'The disk of "{self.shown}" has {free:,} bytes left; with less than {least + more:,} this is not stored',
                code="store_full",
                hint='Make room. The bound is "min_free_bytes" in the settings of the node.',
            )

    def in_use(self, who: str) -> ToolError:
        """The error for a store that another process has open."""
        return ToolError(
            f'The folder "{self.shown}" is in use by {who}',
            code="store_in_use",
            hint='Processes take turns with a folder. Wait longer ("wait" in the settings of the node), end that process, '
            "or take PostgreSQL for many writers.",
        )

    def corrupt(self, what: str) -> ToolError:
        """The error for a damaged store."""
        return ToolError(
            f'The vector store in "{self.shown}" is damaged: {what}. Nothing was changed',
            code="store_corrupt",
            hint="Restore the whole folder from a backup, or move it away and fill a new store.",
        )

    def unusable(self, error: OSError) -> ToolError:
        """The error for a folder that the system does not let this process use."""
        return ToolError(
            f'The folder "{self.shown}" cannot be used: {error.strerror or "the system gives no reason"}', code="store_unusable"
        )


def _files(shard: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for folder, _, names in os.walk(shard):
        for name in names:
            path = Path(folder, name)
            if name.endswith(VOLATILE):
                continue
            with open(path, "rb") as file:
                found[path.relative_to(shard).as_posix()] = (os.fstat(file.fileno()).st_size, crc32(file.read(COMPARED_HEAD)))
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
    """Sync the folder: a rename survives a power cut only then."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
