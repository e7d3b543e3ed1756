"""`client.knowledge`: folders, lists of addresses, feeds and mailboxes kept in step with the stores of a pipeline."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import anyio
import msgspec
from anyio.to_thread import run_sync

from rrext.client.endpoint import Body
from rrext.client.pipe import Pipe
from rrext.client.server_address import Launch, ServerAddress, SocketAddress, WebServer
from rrext.errors import RrextError, UsageError
from rrext.files.naming import mime_type_of
from rrext.limits import CLIENT_DEFAULTS
from rrext.sync.folder_sync import FolderSync, SentObject, SyncStores, open_sync
from rrext.sync.upload_files import Unreadable, goes_whole

if TYPE_CHECKING:
    from rrext.client.client import Client
    from rrext.sync.items import ItemContent, SyncItem

T = TypeVar("T")

DIGITS: Final = 32
"""Hexadecimal digits in the name of a state, for as many sources and servers as there may be."""


class SyncedFile(msgspec.Struct, frozen=True):
    """What a sync did with one file, page, entry or message.

    `outcome` is "new", "changed", "moved", "deleted", "skipped", "failed" or "not deleted". `result` is the result body of the
    pipeline for what was sent, `skipped` says why nothing was done.
    """

    path: str
    outcome: str
    result: Body | None = None
    error: Exception | None = None
    skipped: str | None = None


class SyncResult(msgspec.Struct, frozen=True):
    """The outcome of a sync: how many items had which outcome, and each that was not unchanged, in the order of their ends."""

    counts: dict[str, int]
    files: list[SyncedFile]

    @property
    def ok(self) -> bool:
        """Whether nothing failed, and nothing that is gone was kept."""
        return not self.counts.get("failed") and not self.counts.get("not deleted")


SyncCallback: TypeAlias = Callable[[SyncedFile], Awaitable[object] | object]


class Knowledge:
    """Keeps the stores of a pipeline in step with what is on this machine; see `Client.knowledge`."""

    __slots__ = ("_address", "_client")

    def __init__(self, client: Client, address: ServerAddress) -> None:
        """Made by the client."""
        self._client = client
        self._address = address

    async def sync(
        self,
        source: str,
        place: str | os.PathLike[str],
        *,
        token: str | None = None,
        node: str | None = None,
        mimetype: str | None = None,
        exclude: Sequence[str] = (),
        max_delete: int | None = None,
        jobs: int = CLIENT_DEFAULTS.jobs,
        state: str | os.PathLike[str] | None = None,
        progress: SyncCallback | None = None,
    ) -> SyncResult:
        """Send what is new or changed in a place of this machine, and delete from the stores what is gone: `rrext send --sync`.

        `place` is a folder, a file, or `urls:FILE`, `feed:ADDRESS-or-FILE`, `mbox:FILE`. `source` is its name: documents are
        known by it and their path below, so that the place may move, and several machines may feed one source in turn.
        `node` is the id of the source node of a pipeline with several, `exclude` and `mimetype` are as for `send_files`.
        If all of a place is gone, or more than half and more than 10, nothing is deleted unless `max_delete` allows so many.
        What was sent is kept in the file `state`, by default one for the server and the source in the folder
        `$XDG_STATE_HOME/rrext` (`~/.local/state/rrext`) of this machine. `progress` is told each outcome but "unchanged".

        A file that fails blocks no other. Raises `InvalidArguments` if files go to no store that can be kept in step,
        `ClientError` (`sync_state`) while another sync uses the state, and failures of the stores themselves.
        """
        if jobs < 1:
            raise UsageError(f"jobs must be at least 1, not {jobs}")
        stores = ClientStores(self._client, token, node, mimetype)
        path = os.fspath(state) if state is not None else await run_sync(default_state, self._address, token, source)
        sync = await open_sync(stores, path, root_name=source)
        try:
            await sync.check_stores()
            run = SyncRun(sync, self._client, token=token, node=node, mimetype=mimetype, progress=progress)
            return await run.run(os.fspath(place), exclude, max_delete, jobs)
        finally:
            await sync.aclose()

    def __repr__(self) -> str:
        return "<Knowledge>"


class ClientStores:
    """The stores of a client's pipeline: a `SyncPipeline`."""

    def __init__(self, client: Client, token: str | None, node: str | None, mimetype: str | None) -> None:
        self._client = client
        self._token = token
        self._asked = {"subcommand": "stores", "token": token, "source": node, "mimeType": mimetype}

    async def stores(self) -> SyncStores:
        return msgspec.convert(await self._client.request("rrext_process", self._asked), SyncStores)

    async def call(self, store: str, tool: str, given: dict[str, Any]) -> Any:
        return await self._client.tool(tool=tool, node_id=store, input=given, token=self._token)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await run_sync(work)


