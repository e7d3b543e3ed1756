"""A server that does what a test tells it, over a stream in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from rrext.client.client import Client
from rrext.errors import PipeNotOpen, RrextError, UnknownCommand
from rrext.testing.sessions import memory_pair
from rrext.wire.codec import encode
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import Request

Handler = Callable[[Request], Any]

HELLO = {
    "server": {"name": "scripted", "version": "0"},
    "protocol": "1",
    "capabilities": {},
    "limits": {"maxInflight": 4096, "maxFrame": 16 * 1024 * 1024, "drain": 5.0},
    "commands": [],
}


class Peer:
    """Answers `initialize` and `disconnect`; the rest goes to `handler`, or waits in `take` for the test.

    A handler returns the body, or raises the error; None means: the test answers later.
    """

    def __init__(self, stream: ByteStream, handler: Handler | None = None, hello: dict[str, Any] | None = None) -> None:
        self.stream = stream
        self.wire = ServerConnection(ContentLength())
        self.handler = handler
        self.hello = HELLO if hello is None else hello
        self.seen: list[Request] = []
        self.put, self.requests = anyio.create_memory_object_stream[Request](10_000)
        self.writing = anyio.Lock()
        self.reading = anyio.Event()
        self.reading.set()

    async def run(self) -> None:
        """Serve until the client is gone."""
        with self.put:
            while True:
                await self.reading.wait()
                try:
                    data = await self.stream.receive()
                except (anyio.EndOfStream, anyio.ClosedResourceError):
                    return
                for request in self.wire.framer.receive_data(data):
                    assert isinstance(request, Request), request
                    await self.handle(request)

    def stall(self) -> None:
        """Read no more."""
        if self.reading.is_set():
            self.reading = anyio.Event()

    def go_on(self) -> None:
        """Read again."""
        self.reading.set()

    async def handle(self, request: Request) -> None:
        self.seen.append(request)
        if request.command == "initialize":
            self.wire.raw_tail = bool(request.arguments.get("rawTail"))
            await self.answer(request, self.hello)
        elif request.command == "disconnect":
            await self.answer(request, {})
        elif self.handler is None:
            await self.put.send(request)
        else:
            await self.delegate(self.handler, request)

    async def delegate(self, handler: Handler, request: Request) -> None:
        try:
            await self.answer_by(handler, request)
        except anyio.BrokenResourceError:
            pass  # a test that waits for the request, and not for its answer, may be over by now

    async def answer_by(self, handler: Handler, request: Request) -> None:
        try:
            body = handler(request)
        except RrextError as error:
            await self.fail(request, error)
        else:
            if body is not None:
                await self.answer(request, body)

    async def take(self, command: str | None = None) -> Request:
        """The next request, which has to be of that command or subcommand."""
        request = await self.requests.receive()
        assert command in (None, request.command, request.arguments.get("subcommand")), request
        return request

    async def answer(self, request: Request, body: dict[str, Any], tail: bytes | None = None) -> None:
        assert request.id is not None
        encoded = encode(body)
        if tail is None:
            await self.send(self.wire.result(request.id, request.command, encoded))
        else:
            await self.send(self.wire.result_tail(request.id, request.command, encoded, tail))

    async def fail(self, request: Request, error: RrextError) -> None:
        await self.send(self.wire.error(request.id, request.command, error))

    async def event(self, name: str, body: dict[str, Any], tail: bytes | None = None) -> None:
        await self.send(self.wire.event(name, encode(body), tail))

    async def progress(self, request: Request, value: float, **more: Any) -> None:
        await self.event("rrext_progress", {"request": request.id, "progress": value, **more})

    async def chunk(self, request: Request, index: int, chunk: Any) -> None:
        await self.event("rrext_chunk", {"request": request.id, "index": index, "chunk": chunk})

    async def send(self, pieces: list[bytes]) -> None:
        async with self.writing:
            for piece in pieces:
                await self.stream.send(piece)

    def commands(self) -> list[str]:
        """What was asked, after `initialize`: commands, and of `rrext_process` the subcommands."""
        return [r.arguments.get("subcommand", r.command) for r in self.seen if r.command != "initialize"]


@asynccontextmanager
async def connected(
    handler: Handler | None = None,
    *,
    dialect: Any = "dap",
    hello: dict[str, Any] | None = None,
    capacity: int = 65536,
    kind: type[Peer] = Peer,
    patience: float = 30,
) -> AsyncIterator[tuple[Client, Peer]]:
    """A client and its scripted server, for `patience` seconds at most. What the block raises comes out as it is."""
    ours, theirs = memory_pair(capacity)
    peer = kind(theirs, handler, hello)
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.cancel_scope.deadline = anyio.current_time() + patience
        tasks.start_soon(peer.run)
        try:
            async with Client.over(ours, dialect=dialect) as client:
                yield client, peer
        except Exception as error:
            failure = error
        finally:
            peer.requests.close()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    assert anyio.current_time() < tasks.cancel_scope.deadline, "something waited for ever"


async def settle(turns: int = 30) -> None:
    """Let everybody go on as far as they can."""
    for _ in range(turns):
        await checkpoint()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that needs nothing but the other tasks."""
    while not condition():
        await checkpoint()


class EchoPipes:
    """A handler with pipes that remember what was written, and a tool `echo`."""

    def __init__(self) -> None:
        self.open: dict[int, bytearray] = {}
        self.opened: list[dict[str, Any]] = []

    def __call__(self, request: Request) -> dict[str, Any]:
        arguments = request.arguments
        match arguments.get("subcommand", request.command):
            case "open":
                self.opened.append(arguments)
                number = len(self.opened)
                self.open[number] = bytearray()
                return {"pipe_id": number}
            case "write":
                assert request.tail is not None
                self.open[arguments["pipe_id"]] += request.tail
                return {}
            case "close":
                if arguments["pipe_id"] not in self.open:
                    raise PipeNotOpen(f"Pipe {arguments['pipe_id']} is not open")
                data = self.open.pop(arguments["pipe_id"])
                return {"result_types": {"text": "text"}, "text": [data.decode("latin-1")]}
            case "tool":
                return {"result": {"echo": arguments.get("input"), "pipe": arguments.get("pipe_id")}}
            case "cancel" | "rrext_ping":
                return {}
            case _:
                raise UnknownCommand(f"Invalid command: {request.command}")
