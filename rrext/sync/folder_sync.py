"""A sync: decides which files to send again and which objects to delete, so that the stores match the folders.

It knows a pipeline by `SyncPipeline` alone, so that a command does it in its own process, and a client with a server anywhere.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID, uuid5

import anyio
import msgspec

from rrext.errors import ClientError, RrextError
from rrext.limits import CLIENT_DEFAULTS
from rrext.sync.state import SentFile, SyncState
from rrext.sync.upload_files import NO_FILE, Unreadable, UploadFile, find_files, url_of

T = TypeVar("T")

MAX_UNASKED_REMOVALS: Final = 10
"""The number of removed files that are deleted without a question, if others are left."""

SETTLED_NANOSECONDS: Final = 2_000_000_000
"""Nanoseconds after which a change must show in a file's times, also on file systems with two-second steps."""

MAX_CALL_OBJECTS: Final = 500
"""Objects in one call of a store's tool."""

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


class SyncStores(msgspec.Struct, frozen=True, rename="camel"):
    """The stores of a pipeline, as its engine tells them: the answer to the subcommand `stores`.

    `target` identifies the stores and the caller, `settings` all that decides what becomes of a file: other settings produce
    other objects. `namespace` is that of the caller's object ids.
    """

    stores: list[str]
    can_move: bool
    target: str
    settings: str
    namespace: UUID


class SyncPipeline(Protocol):
    """The tools of a pipeline's stores, in this process or of a server."""

    async def stores(self) -> SyncStores:
        """The stores. Raises `InvalidArguments` if files go to none that can be kept in step."""
        ...

    async def call(self, store: str, tool: str, given: dict[str, Any]) -> Any:
        """The result of a store's tool. Raises its failure."""
        ...

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The outcome of `work`, which may block."""
        ...


class SentObject(msgspec.Struct, frozen=True):
    """What became of a file that was sent: the result body, as it is or encoded, and the number of its chunks by store."""

    body: Any
    stored: Mapping[str, int]


SendObject = Callable[[dict[str, Any]], Awaitable[SentObject]]
"""Sends a file with this description of its object. Raises the object's failure."""


class StoredVersion(msgspec.Struct, frozen=True):
    """The number of chunks of an object in a store, and their common signature."""

    chunks: int = 0
    signature: str | None = None


class FolderSync:
    """Compares files with their last sent state, and with the state of the stores."""

    def __init__(
        self,
        pipeline: SyncPipeline,
        known: SyncStores,
        state: SyncState,
        *,
        root_name: str | None = None,
    ) -> None:
        """Made by `open_sync`."""
        self._root_name = root_name
        self._pipeline = pipeline
        self._known = known
        self._state = state
        self._ahead: list[UploadFile] = []
        self._lock = anyio.Lock()
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
        if not self._known.can_move:
            return
        present, unseen = _seen(sources)
        for folder in filter(os.path.isdir, paths):
            for key, sent in self._state.unlisted(os.fsencode(self._root_name or os.path.realpath(folder)), present):
                if not key.startswith(unseen):
                    self._lost.setdefault((sent.signature, _extension(key)), {})[key] = sent

    async def check_stores(self) -> None:
        """Send a query to each store, so that an unreachable one fails once. Raises its failure."""
        for store in self._known.stores:
            await self._versions(store, [NOBODY])

    async def deal_with(self, source: UploadFile, send: SendObject) -> tuple[str, Any]:
        """Send a file if it changed: "new", "changed", "moved" or "unchanged", and the result body if it was sent.

        Raises `OSError`, `Unreadable`, `NotFollowed`, and failures of the object and of stores.
        """
        if not source.real:
            raise Unreadable(NO_FILE)
        change = await self.change(source)
        if change is None:
            return "unchanged", None
        if await self.move(source, change):
            return "moved", None
        await self.begin(change)
        try:
            sent = await send({**source.about, "signature": change.signature})
        except RrextError as error:
            if source.skips(error):
                await self.drop(change)
            raise
        try:
            await self.end(source, change, sent.stored)
        except RrextError as error:
            error.result = sent.body if isinstance(sent.body, dict) else msgspec.json.decode(sent.body)
            raise
        return "new" if change.is_new else "changed", sent.body

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
            for store in self._known.stores
        }
        if not _is_complete(change, sent.chunks, former):
            return False
        await self.begin(change)
        given = {"object_id": sent.object_id, "to": change.object_id, "parent": source.about["path"]}
        for store in self._known.stores:
            await self._pipeline.call(store, "move", given)
        await self._keep(change, sent.chunks)
        await self._pipeline.in_thread(lambda: self._state.forget([key]))
        return True

    async def drop(self, change: FileChange) -> None:
        """Delete a file from the stores that became one of a kind that is not read. Raises failures of stores."""
        for store in self._known.stores:
            await self._delete(store, [change.object_id])
        await self._pipeline.in_thread(lambda: self._state.forget([change.key]))

    async def end(self, source: UploadFile, change: FileChange, stored: Mapping[str, int]) -> int:
        """Note that a file was sent; returns its number of chunks. Raises `NotFollowed`, and failures of stores."""
        chunks: dict[str, int] = {}
        for store in self._known.stores:
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
            for store in self._known.stores:
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
        signature = hashlib.sha256(f"{self._known.settings} {digest}".encode()).hexdigest()
        return FileChange(True, key, self._object_id(source), stamp, digest, signature), sent

    def _object_id(self, source: UploadFile) -> str:
        return str(uuid5(self._known.namespace, url_of(source.identity)))

    async def _keep(self, change: FileChange, chunks: Mapping[str, int]) -> None:
        sent = SentFile(change.object_id, _settled(change.stamp), change.digest, change.signature, chunks)
        await self._pipeline.in_thread(lambda: self._state.keep(change.key, sent))

    async def _stored(self, object_id: str) -> dict[str, StoredVersion]:
        """Store → its version of an object; the query includes the objects of the next files."""
        async with self._lock:
            while object_id not in self._in_stores:
                some = self._ahead[:MAX_CALL_OBJECTS]
                ids = await self._pipeline.in_thread(lambda some=some: [self._object_id(source) for source in some])
                found = {store: await self._versions(store, ids or [object_id]) for store in self._known.stores}
                for name in ids or [object_id]:
                    self._in_stores[name] = {store: found[store].get(name, StoredVersion()) for store in self._known.stores}
                del self._ahead[:MAX_CALL_OBJECTS]
            return self._in_stores.pop(object_id)

    async def _versions(self, store: str, object_ids: Sequence[str]) -> dict[str, StoredVersion]:
        answer = await self._pipeline.call(store, "versions", {"object_ids": list(object_ids)})
        return msgspec.convert(answer["versions"], dict[str, StoredVersion])

    async def _delete(self, store: str, object_ids: list[str]) -> int:
        return (await self._pipeline.call(store, "delete", {"object_ids": object_ids})).get("deleted_count", 0)

    def close(self) -> None:
        """Release the state for other processes."""
        self._state.close()


async def open_sync(pipeline: SyncPipeline, path: str, *, root_name: str | None, warn: Callable[[str], object]) -> FolderSync:
    """The sync of a pipeline, with its state in the file `path`; `warn` as for `SyncState`.

    Raises `InvalidArguments` without a suitable store, and `SyncStateError`.
    """
    known = await pipeline.stores()
    state = await pipeline.in_thread(lambda: SyncState(path, known.target, warn))
    return FolderSync(pipeline, known, state, root_name=root_name)


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
