"""A pipeline of a running server.

A command that sends one request after another has a connection that blocks, without an event loop: the imports of an event loop
and of the client take longer than the start of a server for a light pipeline, and a shell loop would pay for them in each call.
Commands with concurrent requests use the client.
"""

from __future__ import annotations

import argparse
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from rrext.cli.console.exit_codes import EXIT_USAGE
from rrext.cli.console.output import Results, print_error
from rrext.cli.options import context_from, key_from
from rrext.cli.pipeline import Absorbs, Interrupts, Pipeline, Work, exit_code_of, is_cancel
from rrext.engine.interface.call import Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import NotConnected, ParseError, RrextError, ToolTimeout, UnknownCommand, UsageError
from rrext.limits import BUSY_POLL_INTERVAL, CLIENT_DEFAULTS, DEFAULTS, READ_BUFFER
from rrext.server.commands import SUBCOMMANDS
from rrext.transports.unix import connect, socket_path
from rrext.version import __version__
from rrext.wire.codec import encode
from rrext.wire.connection import ClientConnection, connection_lost
from rrext.wire.framing import ContentLength
from rrext.wire.messages import QUESTIONS, ClientEvent, Event, Fatal, Malformed, RequestId, Response, answering, number_of

if TYPE_CHECKING:
    from rrext.client.client import Client
    from rrext.wire.websocket import WebSocketClient

COMMAND: Final = "rrext_process"
NAMES: Final = {shape: name for name, shape in SUBCOMMANDS.items()}


IN_SHELL: Final = {
    "`token`": "`--token`",
    "execute it first": "`rrext ps` lists those that run",
    "execute one first": "`rrext serve` runs those that it is given",
}
"""What hints of a server say to programs, and the same for the command line."""


def put_for_shell(error: RrextError) -> None:
    """Put the hint of a server's error in words of the command line, also where its message repeats it."""
    if not (given := error.hint):
        return
    for theirs, ours in IN_SHELL.items():
        error.hint = error.hint.replace(theirs, ours)
    error.message = error.message.replace(given, error.hint)


