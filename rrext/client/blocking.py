"""`rrext.blocking.Client`, its pipes and its tools of databases and stores: the SDK without `async`, from any thread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Unpack

from rrext.client import client as client_module
from rrext.client import database as database_module
from rrext.client import pipe as pipe_module
from rrext.client import stored_files as stored_files_module
from rrext.client import vectors as vectors_module
from rrext.client.blocking_wrapper import Blocking, in_caller_thread, on_loop
from rrext.client.events import EventStream, MonitorTarget, ServerEvent
from rrext.client.node_tools import WhichNode
from rrext.client.pending_call import Body
from rrext.client.portal import Portal
from rrext.errors import NotConnected, UsageError
from rrext.limits import CLIENT_DEFAULTS

P = ParamSpec("P")

AsyncClient = client_module.Client
AsyncPipe = pipe_module.Pipe


def _made_by(make: Callable[P, AsyncClient]) -> Callable[P, Client]:
    """The constructor of the same arguments."""

    @functools.wraps(make)
    def construct(*args: P.args, **kwargs: P.kwargs) -> Client:
        return Client(make(*args, **kwargs))

    return construct


class Pipe(Blocking[AsyncPipe]):
    """A pipe as `rrext.Client.pipe` makes it: `with client.pipe() as pipe: pipe.write(data)`, then `pipe.result`."""

    write = in_caller_thread(AsyncPipe.write)
    tool = in_caller_thread(AsyncPipe.tool)
    close = in_caller_thread(AsyncPipe.close)

    def open(self, *, timeout: float | None = None) -> Pipe:
        """Open the pipe; waits while all pipes of the pipeline are in use."""
        self.portal.in_caller_thread(self.wrapped.open, timeout=timeout)
        return self

    @property
    def pipe_id(self) -> int | None:
        """The server's number of this pipe, once it is open."""
        return self.wrapped.pipe_id

    @property
    def result(self) -> Body | None:
        """The pipeline's result, once the pipe is closed."""
        return self.wrapped.result

    def __enter__(self) -> Pipe:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.portal.in_caller_thread(self.wrapped.__aexit__, kind, error, trace)


def _piped_by(make: Callable[Concatenate[AsyncClient, P], AsyncPipe]) -> Callable[Concatenate[Client, P], Pipe]:
    """The maker of pipes with the same arguments."""

    @functools.wraps(make)
    def construct(self: Client, *args: P.args, **kwargs: P.kwargs) -> Pipe:
        return Pipe(make(self.wrapped, *args, **kwargs), self.portal)

    return construct


class Client:
    """`rrext.Client` with the same names, blocking: `with Client.spawn("weather.pipe") as client: client.tool(tool=…)`.

    Its event loop has a thread of its own. Ctrl-C in a call cancels the tool itself. Callbacks run in the thread of the
    call that they belong to, and may use the client; `async` ones are awaited on the loop. `over` takes a
    `rrext.transports.descriptor_channel.FdChannel`.
    """

    def __init__(self, wrapped: AsyncClient, *, backend: str = "asyncio") -> None:
        """Use `spawn`, `connect` or `over`."""
        self.wrapped = wrapped
        self._backend = backend
        self._portal: Portal | None = None
        self._stack = ExitStack()
        self._used = False

    spawn = staticmethod(_made_by(AsyncClient.spawn))
    connect = staticmethod(_made_by(AsyncClient.connect))
    over = staticmethod(_made_by(AsyncClient.over))

    use = on_loop(AsyncClient.use)
    terminate = in_caller_thread(AsyncClient.terminate)
    validate = on_loop(AsyncClient.validate)
    services = in_caller_thread(AsyncClient.services)
    tasks = in_caller_thread(AsyncClient.tasks)
    status = in_caller_thread(AsyncClient.status)
    send = in_caller_thread(AsyncClient.send)
    send_files = on_loop(AsyncClient.send_files)
    chat = in_caller_thread(AsyncClient.chat)
    tool = in_caller_thread(AsyncClient.tool)
    tools = in_caller_thread(AsyncClient.tools)
    tools_resolve = in_caller_thread(AsyncClient.tools_resolve)
    tools_call = in_caller_thread(AsyncClient.tools_call)
    ping = in_caller_thread(AsyncClient.ping)
    cancel = in_caller_thread(AsyncClient.cancel)
    shutdown = in_caller_thread(AsyncClient.shutdown)
    request = in_caller_thread(AsyncClient.request)
    close = on_loop(AsyncClient.close)
    pipe = _piped_by(AsyncClient.pipe)

    def events(self, *, size: int = CLIENT_DEFAULTS.events) -> Iterator[ServerEvent]:
        """The server's events from now on: `for event in client.events()`; see `rrext.Client.events`."""
        portal = self.portal

        async def listen() -> EventStream:
            return self.wrapped.events(size=size)

        return _read_events(portal, portal.run(listen))

    def monitor(
        self, *types: str, size: int = CLIENT_DEFAULTS.events, **target: Unpack[MonitorTarget]
    ) -> Iterator[ServerEvent]:
        """Ask for these types of events of tasks: `for event in client.monitor("TASK")`; see `rrext.Client.monitor`."""
        portal = self.portal

        async def listen() -> EventStream:
            return await self.wrapped.monitor(*types, size=size, **target)

        return _read_events(portal, portal.run(listen))

    @property
    def database(self) -> Database:
        """The tools of database nodes by name; see `rrext.Client.database`."""
        return Database(self.wrapped.database, self.portal)

    @property
    def vectors(self) -> Vectors:
        """The tools of vector stores by name; see `rrext.Client.vectors`."""
        return Vectors(self.wrapped.vectors, self.portal)

    @property
    def files(self) -> StoredFiles:
        """The files that this user keeps on the server; see `rrext.Client.files`."""
        return StoredFiles(self.wrapped.files, self.portal)

    @property
    def server(self) -> Body:
        """The body of the answer to `initialize`."""
        return self.wrapped.server

    @property
    def portal(self) -> Portal:
        """The way to the event loop. Raises `NotConnected` outside of the `with` block."""
        if self._portal is not None:
            return self._portal
        why = "is closed." if self._used else "is not connected yet: use it in a `with` block."
        raise NotConnected(f"The client {why}")

    def __enter__(self) -> Client:
        if self._used:
            raise UsageError("A client is used once: make another.")
        self._used = True
        with ExitStack() as stack:
            portal = stack.enter_context(Portal(self._backend))
            stack.enter_context(portal.entered(self.wrapped))
            self._portal = portal
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._stack.__exit__(kind, error, trace)
        finally:
            self._portal = None

    def __repr__(self) -> str:
        return f"<blocking {self.wrapped!r}>"


