"""`rrext send --sync`: decides which files to send again and which objects to delete, so that the stores match the folders.

Its state, the sent files, is a file beside the pipeline that survives a kill at any moment.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import sys
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final

import msgspec

from rrext.cli.local import LocalPipeline
from rrext.client.upload_files import UploadFile, find_files, url_of
from rrext.columns import printable
from rrext.engine.interface.call import ANONYMOUS
from rrext.engine.interface.operations import Tool
from rrext.errors import ClientError, InvalidArguments
from rrext.limits import CLIENT_DEFAULTS
from rrext.nodes.base.node import Entry
from rrext.secrets.names import masked

MAX_UNASKED_REMOVALS: Final = 10
"""The number of removed files that are deleted without a question, if others are left."""

SETTLED_NANOSECONDS: Final = 2_000_000_000
"""Nanoseconds after which a change must show in a file's times, also on file systems with two-second steps."""

MAX_CALL_OBJECTS: Final = 500
"""Objects in one call of a store's tool."""

TOOLS: Final = frozenset({"versions", "delete"})
"""The tools that a store needs for a sync."""

NOBODY: Final = "00000000-0000-0000-0000-000000000000"


class NotFollowed(ClientError, code="not_followed"):
    """A file was sent, but the next sync cannot rely on its state."""


class FileChange(msgspec.Struct, frozen=True):
    """A file to send, with the signature of its chunks."""

    is_new: bool
    key: bytes
    object_id: str
    stamp: str
    digest: str
    signature: str


class Gone(msgspec.Struct, frozen=True):
    """Files that were sent from a folder and are removed since: their keys and object ids.

    `root` is the identity of the folder, whose path as given is `folder`. `known` is the number of files sent from it.
    `refused`: so many are missing that it may be a mistake.
    """

    folder: str
    root: str
    files: dict[bytes, str]
    known: int
    refused: bool

    def paths(self) -> list[str]:
        """The paths of the files, below the folder as given."""
        return sorted(os.path.join(self.folder, os.path.relpath(os.fsdecode(key), self.root)) for key in self.files)


class StoredVersion(msgspec.Struct, frozen=True):
    """The number of chunks of an object in a store, and their common signature."""

    chunks: int = 0
    signature: str | None = None


class _Versions(msgspec.Struct):
    """The answer of the tool `versions`."""

    versions: dict[str, StoredVersion]


class _StoreAnswer(msgspec.Struct):
    result: msgspec.Raw