class ServerPipeline(Pipeline):
    """The pipeline `token` of a server. A subclass sends the requests."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    async def ask(
        self, operation: Operation, *, data: bytes | None = None, feed: Feed | None = None, caller: Caller | None = None
    ) -> tuple[bytes, bytes | None]:
        given = {"subcommand": NAMES[type(operation)], **msgspec.to_builtins(operation), "token": self._token}
        try:
            body = await self.body({key: value for key, value in given.items() if value is not None}, data, feed)
        except RrextError as error:
            put_for_shell(error)
            raise
        tail = body.pop("data", None)
        return encode(body), tail

    async def body(self, arguments: dict[str, Any], tail: bytes | None, feed: Feed | None) -> dict[str, Any]:
        """The body of the answer to a request of `COMMAND`."""
        raise NotImplementedError


def feed_event(feed: Feed, name: str, body: dict[str, Any]) -> None:
    """Pass an event of a call to its feed."""
    if name == "rrext_progress":
        feed.progress(body["progress"], body.get("total"), body.get("message"))
    elif name == "rrext_call":
        feed.call_event({key: value for key, value in body.items() if key != "request"})
    elif "data" in body:
        feed.chunk(body["index"], b"", body["data"])
    else:
        feed.chunk(body["index"], encode(body["chunk"]), None)


T = TypeVar("T")

RECEIVED = msgspec.structs.replace(DEFAULTS, max_frame=CLIENT_DEFAULTS.max_frame)
"""The limits of incoming messages."""


class BlockingRemotePipeline(ServerPipeline):
    """One pipeline of a server. Its coroutines block and never suspend."""

    def __init__(self, token: str | None) -> None:
        super().__init__(token)
        self._connection = ClientConnection(ContentLength(RECEIVED), "dap", RECEIVED)
        self._messages = self._receive()
        self._end: socket.socket | WebSocket | None = None
        self._is_new = True
        self._is_stopped = False

    def connect(self, address: str, key: str | None, context: Mapping[str, str]) -> None:
        """Connect and send `initialize`. Raises `UsageError`, or the reason why no server answers."""
        if address.startswith("unix:"):
            self._end = end = self._connected(address)
        else:
            self._end = end = WebSocket.connect(address)
        end.settimeout(CLIENT_DEFAULTS.start)
        introduction: dict[str, Any] = {"clientName": "rrext", "clientVersion": __version__}
        try:
            if key is not None:
                self._request("auth", {"auth": key, **introduction}, None, None)
            self._request("initialize", {**introduction, "rawTail": True, "context": dict(context)}, None, None)
        except UnknownCommand:
            pass
        except TimeoutError:
            raise ToolTimeout(f'"initialize" did not finish within {CLIENT_DEFAULTS.start:g} s') from None
        self._is_new = False
        end.settimeout(None)

    def _connected(self, address: str) -> socket.socket:
        path, until = socket_path(address), monotonic() + CLIENT_DEFAULTS.start
        while (end := connect(path)) is None:
            self._check()
            if monotonic() > until:
                raise NotConnected(f"the server at {path} takes no more clients, and did not for {CLIENT_DEFAULTS.start:g} s")
            sleep(BUSY_POLL_INTERVAL)
        return end

    async def body(self, arguments: dict[str, Any], tail: bytes | None, feed: Feed | None) -> dict[str, Any]:
        return self._request(COMMAND, arguments, tail, feed)

    def cancellable(self, asked: Coroutine[Any, Any, T]) -> tuple[Awaitable[T], Callable[[], object]]:
        return asked, self.stop

    def stop(self) -> None:
        """Cancel the present request and all later ones; from any thread."""
        self._is_stopped = True
        if self._end is not None:
            try:
                self._end.shutdown(socket.SHUT_RD)  # wakes the thread that waits for an answer
            except OSError:  # the server is gone
                pass

    async def in_thread(self, work: Callable[[], T]) -> T:
        return work()  # on this thread, which no other call needs

    def close(self) -> None:
        """End the connection, and with it the server's work for it."""
        end, self._end = self._end, None
        if end is not None:
            end.close()

    def _request(self, command: str, arguments: dict[str, Any], tail: bytes | None, feed: Feed | None) -> dict[str, Any]:
        """The body of the answer. Raises its error, or `asyncio.CancelledError` after `stop`."""
        number, pieces = self._connection.request(command, arguments, tail)
        self._send(pieces)
        try:
            answer = self._answer_to(number, feed)
        except BaseException as error:
            if is_cancel(error):
                self._send(self._connection.request("cancel", {"requestId": number})[1])
            raise
        if answer.error is not None:
            raise answer.error
        return answer.body

    def _answer_to(self, number: RequestId, feed: Feed | None) -> Response:
        for message in self._messages:
            self._check()
            if isinstance(message, Response):
                if message.id == number:
                    return message
            elif isinstance(message, Event):
                if feed is not None and message.body.get("request") == number:
                    self._pass_on(feed, message)
            elif isinstance(message, Malformed):
                if message.id == number:
                    raise message.error
            elif isinstance(message, Fatal):
                raise connection_lost(message.error, is_new=self._is_new)
        raise AssertionError("messages end with an exception")

    def _pass_on(self, feed: Feed, event: Event) -> None:
        """Pass an event of a call to its feed, and answer it if it asks."""
        if event.name not in QUESTIONS:
            feed_event(feed, event.name, event.body)
        elif "withdrawn" not in event.body:
            given = _outcome(feed.ask(event.name, event.body))
            self._send(self._connection.request(*answering(event.name, number_of(event.name, event.body), given))[1])

    def _receive(self) -> Iterator[ClientEvent]:
        framer = self._connection.framer
        while True:
            assert self._end is not None
            try:
                n = self._end.recv_into(framer.get_buffer())
            except ConnectionError:
                n = 0
            self._check()
            if not n:
                raise connection_lost(None, is_new=self._is_new)
            yield from framer.buffer_updated(n)

    def _send(self, pieces: list[bytes]) -> None:
        assert self._end is not None
        try:
            for piece in pieces:
                self._end.sendall(piece)
        except ConnectionError:  # the answer, or its absence, says more
            pass

    def _check(self) -> None:
        if self._is_stopped:
            from asyncio import CancelledError  # as other pipelines raise

            raise CancelledError


def run_blocking(args: argparse.Namespace, work: Work) -> int:
    """Do the work with the pipeline `args.token` of the server at `args.at`; returns the exit code."""
    pipeline = BlockingRemotePipeline(args.token)
    with Results() as results, Interrupts(pipeline.stop) as interrupts:
        try:
            pipeline.connect(args.at, key_from(args), context_from(args))
            return _outcome(exit_code_of(work(pipeline, results), interrupts))
        except RrextError as error:
            print_error(error)
            return EXIT_USAGE
        finally:
            pipeline.close()


