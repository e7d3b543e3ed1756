"""A session in this process over a sink that takes as much as the test lets it, and a client that notes all it reads."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from rrext.engine.interface.call import Caller
from rrext.engine.local_engine import LocalEngine
from rrext.limits import DEFAULTS
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.server.session import Session
from rrext.testing.sessions import ManualClock
from rrext.wire.connection import ClientConnection, ServerConnection
from rrext.wire.framing import ContentLength
from rrext.wire.messages import Event, Response

__all__ = ["SessionWorld", "Sink", "session_world", "until"]

ENDLESS = 1 << 60


async def until(condition: Callable[[], Any]) -> None:
    """Return when it holds; the test's own timeout ends it."""
    while not condition():
        await asyncio.sleep(0.0005)


class Sink:
    """Takes `room` bytes, then none until `drain`. `taken` is all it took, `writes` how often it was asked."""

    def __init__(self, room: int = ENDLESS) -> None:
        self.room = room
        self.taken = bytearray()
        self.writes = 0
        self.is_broken = False
        self._action: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        self.writes += 1
        if self.is_broken:
            raise BrokenPipeError
        data = b"".join(pieces)[: max(self.room, 0)]
        self.room -= len(data)
        self.taken += data
        return len(data)

    def when_writable(self, action: Callable[[], None]) -> None:
        assert self._action is None, "asked twice"
        self._action = action

    def drain(self, room: int = ENDLESS) -> None:
        """The peer reads so many bytes more."""
        self.room += room
        action, self._action = self._action, None
        if action is not None:
            self._loop.call_soon_threadsafe(action)


class SessionWorld:
    """A session with its engine, and what its client sees."""

    def __init__(self, engine: LocalEngine, clock: ManualClock, dialect: Any, room: int, trusted: bool) -> None:
        self.engine = engine
        self.clock = clock
        self.sink = Sink(room)
        self.ends: list[str] = []
        self.told = 0
        self.client = ClientConnection(ContentLength(), dialect)
        self._read = 0
        self._heard: list[Any] = []
        self.session = Session(
            engine,
            ServerConnection(ContentLength(engine.limits), engine.limits),
            self.sink,
            loop=asyncio.get_running_loop(),
            limits=engine.limits,
            caller=Caller("client", trusted=trusted),
            now=clock.now,
            on_shutdown=self.ends.append,
            on_answer=self._on_answer,
        )

    def _on_answer(self) -> None:
        self.told += 1

    # sending

    def frame(self, command: str, tail: bytes | None = None, **arguments: Any) -> tuple[Any, bytes]:
        """A request's id and bytes."""
        number, pieces = self.client.request(command, arguments, tail)
        return number, b"".join(pieces)

    def tool(self, name: str, input: Any = None, /, **arguments: Any) -> tuple[Any, bytes]:
        return self.frame("rrext_process", subcommand="tool", tool=name, input={} if input is None else input, **arguments)

    async def feed(self, *frames: bytes | tuple[Any, bytes]) -> list[Any]:
        """Let the session read bytes in one go, in a callback of the loop as the reader does; the ids."""
        data = b"".join(frame if isinstance(frame, bytes) else frame[1] for frame in frames)
        done = asyncio.get_running_loop().create_future()

        def read() -> None:
            self.session.handle_all(self.session.connection.framer.receive_data(data))
            done.set_result(None)

        asyncio.get_running_loop().call_soon(read)
        await done
        return [frame[0] for frame in frames if not isinstance(frame, bytes)]

    async def ask(self, command: str, tail: bytes | None = None, **arguments: Any) -> Response:
        """One request's answer."""
        (number,) = await self.feed(self.frame(command, tail, **arguments))
        return await self.answer(number)

    # reading

    @property
    def heard(self) -> list[Any]:
        """All messages so far."""
        new = bytes(self.sink.taken[self._read :])
        self._read += len(new)
        self._heard += self.client.framer.receive_data(new)
        return self._heard

    @property
    def answers(self) -> dict[Any, list[Response]]:
        """By id; None is the id of answers without one."""
        found: dict[Any, list[Response]] = defaultdict(list)
        for message in self.heard:
            if isinstance(message, Response):
                found[message.id].append(message)
        return found

    @property
    def events(self) -> list[Event]:
        return [message for message in self.heard if isinstance(message, Event)]

    async def answer(self, number: Any) -> Response:
        """The only answer to an id."""
        await until(lambda: number in self.answers)
        (answer,) = self.answers[number]
        return answer

    async def result(self, number: Any) -> Any:
        answer = await self.answer(number)
        assert answer.error is None, answer.error
        return answer.body["result"]

    async def error(self, number: Any) -> Any:
        answer = await self.answer(number)
        assert answer.error is not None, answer
        return answer.error

    def check_answers(self, numbers: Iterable[Any]) -> None:
        """Exactly one answer to each."""
        answers = self.answers
        assert {number: len(answers[number]) for number in numbers} == dict.fromkeys(numbers, 1)

    @property
    def task(self) -> Any:
        return next(iter(self.engine.tasks))


class Source(Node):
    """Begins the pipeline."""

    provider = "source"
    lanes = {"_source": ("tags", "text")}
    class_types = ("source",)


@asynccontextmanager
async def session_world(
    node: type[Node],
    *,
    dialect: str = "dap",
    room: int = ENDLESS,
    threads: int | None = None,
    trusted: bool = True,
    **limits: Any,
) -> AsyncIterator[SessionWorld]:
    """A session over a pipeline of one node; `limits` are fields of `Limits`."""
    clock = ManualClock()
    engine = LocalEngine(catalog=Catalog([Source, node]), limits=msgspec.structs.replace(DEFAULTS, **limits), clock=clock)
    lanes = [lane for lane in node.lanes if not lane.startswith("_")]
    components = [
        {"id": "source", "provider": "source", "config": {}},
        {
            "id": "node",
            "provider": node.provider,
            "config": {},
            "input": [{"lane": lane, "from": "source"} for lane in lanes],
            "control": [{"classType": "tool", "from": "source"}],
        },
    ]
    engine.load({"components": components, "source": "source", "project_id": "p"}, token="t", threads=threads)
    try:
        world = SessionWorld(engine, clock, dialect, room, trusted)
        yield world
        world.session.close()
    finally:
        await engine.aclose()