def _read_events(portal: Portal, stream: EventStream) -> Iterator[ServerEvent]:
    async def following() -> ServerEvent | None:
        return await anext(stream, None)

    while (event := portal.run(following)) is not None:
        yield event


AsyncDatabase = database_module.Database
AsyncTransaction = database_module.Transaction
AsyncVectors = vectors_module.Vectors
AsyncStoredFiles = stored_files_module.StoredFiles


class Transaction(Blocking[AsyncTransaction]):
    """A transaction of `Database.transaction`: `query` runs a statement in it."""

    query = in_caller_thread(AsyncTransaction.query)

    @property
    def session_id(self) -> str:
        """The server's name of this transaction."""
        return self.wrapped.session_id


class Database(Blocking[AsyncDatabase]):
    """`rrext.client.database.Database` with the same names, blocking."""

    query = in_caller_thread(AsyncDatabase.query)
    read = in_caller_thread(AsyncDatabase.read)
    stream = in_caller_thread(AsyncDatabase.stream)
    begin_transaction = in_caller_thread(AsyncDatabase.begin_transaction)
    commit = in_caller_thread(AsyncDatabase.commit)
    rollback = in_caller_thread(AsyncDatabase.rollback)
    dialect = in_caller_thread(AsyncDatabase.dialect)
    schema = in_caller_thread(AsyncDatabase.schema)

    @contextmanager
    def transaction(self, **which: Unpack[WhichNode]) -> Iterator[Transaction]:
        """A transaction as a block: committed at its end, rolled back if the block fails."""
        wrapped: Any = self.wrapped.transaction(**which)
        with self.portal.entered(wrapped) as transaction:
            yield Transaction(transaction, self.portal)


class Vectors(Blocking[AsyncVectors]):
    """`rrext.client.vectors.Vectors` with the same names, blocking."""

    search = in_caller_thread(AsyncVectors.search)
    upsert = in_caller_thread(AsyncVectors.upsert)
    delete = in_caller_thread(AsyncVectors.delete)
    move = in_caller_thread(AsyncVectors.move)
    list = in_caller_thread(AsyncVectors.list)
    get = in_caller_thread(AsyncVectors.get)
    versions = in_caller_thread(AsyncVectors.versions)
    stats = in_caller_thread(AsyncVectors.stats)


class StoredFiles(Blocking[AsyncStoredFiles]):
    """`rrext.client.stored_files.StoredFiles` with the same names, blocking."""

    read = in_caller_thread(AsyncStoredFiles.read)
    write = in_caller_thread(AsyncStoredFiles.write)
    stat = in_caller_thread(AsyncStoredFiles.stat)
    list = in_caller_thread(AsyncStoredFiles.list)
    delete = in_caller_thread(AsyncStoredFiles.delete)
    rename = in_caller_thread(AsyncStoredFiles.rename)
    make_folder = in_caller_thread(AsyncStoredFiles.make_folder)
    remove_folder = in_caller_thread(AsyncStoredFiles.remove_folder)