def _outcome(work: Awaitable[T]) -> T:
    try:
        next(work.__await__())
    except StopIteration as done:
        outcome: T = done.value
        return outcome
    raise UsageError("this command waits for something else than its server")


class WebSocket:
    """An open WebSocket that blocks, with the methods of a socket that carries frames."""

    def __init__(self, end: socket.socket, client: WebSocketClient) -> None:
        self._end = end
        self._client = client
        self._frames: deque[memoryview] = deque()

    @classmethod
    def connect(cls, text: str) -> WebSocket:
        """Connect to an address. Raises `UsageError` and `NotConnected`."""
        from rrext.transports.web import WebAddress
        from rrext.wire.websocket import WebSocketClient

        address = WebAddress.of(text)
        end = address.connect(CLIENT_DEFAULTS.start)
        client = WebSocketClient(address.host_header, address.path)
        try:
            end.sendall(client.opening)
            while not client.opened(received(end)):
                pass
        except OSError as error:
            end.close()
            raise address.refused(error) from None
        except BaseException:
            end.close()
            raise
        return cls(end, client)

    def recv_into(self, buffer: memoryview) -> int:
        """Wait for bytes, and put them into the buffer; 0 at the end. Raises `ConnectionError` for what no server sends."""
        while not self._frames:
            if self._client.is_closed:
                return 0
            data = self._end.recv(READ_BUFFER)
            if not data:
                return 0
            try:
                self._frames.extend(map(memoryview, self._client.receive(data)))
            except ParseError as error:
                raise ConnectionError(error.message) from None
            if self._client.replies:
                replies = bytes(self._client.replies)
                self._client.replies.clear()
                self._end.sendall(replies)
        first = self._frames.popleft()
        size = min(len(buffer), len(first))
        buffer[:size] = first[:size]
        if size < len(first):
            self._frames.appendleft(first[size:])
        return size

    def sendall(self, data: bytes) -> None:
        """Send bytes of frames; a frame leaves when it is whole."""
        for message in self._client.send([data]):
            self._end.sendall(message)

    def settimeout(self, seconds: float | None) -> None:
        """Limit the time of each wait."""
        self._end.settimeout(seconds)

    def shutdown(self, how: int) -> None:
        """End a direction of the connection."""
        self._end.shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        self._end.close()


def received(end: socket.socket) -> bytes:
    """Bytes of the peer. Raises `ConnectionError` at the end."""
    data = end.recv(READ_BUFFER)
    if not data:
        raise ConnectionError("the connection was closed at once")
    return data


class RemotePipeline(ServerPipeline):
    """One pipeline of a server, reached through the SDK client."""

    def __init__(self, client: Client, token: str | None) -> None:
        super().__init__(token)
        self.client = client
        """Its connection."""
        self.token = token
        """Its name; None for the only one."""

    async def body(self, arguments: dict[str, Any], tail: bytes | None, feed: Feed | None) -> dict[str, Any]:
        return await self.client.request(COMMAND, arguments, tail, on_event=None if feed is None else partial(feed_event, feed))

    async def in_thread(self, work: Callable[[], T]) -> T:
        from asyncio import to_thread

        return await to_thread(work)


def run_remotely(args: argparse.Namespace, work: Work, *, keeps_stdin: bool = False, absorbs: Absorbs | None = None) -> int:
    """As `run_blocking`, for work with concurrent requests. `absorbs` may keep signals from ending the work."""
    import asyncio

    with Results(keeps_stdin=keeps_stdin) as results, asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(_run(args, work, results, absorbs))


async def _run(args: argparse.Namespace, work: Work, results: Results, absorbs: Absorbs | None) -> int:
    import asyncio

    from rrext.client.client import Client

    me, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert me is not None  # this coroutine runs in it
    with Interrupts(lambda: loop.call_soon_threadsafe(me.cancel), absorbs) as interrupts:
        try:
            async with Client.connect(args.at, key=key_from(args), context=context_from(args)) as client:
                return await exit_code_of(work(RemotePipeline(client, args.token), results), interrupts)
        except RrextError as error:
            print_error(error)
            return EXIT_USAGE