class SyncRun:
    """One run of a client's sync."""

    def __init__(
        self,
        sync: FolderSync,
        client: Client,
        *,
        token: str | None,
        node: str | None,
        mimetype: str | None,
        progress: SyncCallback | None,
    ) -> None:
        self._sync = sync
        self._client = client
        self._token = token
        self._node = node
        self._mimetype = mimetype
        self._progress = progress
        self._counts: Counter[str] = Counter()
        self._files: list[SyncedFile] = []
        self._tasks = anyio.create_task_group()
        self._failure: Exception | None = None
        """The exception of the callback, which ends the run."""

    async def run(self, place: str, exclude: Sequence[str], most: int | None, jobs: int) -> SyncResult:
        """Send, move and delete. Raises the exceptions of the callback, and `UsageError`."""
        items = await self._sync.find([place], exclude)
        left = iter(items)
        async with self._tasks as tasks:
            for _ in range(min(jobs, len(items))):
                tasks.start_soon(self._work, left)
        if self._failure is None:
            await self._delete_gone(items, most)
        if self._failure is not None:
            raise self._failure
        return SyncResult(dict(self._counts), self._files)

    async def _work(self, left: Any) -> None:
        for item in left:
            await self._note(await self._done(item))

    async def _done(self, item: SyncItem) -> SyncedFile:
        if item.skipped is not None:
            return SyncedFile(item.path, "skipped", skipped=item.skipped)
        try:
            if item.problem is not None:
                raise Unreadable(item.problem)
            how, result = await self._sync.deal_with(item, lambda about, content: self._send(item, about, content))
        except Exception as error:  # any failure is that of this item, and the others go on
            if isinstance(error, RrextError) and item.skips(error):
                return SyncedFile(item.path, "skipped", skipped=error.message)
            return SyncedFile(item.path, "failed", getattr(error, "result", None), error)
        return SyncedFile(item.path, how, result)

    async def _send(self, item: SyncItem, about: dict[str, Any], content: ItemContent) -> SentObject:
        mimetype = self._mimetype or content.mime_type or mime_type_of(item.path)
        most = CLIENT_DEFAULTS.whole_write if goes_whole(mimetype) else CLIENT_DEFAULTS.write_chunk
        file = await run_sync(content.open)
        with file:
            pipe: Pipe = self._client.pipe(token=self._token, source=self._node, objinfo=about, mimetype=mimetype)
            async with pipe:
                while piece := await run_sync(file.read, most):
                    await pipe.write(piece)
        body = pipe.result or {}
        return SentObject(body, body.get("stored", {}))

    async def _delete_gone(self, items: Sequence[SyncItem], most: int | None) -> None:
        async for gone in self._sync.gone(items, most):
            outcome, error = "not deleted" if gone.refused else "deleted", None
            try:
                if not gone.refused:
                    await self._sync.delete(gone)
            except RrextError as failure:
                outcome, error = "failed", failure
            for path in gone.paths():
                await self._note(SyncedFile(path, outcome, error=error))

    async def _note(self, done: SyncedFile) -> None:
        self._counts[done.outcome] += 1
        if done.outcome == "unchanged":
            return
        self._files.append(done)
        if self._progress is None or self._failure is not None:
            return
        try:
            answer = self._progress(done)
            if isawaitable(answer):
                await answer
        except Exception as error:  # it ends the run, and is raised unchanged
            self._failure = error
            self._tasks.cancel_scope.cancel()


def default_state(address: ServerAddress, token: str | None, source: str) -> str:
    """The path of the state of a source, for the server at an address; its folder is made. Raises `OSError`, `UsageError`."""
    match address:
        case WebServer():
            known = [address.url]
        case SocketAddress():
            known = [os.path.realpath(address.path)]
        case Launch():
            # The number of our process is in the command, and another one next time.
            known = [os.path.realpath(address.cwd or "."), *(each for each in address.command if each != str(os.getpid()))]
        case _:
            raise UsageError("over a stream no server is known again: name the file of the state (state=)")
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = os.path.join(base, "rrext")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    name = hashlib.sha256(msgspec.json.encode([known, token, source])).hexdigest()[:DIGITS]
    return os.path.join(folder, f"{name}.sync")
