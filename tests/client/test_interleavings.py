"""Random interleavings: whatever callers and server do in whatever order, each call ends once, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_peer import EchoPipes, Peer, connected, settle

from rrext.client.endpoint import FrameQueue, QueuedFrame
from rrext.client.event_loop import EventLoop, Slots
from rrext.errors import ToolError
from rrext.transports.descriptor_channel import Buffer
from rrext.wire.messages import Request

BACKENDS = ["asyncio", "trio"]

NAMES = ["call", "cancel", "answer", "fail", "answer twice", "progress", "turn", "stall", "go on"]
STEPS = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 7)), max_size=60)


class Caller:
    """A call, and how it ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.scope = anyio.CancelScope()
        self.outcomes: list[Any] = []
        self.reports: list[float] = []

    async def call(self, client: Any) -> None:
        with self.scope:
            try:
                self.outcomes.append(await client.tool(tool="t", input={"n": self.number}, progress=self.report))
            except ToolError as error:
                self.outcomes.append(error.message)
        if self.scope.cancelled_caught:
            self.outcomes.append("cancelled")

    def report(self, value: float, *_: Any) -> None:
        self.reports.append(value)


@pytest.mark.promise("call:answer:exactly-one")
@pytest.mark.parametrize("backend", BACKENDS)
@given(steps=STEPS, capacity=st.sampled_from([64, 65536]))
@settings(max_examples=60)
def test_each_call_ends_once_and_the_next_one_works(backend: str, steps: list[tuple[str, int]], capacity: int) -> None:
    anyio.run(play, steps, capacity, backend=backend)


class Play:
    """A client, its callers, and a server that remembers which calls arrived."""

    def __init__(self, client: Any, peer: Peer, tasks: TaskGroup) -> None:
        self.client = client
        self.peer = peer
        self.tasks = tasks
        self.callers: list[Caller] = []
        self.open: dict[int, Request] = {}
        """Calls that arrived and are not answered."""

    async def collect(self) -> None:
        async for request in self.peer.requests:
            if request.arguments.get("subcommand") == "tool":
                self.open[request.arguments["input"]["n"]] = request
            else:
                await self.peer.answer(request, {})

    async def step(self, name: str, which: int) -> None:
        number = which % max(1, len(self.callers))
        if name == "call":
            self.callers.append(Caller(len(self.callers)))
            self.tasks.start_soon(self.callers[-1].call, self.client)
        elif name == "turn":
            await settle(which)
        elif name == "stall":
            self.peer.stall()
        elif name == "go on":
            self.peer.go_on()
        elif name == "cancel" and self.callers:
            self.callers[number].scope.cancel()
        elif number in self.open:
            await self.act(name, number)

    async def act(self, name: str, number: int) -> None:
        peer, request = self.peer, self.open.pop(number)
        if name == "fail":
            await peer.fail(request, ToolError(f"no {number}"))
            return
        if name == "progress":
            await peer.progress(request, 1)
            await peer.progress(request, 2)
        for _ in range(2 if name == "answer twice" else 1):
            await peer.answer(request, {"result": number})

    async def end(self) -> None:
        """Answer what is left, as a server does: also what was cancelled."""
        self.peer.go_on()
        while self.open or not all(caller.outcomes for caller in self.callers):
            await settle(5)
            for number in list(self.open):
                await self.act("answer", number)


async def play(steps: list[tuple[str, int]], capacity: int) -> None:
    async with connected(hello={"limits": {"maxInflight": 4}}, capacity=capacity) as (client, peer):
        async with anyio.create_task_group() as tasks:
            game = Play(client, peer, tasks)
            tasks.start_soon(game.collect)
            for name, which in steps:
                await game.step(name, which)
            await game.end()
            tasks.cancel_scope.cancel()
        for caller in game.callers:
            assert caller.outcomes in ([caller.number], [f"no {caller.number}"], ["cancelled"])
            assert caller.reports == sorted(caller.reports)
        peer.handler = EchoPipes()
        for _ in range(8):  # more than there are places: none of them is lost
            assert (await client.tool(tool="echo"))["echo"] == {}