class FolderSync:
    """Compares files with their last sent state, and with the state of the stores."""

    def __init__(
        self,
        pipeline: LocalPipeline,
        state: SyncState,
        stores: Sequence[str],
        process: str,
        *,
        root_name: str | None = None,
        can_move: bool = False,
    ) -> None:
        """`process` identifies the settings of the pipeline, because other settings produce other objects.

        `can_move`: all stores have the tool `move`.
        """
        self._can_move = can_move
        self._root_name = root_name
        self._tenant = (pipeline.caller.user_id, pipeline.caller.space_id)
        self._pipeline = pipeline
        self._state = state
        self._stores = stores
        self._process = process
        self._ahead: list[UploadFile] = []
        self._lock = asyncio.Lock()
        self._in_stores: dict[str, dict[str, StoredVersion]] = {}
        """The state of the stores for the next files, by object id and store; `_ahead` are the files after them."""
        self._lost: dict[tuple[str | None, bytes], dict[bytes, SentFile]] = {}
        """Files that were sent and are gone, by signature and extension: new ones may be the same files, moved."""

    def find(self, paths: Sequence[str], exclude: Sequence[str]) -> list[UploadFile]:
        """`find_files`, without the sync state itself."""
        own = self._state.files()
        sources = [
            UploadFile(source.path, source.name, skipped="is where --sync keeps what it has sent")
            if source.real in own
            else source
            for source in find_files(paths, exclude=exclude, root_name=self._root_name)
        ]
        self._ahead = [source for source in sources if source.real and source.problem is None]
        self._find_lost(paths, sources)
        return sources

    def _find_lost(self, paths: Sequence[str], sources: Sequence[UploadFile]) -> None:
        if not self._can_move:
            return
        present, unseen = _seen(sources)
        for folder in filter(os.path.isdir, paths):
            for key, sent in self._state.unlisted(os.fsencode(self._root_name or os.path.realpath(folder)), present):
                if not key.startswith(unseen):
                    self._lost.setdefault((sent.signature, _extension(key)), {})[key] = sent

    async def check_stores(self) -> None:
        """Send a query to each store, so that an unreachable one fails once. Raises its failure."""
        for store in self._stores:
            await self._versions(store, [NOBODY])

    async def change(self, source: UploadFile) -> FileChange | None:
        """The change of a file; None if every store has exactly this version. Raises `OSError`, and failures of stores."""
        change, sent = await self._pipeline.in_thread(lambda: self._compare(source))
        found = await self._stored(change.object_id)
        if sent is not None and sent.signature == change.signature and _is_complete(change, sent.chunks, found):
            if sent.stamp != _settled(change.stamp):
                await self._keep(change, sent.chunks)
            return None
        return msgspec.structs.replace(change, is_new=not any(version.chunks for version in found.values()))

    async def begin(self, change: FileChange) -> None:
        """Note that a file is being sent: from now on the stores may have parts of it."""
        await self._pipeline.in_thread(lambda: self._state.keep(change.key, SentFile(change.object_id)))

    async def move(self, source: UploadFile, change: FileChange) -> bool:
        """Let a new file have the chunks of one with the same content that is gone. Raises failures of stores.

        False if there is none of which every store has all.
        """
        lost = self._lost.get((change.signature, _extension(change.key)))
        if not lost or not change.is_new:
            return False
        key, sent = lost.popitem()
        former = {
            store: (await self._versions(store, [sent.object_id])).get(sent.object_id, StoredVersion())
            for store in self._stores
        }
        if not _is_complete(change, sent.chunks, former):
            return False
        await self.begin(change)
        given = {"object_id": sent.object_id, "to": change.object_id, "parent": source.about["path"]}
        for store in self._stores:
            await self._ask(store, "move", given)
        await self._keep(change, sent.chunks)
        await self._pipeline.in_thread(lambda: self._state.forget([key]))
        return True

    async def drop(self, change: FileChange) -> None:
        """Delete a file from the stores that became one of a kind that is not read. Raises failures of stores."""
        for store in self._stores:
            await self._delete(store, [change.object_id])
        await self._pipeline.in_thread(lambda: self._state.forget([change.key]))

    async def end(self, source: UploadFile, change: FileChange, stored: Mapping[str, int]) -> int:
        """Note that a file was sent; returns its number of chunks. Raises `NotFollowed`, and failures of stores."""
        chunks: dict[str, int] = {}
        for store in self._stores:
            version = (await self._versions(store, [change.object_id])).get(change.object_id, StoredVersion())
            chunks[store] = version.chunks
            if version.chunks != stored.get(store, version.chunks):
                raise NotFollowed(f'"{store}" has objects of other ids than the file\'s: --sync cannot tell when they change')
            elif version.chunks and version.signature != change.signature:
                raise NotFollowed(f'"{store}" does not keep signatures: --sync cannot tell whether it has this version')
        if await self._pipeline.in_thread(lambda: _stamp_of(source)) != change.stamp:
            raise NotFollowed("changed while it was sent: the next --sync sends it again")
        await self._keep(change, chunks)
        return sum(chunks.values())

    async def gone(self, folder: str, sources: Sequence[UploadFile], most: int | None) -> Gone:
        """The sent files of a folder that are not among the sources. `most` is the permitted number of deletions, if given.

        Files in an unreadable folder do not count as removed.
        """
        root = self._root_name or await self._pipeline.in_thread(lambda: os.path.realpath(folder))
        known = await self._pipeline.in_thread(lambda: self._state.below(os.fsencode(root)))
        present, unseen = _seen(sources)
        files = {key: object_id for key, object_id in known.items() if key not in present and not key.startswith(unseen)}
        if most is None:
            most = max(MAX_UNASKED_REMOVALS, len(known) // 2) if len(files) < len(known) else 0
        return Gone(folder, root, files, len(known), len(files) > most)

    async def delete(self, gone: Gone) -> int:
        """Delete removed files from the stores; returns their number of chunks. Raises failures of stores."""
        chunks = 0
        keys = list(gone.files)
        for start in range(0, len(keys), MAX_CALL_OBJECTS):
            some = keys[start : start + MAX_CALL_OBJECTS]
            for store in self._stores:
                chunks += await self._delete(store, [gone.files[key] for key in some])
            await self._pipeline.in_thread(lambda some=some: self._state.forget(some))
        return chunks

    def _compare(self, source: UploadFile) -> tuple[FileChange, SentFile | None]:
        """The present state of a file, and its last sent state. Blocks."""
        key = os.fsencode(source.identity)
        sent = self._state.find(key)
        fd = source.open()
        with open(fd, "rb", buffering=0) as file:
            stamp = _stamp(os.fstat(fd))
            known = sent.digest if sent is not None and sent.stamp == stamp else None
            digest = known or _digest(file)
        signature = hashlib.sha256(f"{self._process} {digest}".encode()).hexdigest()
        return FileChange(True, key, self._object_id(source), stamp, digest, signature), sent

    def _object_id(self, source: UploadFile) -> str:
        return Entry(source.name, url=url_of(source.identity), tenant=self._tenant).object_id

    async def _keep(self, change: FileChange, chunks: Mapping[str, int]) -> None:
        sent = SentFile(change.object_id, _settled(change.stamp), change.digest, change.signature, chunks)
        await self._pipeline.in_thread(lambda: self._state.keep(change.key, sent))

    async def _stored(self, object_id: str) -> dict[str, StoredVersion]:
        """Store → its version of an object; the query includes the objects of the next files."""
        async with self._lock:
            while object_id not in self._in_stores:
                some = self._ahead[:MAX_CALL_OBJECTS]
                ids = await self._pipeline.in_thread(lambda some=some: [self._object_id(source) for source in some])
                found = {store: await self._versions(store, ids or [object_id]) for store in self._stores}
                for name in ids or [object_id]:
                    self._in_stores[name] = {store: found[store].get(name, StoredVersion()) for store in self._stores}
                del self._ahead[:MAX_CALL_OBJECTS]
            return self._in_stores.pop(object_id)

    async def _versions(self, store: str, object_ids: Sequence[str]) -> dict[str, StoredVersion]:
        answer = await self._ask(store, "versions", {"object_ids": object_ids})
        return msgspec.json.decode(answer, type=_Versions).versions

    async def _delete(self, store: str, object_ids: list[str]) -> int:
        answer = msgspec.json.decode(await self._ask(store, "delete", {"object_ids": object_ids}))
        return answer.get("deleted_count", 0)

    async def _ask(self, store: str, tool: str, given: dict[str, Any]) -> msgspec.Raw:
        body, _ = await self._pipeline.ask(Tool(tool=tool, node_id=store, input=given))
        return msgspec.json.decode(body, type=_StoreAnswer).result

    def close(self) -> None:
        """Release the state for other processes."""
        self._state.close()


def open_sync(
    pipeline: LocalPipeline, file: str, *, mime_type: str | None, root: str | None, root_name: str | None
) -> FolderSync:
    """The sync of a pipeline file. Raises `InvalidArguments` without a suitable store, and `SyncStateError`."""
    task, plan = pipeline.task, pipeline.plan
    about: dict[str, Any] = {}
    for component in task.spec.components:
        edges = [[edge.lane, edge.source_id] for edge in component.inputs]
        edges += [[edge.class_type, edge.source_id] for edge in component.controls]
        about[component.id] = [component.provider, masked(component.config), edges, root]
    stores = [
        component.id
        for component in task.spec.components
        if component.id in plan.opening
        and "store" in component.node_class.class_types
        and set(component.node_class.tools) >= TOOLS
        and any(name.startswith("write_") for name in plan.methods[component.id])
    ]
    if not stores:
        raise InvalidArguments(
            "--sync needs a store that files go to and that has the tools versions and delete: here is none",
            hint="Leave --sync out: then all files are sent, and nothing is deleted.",
        )
    caller = pipeline.caller
    whose = [] if caller == ANONYMOUS else [caller.user_id, caller.space_id]
    state = SyncState(f"{file}.sync", _named([*[[store, *about[store][:2], root] for store in stores], *whose]))
    can_move = all("move" in component.node_class.tools for component in task.spec.components if component.id in stores)
    return FolderSync(pipeline, state, stores, _named([mime_type, about]), root_name=root_name, can_move=can_move)


def _extension(key: bytes) -> bytes:
    """The extension of a path, which decides how the file is read."""
    return os.path.splitext(key)[1].lower()


def _seen(sources: Sequence[UploadFile]) -> tuple[set[bytes], tuple[bytes, ...]]:
    """The keys of files that are there, and the beginnings of those in folders that cannot be read."""
    known = [source for source in sources if source.identity]
    unseen = tuple(os.fsencode(os.path.join(source.identity, "")) for source in known if source.problem)
    return {os.fsencode(source.identity) for source in known}, unseen


def _is_complete(change: FileChange, chunks: Mapping[str, int], found: Mapping[str, StoredVersion]) -> bool:
    """Whether every store has as many chunks as when the file was sent, all of this version."""
    expected = {store: StoredVersion(count, change.signature if count else None) for store, count in chunks.items()}
    return found == expected


def _named(value: Any) -> str:
    """A hash of settings."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _digest(file: Any) -> str:
    digest = hashlib.sha256()
    while piece := file.read(CLIENT_DEFAULTS.write_chunk):
        digest.update(piece)
    return digest.hexdigest()


def _stamp_of(source: UploadFile) -> str:
    fd = source.open()
    try:
        return _stamp(os.fstat(fd))
    finally:
        os.close(fd)


def _stamp(info: os.stat_result) -> str:
    """The attributes of a file that change with its content: programs may set the modification time, but not the change
    time."""
    return f"{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns} {info.st_ino}"


def _settled(stamp: str) -> str | None:
    """The stamp, if every later change must alter it; a change in the same clock step would not."""
    changed = max(map(int, stamp.split()[1:3]))
    return stamp if changed < time.time_ns() - SETTLED_NANOSECONDS else None


APPLICATION: Final = 0x7272_7378
"""The application id in the file's header."""

VERSION: Final = 1
JOURNALS: Final = ("-wal", "-journal", "-shm")
"""What SQLite adds to the name of the file, for files of its own beside it."""

ASIDE: Final = ".damaged"
"""What a damaged state is named by."""

DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
TABLE: Final = """
CREATE TABLE IF NOT EXISTS file (
    target TEXT NOT NULL, path BLOB NOT NULL, object TEXT NOT NULL,
    stamp TEXT, digest TEXT, signature TEXT, chunks TEXT,
    PRIMARY KEY (target, path)
) WITHOUT ROWID
"""
COLUMNS: Final = "object, stamp, digest, signature, chunks"
BELOW: Final = "target = ? AND (path = ? OR path >= ? AND path < ?)"


class SyncStateError(ClientError, code="sync_state"):
    """The state is unusable, or another process uses it."""


class SentFile(msgspec.Struct, frozen=True):
    """A sent file. `signature` is None from before the first byte is sent until the stores have all of it.

    `stamp` holds the file's size and times, None if a later change could leave them equal; `digest` is of its content. `chunks`
    is the number in each store, by node id.
    """

    object_id: str
    stamp: str | None = None
    digest: str | None = None
    signature: str | None = None
    chunks: Mapping[str, int] = {}


class SyncState:
    """The files sent to a target, by their real paths. Thread-safe; used by one process at a time.

    Each change is on its way to the disk when its method returns. A target identifies the stores: files sent to other stores
    count neither as sent nor as removed.
    """

    def __init__(self, path: str, target: str) -> None:
        """Open or create the file. Raises `SyncStateError`."""
        self._target = target
        self._lock = Lock()
        self.path = path
        try:
            self._rows = _opened(path)
        except OSError as error:
            raise SyncStateError(f"{path}: {error.strerror}", hint="--sync keeps there what it has sent.") from None
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in DAMAGED:
                raise self._failure(error) from None
            self._rows = _anew(path)

    def files(self) -> set[str]:
        """The real paths of the files in which the state is kept."""
        own = os.path.realpath(self.path)
        return {own + end for end in ("", ASIDE, *JOURNALS)}

    def find(self, path: bytes) -> SentFile | None:
        """The state of a file."""
        found = self._run(f"SELECT {COLUMNS} FROM file WHERE target = ? AND path = ?", [(self._target, path)])
        if not found:
            return None
        *known, chunks = found[0]
        return SentFile(*known, chunks=msgspec.json.decode(chunks, type=dict[str, int]))

    def keep(self, path: bytes, sent: SentFile) -> None:
        """Store the state of a file."""
        chunks = msgspec.json.encode(sent.chunks).decode()
        row = (self._target, path, sent.object_id, sent.stamp, sent.digest, sent.signature, chunks)
        self._run("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, ?)", [row])

    def below(self, root: bytes) -> dict[bytes, str]:
        """The files at a path and below it, with their object ids."""
        folder = root.rstrip(b"/") + b"/"
        names = (self._target, root, folder, folder[:-1] + b"0")  # the character behind the slash
        return dict(self._run(f"SELECT path, object FROM file WHERE {BELOW}", [names]))

    def unlisted(self, root: bytes, listed: Container[bytes]) -> Iterator[tuple[bytes, SentFile]]:
        """The files below a path that were sent whole and are not among the listed ones."""
        folder = root.rstrip(b"/") + b"/"
        names = (self._target, root, folder, folder[:-1] + b"0")
        for path, *known, chunks in self._run(
            f"SELECT path, {COLUMNS} FROM file WHERE {BELOW} AND signature NOT NULL", [names]
        ):
            if path not in listed:
                yield path, SentFile(*known, chunks=msgspec.json.decode(chunks, type=dict[str, int]))

    def forget(self, paths: Iterable[bytes]) -> None:
        """Remove files that were deleted from the stores."""
        self._run("DELETE FROM file WHERE target = ? AND path = ?", [(self._target, path) for path in paths])

    def close(self) -> None:
        """Release the file for other processes."""
        with self._lock:
            self._rows.close()

    def _run(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The rows of a statement, run once for each tuple of values in one transaction. Raises `SyncStateError`."""
        found: list[Any] = []
        try:
            with self._lock:
                self._rows.execute("BEGIN")
                with self._rows:
                    for row in rows:
                        found += self._rows.execute(statement, row).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._failure(error) from None
        return found

    def _failure(self, error: sqlite3.DatabaseError) -> SyncStateError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return SyncStateError(f"{self.path}: another --sync of this pipeline is running")
        return SyncStateError(f"{self.path}: {error}", hint="--sync keeps there what it has sent.")


def _opened(path: str) -> sqlite3.Connection:
    """The database, locked. Raises `OSError`, `SyncStateError` and `sqlite3.DatabaseError`."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)  # it lists all sent files
    finally:
        os.close(fd)
    rows = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        rows.execute("PRAGMA locking_mode = EXCLUSIVE")
        rows.execute("BEGIN EXCLUSIVE")
        _check(path, rows)
        rows.execute(TABLE)
        rows.execute(f"PRAGMA application_id = {APPLICATION}")
        rows.execute(f"PRAGMA user_version = {VERSION}")
        rows.execute("COMMIT")
        rows.execute("PRAGMA journal_mode = WAL")
        rows.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        rows.close()
        raise
    return rows


def _check(path: str, rows: sqlite3.Connection) -> None:
    asked = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master", "PRAGMA quick_check")
    application, version, tables, damage = (rows.execute(question).fetchone()[0] for question in asked)
    if damage != "ok":
        error = sqlite3.DatabaseError(damage)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    if tables and application != APPLICATION:
        raise SyncStateError(f"{path}: is a database of something else", hint="Move it away: --sync keeps its state there.")
    if version > VERSION:
        raise SyncStateError(f"{path}: was written by a newer rrext", hint="Use that one.")


def _anew(path: str) -> sqlite3.Connection:
    """An empty state, after setting a damaged one aside."""
    aside = path + ASIDE
    os.replace(path, aside)
    for journal in JOURNALS:
        with suppress(FileNotFoundError):
            os.unlink(path + journal)
    text = (
        f"rrext: {path}: is damaged, and kept as {aside}: every file is sent again. What was deleted from the folders "
        "since the last --sync stays in the stores"
    )
    print(printable(text), file=sys.stderr)
    return _opened(path)
