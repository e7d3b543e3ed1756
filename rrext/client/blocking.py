"""`rrext.blocking.Client`, its pipes and its tools of databases and stores: the SDK without `async`, from any thread.

Each object stands around one of the async client, whose event loop runs in a thread of its own, beside the threads of callers
that block.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from rrext.client.chat_events import ChatEvent
from rrext.client.chat_turn import ChatTurn as AsyncChatTurn
from rrext.client.chat_turn import Question
from rrext.client.client import Client as AsyncClient
from rrext.client.databases import Database as AsyncDatabase
from rrext.client.databases import Transaction as AsyncTransaction
from rrext.client.databases import Vectors as AsyncVectors
from rrext.client.databases import WhichNode
from rrext.client.endpoint import Body
from rrext.client.knowledge import Knowledge as AsyncKnowledge
from rrext.client.pipe import Pipe as AsyncPipe
from rrext.client.stored_files import StoredFiles as AsyncStoredFiles
from rrext.client.updates import EventStream, MonitorTarget, ServerEvent
from rrext.errors import NotConnected, UsageError
from rrext.limits import CLIENT_DEFAULTS

P = ParamSpec("P")


def _made_by(make: Callable[P, AsyncClient]) -> Callable[P, Client]:
    """The constructor of the same arguments."""

    @functools.wraps(make)
    def construct(*args: P.args, **kwargs: P.kwargs) -> Client:
        return Client(make(*args, **kwargs))

    return construct


R = TypeVar("R")

W = TypeVar("W")


class Wrapping(Protocol[W]):
    """Has an async object, and the portal to its event loop. Raises `NotConnected` when there is no loop."""

    wrapped: W

    @property
    def portal(self) -> Portal:
        """The way to the event loop."""
        ...


def in_caller_thread(method: Callable[Concatenate[W, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Wrapping[W], P], R]:
    """The blocking form of an async method that waits for answers alone: it runs in the caller's thread."""

    @functools.wraps(method)
    def call(self: Wrapping[W], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.portal.in_caller_thread(method, self.wrapped, *args, **kwargs)

    return call


class Blocking(Generic[W]):
    """An async object, and the loop that runs it."""

    def __init__(self, wrapped: W, portal: Portal) -> None:
        """Made by the blocking client."""
        self.wrapped = wrapped
        self.portal = portal

    def __repr__(self) -> str:
        return f"<blocking {self.wrapped!r}>"


Step: TypeAlias = Callable[[], None]


class Portal:
    """Runs coroutines for a blocking caller, and their callbacks on the caller's thread.

    A request needs no loop: its coroutine runs in the caller's thread (`in_caller_thread`), where its waits block. A coroutine
    that has tasks of its own, or reads files, runs as a task of the loop (`run`).
    """

    def __init__(self, backend: str) -> None:
        self._manager = start_blocking_portal(backend)
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Portal:
        self._portal = self._manager.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._manager.__exit__(kind, error, trace)

    @property
    def _opened(self) -> BlockingPortal:
        assert self._portal is not None
        return self._portal

    def entered(self, manager: AbstractAsyncContextManager[R]) -> AbstractContextManager[R]:
        """The manager, entered and left on the loop's thread, in one task."""
        return self._opened.wrap_async_context_manager(manager)

    def in_caller_thread(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function in this thread and return its result. It waits for nothing but answers and its turn."""
        for name, value in kwargs.items():
            if callable(value):
                kwargs[name] = self.with_loop(value)
        coroutine = function(*args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        coroutine.close()
        raise UsageError("The blocking client cannot be used on its own event loop's thread, where on_stderr is called.")

    def with_loop(self, callback: Callable[..., object]) -> Callable[..., object]:
        """A callback for the caller's thread; an `async` one is awaited on the loop."""

        def call(*values: Any) -> object:
            answer = callback(*values)
            return self.run(_awaited, answer) if isawaitable(answer) else answer

        return call

    def run(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function to its end and return its result.

        If Ctrl-C or a failing callback ends the wait early, the coroutine is cancelled.
        """
        steps: SimpleQueue[Step | Future[Any]] = SimpleQueue()
        given = {name: self._at_home(value, steps) if callable(value) else value for name, value in kwargs.items()}
        future: Future[R] = self._opened.start_task_soon(partial(function, *args, **given))
        try:
            future.add_done_callback(steps.put)
            while not isinstance(step := steps.get(), Future):
                step()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _at_home(self, callback: Callable[..., object], steps: SimpleQueue[Any]) -> Callable[..., object]:
        """A callback for the loop that has the real one run where `run` waits, and waits for that."""
        if iscoroutinefunction(callback):
            return callback

        async def call(*values: Any) -> object:
            done = anyio.Event()
            answer: object = None

            def step() -> None:
                nonlocal answer
                answer = callback(*values)
                self._opened.start_task_soon(done.set)

            steps.put(step)
            await done.wait()
            return answer

        return call


async def _awaited(answer: Awaitable[R]) -> R:
    return await answer


class Pipe(Blocking[AsyncPipe]):
    """A pipe as `rrext.Client.pipe` makes it: `with client.pipe() as pipe: pipe.write(data)`, then `pipe.result`."""

    write: Final = in_caller_thread(AsyncPipe.write)
    tool: Final = in_caller_thread(AsyncPipe.tool)
    close: Final = in_caller_thread(AsyncPipe.close)

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


class ChatTurn(Blocking[AsyncChatTurn]):
    """A question that is being answered: `with client.chat_events(question=…) as turn: for event in turn: …`; see
    `rrext.ChatTurn`.
    """

    _entered: AbstractContextManager[AsyncChatTurn] | None = None

    @property
    def result(self) -> Body | None:
        """The result of the pipeline, after the last event."""
        return self.wrapped.result

    def cancel(self, call: int) -> None:
        """Cancel one tool that runs, also a sub-agent, by the `call` of its `ToolBegun`: its caller is told, and goes on."""
        self.wrapped.cancel(call)

    def __enter__(self) -> ChatTurn:
        self._entered = self.portal.entered(self.wrapped)
        self._entered.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._entered is not None
        self._entered.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[ChatEvent]:
        while (item := self.portal.run(self.wrapped.following)) is not None:
            if isinstance(item, ChatEvent):
                yield item
                continue
            given: Any = self.portal.with_loop(item.callback)(item.body)
            yield self.portal.run(self._answer, item, given)

    async def _answer(self, question: Question, given: Any) -> ChatEvent:
        return self.wrapped._answer(question, given)  # pyright: ignore[reportPrivateUsage]


def _piped_by(make: Callable[Concatenate[AsyncClient, P], AsyncPipe]) -> Callable[Concatenate[Client, P], Pipe]:
    """The maker of pipes with the same arguments."""

    @functools.wraps(make)
    def construct(self: Client, *args: P.args, **kwargs: P.kwargs) -> Pipe:
        for name, value in kwargs.items():
            if callable(value):
                kwargs[name] = self.portal.with_loop(value)
        return Pipe(make(self.wrapped, *args, **kwargs), self.portal)

    return construct


def _asked_by(make: Callable[Concatenate[AsyncClient, P], AsyncChatTurn]) -> Callable[Concatenate[Client, P], ChatTurn]:
    """The maker of turns with the same arguments."""

    @functools.wraps(make)
    def construct(self: Client, *args: P.args, **kwargs: P.kwargs) -> ChatTurn:
        return ChatTurn(make(self.wrapped, *args, **kwargs), self.portal)

    return construct


def _read_events(portal: Portal, stream: EventStream) -> Iterator[ServerEvent]:
    async def following() -> ServerEvent | None:
        return await anext(stream, None)

    while (event := portal.run(following)) is not None:
        yield event


class Transaction(Blocking[AsyncTransaction]):
    """A transaction of `Database.transaction`: `query` runs a statement in it."""

    query: Final = in_caller_thread(AsyncTransaction.query)

    @property
    def session_id(self) -> str:
        """The server's name of this transaction."""
        return self.wrapped.session_id


class Database(Blocking[AsyncDatabase]):
    """`rrext.Database` with the same names, blocking."""

    query: Final = in_caller_thread(AsyncDatabase.query)
    read: Final = in_caller_thread(AsyncDatabase.read)
    stream: Final = in_caller_thread(AsyncDatabase.stream)
    begin_transaction: Final = in_caller_thread(AsyncDatabase.begin_transaction)
    commit: Final = in_caller_thread(AsyncDatabase.commit)
    rollback: Final = in_caller_thread(AsyncDatabase.rollback)
    dialect: Final = in_caller_thread(AsyncDatabase.dialect)
    schema: Final = in_caller_thread(AsyncDatabase.schema)

    @contextmanager
    def transaction(self, **which: Unpack[WhichNode]) -> Iterator[Transaction]:
        """A transaction as a block: committed at its end, rolled back if the block fails."""
        wrapped: Any = self.wrapped.transaction(**which)
        with self.portal.entered(wrapped) as transaction:
            yield Transaction(transaction, self.portal)


class Vectors(Blocking[AsyncVectors]):
    """`rrext.Vectors` with the same names, blocking."""

    search: Final = in_caller_thread(AsyncVectors.search)
    upsert: Final = in_caller_thread(AsyncVectors.upsert)
    delete: Final = in_caller_thread(AsyncVectors.delete)
    move: Final = in_caller_thread(AsyncVectors.move)
    list: Final = in_caller_thread(AsyncVectors.list)
    get: Final = in_caller_thread(AsyncVectors.get)
    versions: Final = in_caller_thread(AsyncVectors.versions)
    stats: Final = in_caller_thread(AsyncVectors.stats)


class StoredFiles(Blocking[AsyncStoredFiles]):
    """`rrext.StoredFiles` with the same names, blocking."""

    read: Final = in_caller_thread(AsyncStoredFiles.read)
    write: Final = in_caller_thread(AsyncStoredFiles.write)
    stat: Final = in_caller_thread(AsyncStoredFiles.stat)
    list: Final = in_caller_thread(AsyncStoredFiles.list)
    delete: Final = in_caller_thread(AsyncStoredFiles.delete)
    rename: Final = in_caller_thread(AsyncStoredFiles.rename)
    make_folder: Final = in_caller_thread(AsyncStoredFiles.make_folder)
    remove_folder: Final = in_caller_thread(AsyncStoredFiles.remove_folder)


def on_loop(method: Callable[Concatenate[W, P], Awaitable[R]]) -> Callable[Concatenate[Wrapping[W], P], R]:
    """The blocking form of an async method that has tasks or reads files: it runs as a task of the loop."""

    @functools.wraps(method)
    def call(self: Wrapping[W], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.portal.run(method, self.wrapped, *args, **kwargs)

    return call


class Knowledge(Blocking[AsyncKnowledge]):
    """`rrext.Knowledge` with the same names, blocking."""

    sync: Final = on_loop(AsyncKnowledge.sync)


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

    spawn: Final = staticmethod(_made_by(AsyncClient.spawn))
    connect: Final = staticmethod(_made_by(AsyncClient.connect))
    over: Final = staticmethod(_made_by(AsyncClient.over))

    use: Final = on_loop(AsyncClient.use)
    terminate: Final = in_caller_thread(AsyncClient.terminate)
    validate: Final = on_loop(AsyncClient.validate)
    services: Final = in_caller_thread(AsyncClient.services)
    tasks: Final = in_caller_thread(AsyncClient.tasks)
    status: Final = in_caller_thread(AsyncClient.status)
    send: Final = in_caller_thread(AsyncClient.send)
    send_files: Final = on_loop(AsyncClient.send_files)
    chat: Final = in_caller_thread(AsyncClient.chat)
    chat_events: Final = _asked_by(AsyncClient.chat_events)
    tool: Final = in_caller_thread(AsyncClient.tool)
    tools: Final = in_caller_thread(AsyncClient.tools)
    tools_resolve: Final = in_caller_thread(AsyncClient.tools_resolve)
    tools_call: Final = in_caller_thread(AsyncClient.tools_call)
    ping: Final = in_caller_thread(AsyncClient.ping)
    cancel: Final = in_caller_thread(AsyncClient.cancel)
    shutdown: Final = in_caller_thread(AsyncClient.shutdown)
    request: Final = in_caller_thread(AsyncClient.request)
    close: Final = on_loop(AsyncClient.close)
    pipe: Final = _piped_by(AsyncClient.pipe)

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
    def knowledge(self) -> Knowledge:
        """Folders of this machine, kept in the stores of a pipeline; see `rrext.Client.knowledge`."""
        return Knowledge(self.wrapped.knowledge, self.portal)

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