class NarrowChannel:
    """Takes as many bytes as it is told to, then none until the next `let`."""

    def __init__(self) -> None:
        self.room = 0
        self.written = bytearray()
        self.more = anyio.Event()

    def let(self, room: int) -> None:
        self.room += room
        self.more.set()
        self.more = anyio.Event()

    def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        data = b"".join(pieces)
        fits, rest = data[: self.room], data[self.room :]
        self.room -= len(fits)
        self.written += fits
        return [rest] if rest and fits else list(pieces) if rest else []

    async def write(self, pieces: Sequence[Buffer]) -> None:
        rest = self.write_now(pieces)
        while rest:
            await self.more.wait()
            rest = self.write_now(rest)

    async def pump(self, receiver: Any) -> None:
        raise AssertionError("nobody reads here")

    async def aclose(self) -> None:
        raise AssertionError("nobody closes here")


OUTBOX_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 20)),
        st.tuples(st.just("urgent"), st.integers(1, 20)),
        st.tuples(st.just("withdraw"), st.integers(0, 5)),
        st.tuples(st.just("let"), st.integers(0, 30)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("backend", BACKENDS)
@given(steps=OUTBOX_STEPS)
def test_frames_leave_whole_unless_they_are_withdrawn_whole(backend: str, steps: list[tuple[str, int]]) -> None:
    anyio.run(pass_frames, steps, backend=backend)


async def pass_frames(steps: list[tuple[str, int]]) -> None:
    channel = NarrowChannel()
    outbox = FrameQueue(channel, EventLoop(), lambda: None)
    expected: list[bytes] = []
    waiting: list[tuple[QueuedFrame, bytes]] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run)
        for number, (name, value) in enumerate(steps):
            if name in ("put", "urgent"):
                data = b"<%d:%s>" % (number, b"x" * value)
                expected.append(data)
                frame = outbox.put([data[:3], data[3:]], urgent=name == "urgent")
                if frame is not None:
                    waiting.append((frame, data))
            elif name == "withdraw" and waiting:
                frame, data = waiting.pop(value % len(waiting))
                if outbox.withdraw(frame):
                    expected.remove(data)
            elif name == "let":
                channel.let(value)
                await settle(3)
        channel.let(10_000)
        await settle(3 * len(steps) + 5)
        tasks.cancel_scope.cancel()
    frames = bytes(channel.written).replace(b">", b">\n").split()
    assert sorted(frames) == sorted(expected)


@pytest.mark.anyio
async def test_urgent_frames_go_before_those_that_wait_and_after_the_one_that_is_begun() -> None:
    channel = NarrowChannel()
    outbox = FrameQueue(channel, EventLoop(), lambda: None)
    channel.let(1)
    for data in (b"<1>", b"<2>", b"<3>"):
        outbox.put([data])
    outbox.put([b"<!>"], urgent=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outbox.run)
        channel.let(100)
        await settle()
        tasks.cancel_scope.cancel()
    assert channel.written == b"<1><!><2><3>"


@pytest.mark.anyio
async def test_a_broken_channel_is_told_once_and_drops_what_waits() -> None:
    class Broken(NarrowChannel):
        def write_now(self, pieces: Sequence[Buffer]) -> list[Buffer]:
            raise anyio.BrokenResourceError

    told: list[int] = []
    outbox = FrameQueue(Broken(), EventLoop(), lambda: told.append(1))
    for _ in range(3):
        assert outbox.put([b"x"]) is None
    assert told == [1]
    assert "shut" in repr(outbox)


@pytest.mark.parametrize("backend", BACKENDS)
@given(steps=st.lists(st.tuples(st.sampled_from(["take", "cancel", "give", "turn"]), st.integers(0, 9)), max_size=40))
def test_places_are_neither_lost_nor_made_up(backend: str, steps: list[tuple[str, int]]) -> None:
    anyio.run(take_turns, steps, backend=backend)


async def take_turns(steps: list[tuple[str, int]]) -> None:
    slots = Slots(3)
    holding = 0
    scopes: list[anyio.CancelScope] = []

    async def take(scope: anyio.CancelScope) -> None:
        nonlocal holding
        with scope:
            await slots.take(EventLoop().waiter())
            holding += 1
            assert holding <= 3

    async with anyio.create_task_group() as tasks:
        for name, value in steps:
            if name == "take":
                scopes.append(anyio.CancelScope())
                tasks.start_soon(take, scopes[-1])
            elif name == "cancel" and scopes:
                scopes[value % len(scopes)].cancel()
            elif name == "give" and holding:
                holding -= 1
                slots.give()
            elif name == "turn":
                await settle(value)
        for scope in scopes:
            scope.cancel()
    for _ in range(holding):
        slots.give()
    assert repr(slots) == "<Slots 3 free, 0 wait>"
