"""A sync: decides which files to send again and which objects to delete, so that the stores match the folders.

It knows a pipeline by `SyncPipeline` alone, so that a command does it in its own process, and a client with a server anywhere.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID, uuid5

import anyio
import msgspec

from rrext.errors import ClientError, RrextError
from rrext.files.naming import url_of
from rrext.sync.addresses import PageFetcher
from rrext.sync.items import ItemContent, SyncItem
from rrext.sync.sources import PREFIXES, ListedSource, split_sources
from rrext.sync.state import SentFile, SyncState
from rrext.sync.upload_files import NO_FILE, Unreadable, UploadFile, find_files

T = TypeVar("T")

MAX_UNASKED_REMOVALS: Final = 10
"""The number of removed files that are deleted without a question, if others are left."""

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
    content: ItemContent
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
        """The paths of the files, below the folder as given, or the names of items in their source."""
        names = sorted(os.fsdecode(key)[len(self.root) :].lstrip("/") for key in self.files)
        if self.root.startswith(PREFIXES):
            return [f"{self.folder}: {name}" for name in names]
        return [os.path.join(self.folder, name) for name in names]


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
    places: list[str] = []
    """The stores whose `move` takes `name` and `source`, by which they tell where an object stands."""


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


SendObject = Callable[[dict[str, Any], ItemContent], Awaitable[SentObject]]
"""Sends a content with this description of its object. Raises the object's failure."""


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
        self._fetcher = PageFetcher()
        self._paths: Sequence[str] = ()
        self._unread: set[str] = set()
        """The roots of sources that cannot be read."""
        self._sources: list[ListedSource] = []
        """The sources beside folders and files whose items were listed."""
        self._ahead: list[SyncItem] = []
        self._lock = anyio.Lock()
        self._in_stores: dict[str, tuple[SentFile | None, dict[str, StoredVersion]]] = {}
        """For the next files, by object id: what was sent, and what each store has; `_ahead` are the files after them."""
        self._lost: dict[tuple[str | None, bytes, bytes], dict[bytes, SentFile]] = {}
        """Files that were sent and are gone, by signature, extension and folder: new ones may be the same files, moved."""
        self._roots: Sequence[bytes] = ()
        """The folders that were given, each with a slash at its end."""

    @property
    def own_files(self) -> set[str]:
        """The real paths of the files in which the state is kept."""
        return self._state.files()

    async def find(self, words: Sequence[str], exclude: Sequence[str]) -> list[SyncItem]:
        """The items of all sources: `find_files` without the sync state itself, then those of lists, feeds and mailboxes.

        A source that cannot be read is an item with a problem. Raises `UsageError`.
        """
        await self.pause()
        self._paths, self._sources = paths, _ = split_sources(words, self._root_name)
        items: list[SyncItem] = list(await self._pipeline.in_thread(lambda: self._find_files(paths, exclude)))
        self._unread.clear()
        for source in self._sources:
            try:
                items += await source.items(self._fetcher, self._pipeline.in_thread)
            except (OSError, RrextError) as error:
                self._unread.add(source.root)
                items.append(source.failed(error))
        self._ahead = [item for item in items if item.identity and item.problem is None and item.skipped is None]
        return items

    def _find_files(self, paths: Sequence[str], exclude: Sequence[str]) -> list[UploadFile]:
        own = self.own_files
        files = [
            UploadFile(file.path, file.name, skipped="is where --sync keeps what it has sent") if file.real in own else file
            for file in (find_files(paths, exclude=exclude, root_name=self._root_name) if paths else ())
        ]
        self._lost.clear()
        self._find_lost(paths, files)
        return files

    def _find_lost(self, paths: Sequence[str], sources: Sequence[UploadFile]) -> None:
        if not self._known.can_move:
            return
        present, unseen = _seen(sources)
        roots = [os.fsencode(self._root_name or os.path.realpath(folder)) for folder in paths if os.path.isdir(folder)]
        self._roots = [os.path.join(root, b"") for root in roots]
        for root in roots:
            for key, sent in self._state.unlisted(root, present):
                if not key.startswith(unseen):
                    self._lost.setdefault((sent.signature, *self._kind(key)), {})[key] = sent

    def _kind(self, key: bytes) -> tuple[bytes, bytes]:
        """The properties that a moved file keeps: extension and source folder. Its chunks have the name of the source."""
        return _extension(key), next(filter(key.startswith, self._roots), b"")

    async def check_stores(self) -> None:
        """Send a query to each store, so that an unreachable one fails once. Raises its failure."""
        for store in self._known.stores:
            await self._versions(store, [NOBODY])

    async def deal_with(self, source: SyncItem, send: SendObject) -> tuple[str, Any]:
        """Send a file if it changed: "new", "changed", "moved" or "unchanged", and the result body if it was sent.

        Raises `OSError`, `Unreadable`, `NotFollowed`, and failures of the object and of stores.
        """
        if not source.identity:
            raise Unreadable(NO_FILE)
        change = await self.change(source)
        if change is None:
            return "unchanged", None
        if await self.move(source, change):
            return "moved", None
        await self.begin(change)
        try:
            sent = await send({**source.about, "signature": change.signature}, change.content)
        except RrextError as error:
            if source.skips(error):
                await self.drop(change)
            raise
        finally:
            change.content.close()
        try:
            await self.end(change, sent.stored)
        except RrextError as error:
            error.result = sent.body if isinstance(sent.body, dict) else msgspec.json.decode(sent.body)
            raise
        return "new" if change.is_new else "changed", sent.body

    async def change(self, source: SyncItem) -> FileChange | None:
        """The change of a file; None if every store has exactly this version. Raises as `deal_with`."""
        key, object_id = os.fsencode(source.identity), self._object_id(source)
        sent, found = await self._stored(object_id)
        is_stored = sent is not None and sent.digest is not None and self._has_all(found, sent, self._signature(sent.digest))
        content = await source.content(sent, self._pipeline.in_thread, is_stored=is_stored)
        signature = self._signature(content.digest)
        change = FileChange(not any(version.chunks for version in found.values()), key, object_id, content, signature)
        if is_stored and sent is not None and sent.signature == signature:
            content.close()
            if sent.stamp != content.lasting_stamp():
                await self._keep(change, sent.chunks)
            return None
        return change

    def _signature(self, digest: str) -> str:
        return hashlib.sha256(f"{self._known.settings} {digest}".encode()).hexdigest()

    @staticmethod
    def _has_all(found: Mapping[str, StoredVersion], sent: SentFile, signature: str) -> bool:
        """Whether every store has as many chunks as when the file was sent, all of this version."""
        expected = {store: StoredVersion(count, signature if count else None) for store, count in sent.chunks.items()}
        return sent.signature == signature and found == expected

    async def begin(self, change: FileChange) -> None:
        """Note that a file is being sent: from now on the stores may have parts of it."""
        await self._pipeline.in_thread(lambda: self._state.keep(change.key, SentFile(change.object_id)))

    async def move(self, source: SyncItem, change: FileChange) -> bool:
        """Let a new file have the chunks of one with the same content that is gone. Raises failures of stores.

        False if there is none of which every store has all.
        """
        lost = self._lost.get((change.signature, *self._kind(change.key)))
        if not lost or not change.is_new:
            return False
        key, sent = lost.popitem()
        former = {
            store: (await self._versions(store, [sent.object_id])).get(sent.object_id, StoredVersion())
            for store in self._known.stores
        }
        if not self._has_all(former, sent, change.signature):
            return False
        change.content.close()
        await self.begin(change)
        about = source.about
        given = {"object_id": sent.object_id, "to": change.object_id, "parent": about["path"]}
        place = {"name": about["name"], "source": about.get("metadata", {}).get("source")}
        for store in self._known.stores:
            await self._pipeline.call(store, "move", given | place if store in self._known.places else given)
        await self._keep(change, sent.chunks)
        await self._pipeline.in_thread(lambda: self._state.forget([key]))
        return True

    async def drop(self, change: FileChange) -> None:
        """Delete a file from the stores that became one of a kind that is not read. Raises failures of stores."""
        for store in self._known.stores:
            await self._delete(store, [change.object_id])
        await self._pipeline.in_thread(lambda: self._state.forget([change.key]))

    async def end(self, change: FileChange, stored: Mapping[str, int]) -> int:
        """Note that a file was sent; returns its number of chunks. Raises `NotFollowed`, and failures of stores."""
        chunks: dict[str, int] = {}
        for store in self._known.stores:
            version = (await self._versions(store, [change.object_id])).get(change.object_id, StoredVersion())
            chunks[store] = version.chunks
            if version.chunks != stored.get(store, version.chunks):
                raise NotFollowed(f'"{store}" has objects of other ids than the file\'s: --sync cannot tell when they change')
            elif version.chunks and version.signature != change.signature:
                raise NotFollowed(f'"{store}" does not keep signatures: --sync cannot tell whether it has this version')
        if not await self._pipeline.in_thread(change.content.is_current):
            raise NotFollowed("changed while it was sent: the next --sync sends it again")
        await self._keep(change, chunks)
        return sum(chunks.values())

    async def gone(self, items: Sequence[SyncItem], most: int | None) -> AsyncIterator[Gone]:
        """For each source, the sent files that are not among the items any more. `most` is the permitted number of deletions.

        Files in an unreadable folder, the items of a source that cannot be read, and the entries of feeds do not count as gone.
        """
        places = await self._pipeline.in_thread(lambda: [each for each in self._paths if os.path.isdir(each)])
        roots = {
            each: self._root_name or await self._pipeline.in_thread(lambda each=each: os.path.realpath(each)) for each in places
        }
        roots |= {each.word: each.root for each in self._sources if not each.keeps and each.root not in self._unread}
        present, unseen = _seen(items)
        for folder, root in roots.items():
            known = await self._pipeline.in_thread(lambda root=root: self._state.below(os.fsencode(root)))
            files = {key: object_id for key, object_id in known.items() if key not in present and not key.startswith(unseen)}
            allowed = most
            if allowed is None:
                allowed = max(MAX_UNASKED_REMOVALS, len(known) // 2) if len(files) < len(known) else 0
            yield Gone(folder, root, files, len(known), len(files) > allowed)

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

    def _object_id(self, source: SyncItem) -> str:
        return str(uuid5(self._known.namespace, url_of(source.identity)))

    async def _keep(self, change: FileChange, chunks: Mapping[str, int]) -> None:
        content = change.content
        sent = SentFile(change.object_id, content.lasting_stamp(), content.digest, change.signature, chunks)
        await self._pipeline.in_thread(lambda: self._state.keep(change.key, sent))

    async def _stored(self, object_id: str) -> tuple[SentFile | None, dict[str, StoredVersion]]:
        """What was sent of an object, and store → its version; the query includes the objects of the next files."""
        async with self._lock:
            while object_id not in self._in_stores:
                some, self._ahead = self._ahead[:MAX_CALL_OBJECTS], self._ahead[MAX_CALL_OBJECTS:]
                sent = await self._pipeline.in_thread(lambda some=some: self._sent(some))
                found = {store: await self._versions(store, list(sent)) for store in self._known.stores}
                for name, before in sent.items():
                    versions = {store: found[store].get(name, StoredVersion()) for store in self._known.stores}
                    self._in_stores[name] = before, versions
            return self._in_stores.pop(object_id)

    def _sent(self, items: Sequence[SyncItem]) -> dict[str, SentFile | None]:
        """Object id → what was sent of it. Blocks."""
        return {self._object_id(item): self._state.find(os.fsencode(item.identity)) for item in items}

    async def _versions(self, store: str, object_ids: Sequence[str]) -> dict[str, StoredVersion]:
        answer = await self._pipeline.call(store, "versions", {"object_ids": list(object_ids)})
        return msgspec.convert(answer["versions"], dict[str, StoredVersion])

    async def _delete(self, store: str, object_ids: list[str]) -> int:
        return (await self._pipeline.call(store, "delete", {"object_ids": object_ids})).get("deleted_count", 0)

    async def pause(self) -> None:
        """Close what was opened for a run; the next `find` begins another one."""
        for source in self._sources:
            await self._pipeline.in_thread(source.close)
        self._in_stores.clear()

    async def aclose(self) -> None:
        """End the connections, and release the state for other processes."""
        with anyio.CancelScope(shield=True):
            self._state.close()
            await self.pause()
            await self._fetcher.aclose()


async def open_sync(
    pipeline: SyncPipeline, path: str, *, root_name: str | None, warn: Callable[[str], object] = warnings.warn
) -> FolderSync:
    """The sync of a pipeline, with its state in the file `path`; `warn` as for `SyncState`.

    Raises `InvalidArguments` without a suitable store, and `SyncStateError`.
    """
    known = await pipeline.stores()
    state = await pipeline.in_thread(lambda: SyncState(path, known.target, warn))
    return FolderSync(pipeline, known, state, root_name=root_name)


def _extension(key: bytes) -> bytes:
    """The extension of a path, which decides how the file is read."""
    return os.path.splitext(key)[1].lower()


def _seen(sources: Sequence[SyncItem]) -> tuple[set[bytes], tuple[bytes, ...]]:
    """The keys of files that are there, and the beginnings of those in folders that cannot be read."""
    known = [source for source in sources if source.identity]
    unseen = tuple(os.fsencode(os.path.join(source.identity, "")) for source in known if source.problem)
    return {os.fsencode(source.identity) for source in known}, unseen
