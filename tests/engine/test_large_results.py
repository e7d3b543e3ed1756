"""Calls whose results are large, of clients that do not read: how many run, in which order, and that all end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from engine_world import Asked, Park, World, until, world
from hypothesis import given, settings
from hypothesis import strategies as st

from rrext.engine.host.large_results import COPIES, ROOM_LOOK, ROOM_PATIENCE, LargeResults
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.operations import Tool
from rrext.errors import TooManyRequests
from rrext.limits import DEFAULTS, LARGE_RESULT, RESULTS_ROOM
from rrext.nodes.base.node import Node
from rrext.server.outbox import Outbox
from rrext.testing import ManualClock
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

pytestmark = pytest.mark.promise("call:unread:bounded")

SIZE = RESULTS_ROOM // 8 - 100
TEXT = "x" * SIZE
KINDS = ["thread", "loop", "same"]
park = Park()
begun: list[int] = []


class Large(Node):
    """Tools that return much, on each kind of thread."""

    provider = "large"

    @tool_function
    def thread(self, number: int) -> str:
        begun.append(number)
        park.stay()
        return TEXT

    @tool_function
    async def loop(self, number: int) -> str:
        begun.append(number)
        await asyncio.sleep(0)
        return TEXT

    @tool_function(thread="same")
    def same(self, number: int) -> str:
        begun.append(number)
        return TEXT

    @tool_function
    async def nests(self, number: int, ctx: ToolContext) -> int:
        while not park.is_open:
            await asyncio.sleep(0.001)
        for inner in range(number):
            await ctx.call("", "loop", {"number": 1000 + inner})
        return number


class Client:
    """A client of a world, which reads nothing at first. Its outbox is as large as that of a session."""

    def __init__(self, there: World, name: str = "a", user: str | None = None) -> None:
        self.outbox = Outbox(self, DEFAULTS.outbox_bytes, asyncio.get_running_loop())
        self.reads = False
        self._action: Callable[[], None] | None = None
        self._there = there
        self._caller = Caller(connection_id=name, counts_for=user)
        self.asked: list[Asked] = []
        self.holds_back = 0
        """How many answers stay in `before_outbox`, those of the first numbers."""
        self.before_outbox = Park()

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        return sum(map(len, pieces)) if self.reads else 0

    def when_writable(self, action: Callable[[], None]) -> None:
        self._action = action

    def read(self) -> None:
        """Read all from now on."""
        self.reads = True
        action, self._action = self._action, None
        if action is not None:
            action()

    def call(self, tool: str, number: int = 0, pipe: int | None = None) -> Asked:
        asked, outbox, is_held = Asked(), self.outbox, number < self.holds_back
        before_outbox = self.before_outbox

        class Answer:
            def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
                if is_held:
                    before_outbox.stay()
                outbox.send([body])
                asked.answers.append(msgspec.Raw(body))

            def fail(self, call: Call, error: Exception) -> None:
                asked.answers.append(error)

        operation = Tool(tool=tool, input={"number": number}, pipe_id=pipe)
        asked.call = Call(operation, Answer(), self._caller, len(self._there.asked), "test", outlet=outbox)
        self._there.asked.append(asked)
        self.asked.append(asked)
        self._there.engine.start(asked.call)
        return asked


async def learnt(there: World, tool: str) -> None:
    """Let the engine know what the tool returns."""
    park.let_go()
    client = Client(there, "first")
    client.read()
    asked = client.call(tool)
    await until(lambda: asked.is_answered)
    begun.clear()


async def calm(there: World) -> None:
    """Wait until no further call begins."""
    seen = -1
    while seen != len(begun):
        seen = len(begun)
        for _ in range(20):
            await asyncio.sleep(0.001)


async def all_answered(there: World, client: Client, numbers: int) -> None:
    client.read()
    await there.at_rest()
    assert len(begun) == numbers


@pytest.mark.parametrize("tool", KINDS)
@pytest.mark.parametrize("on_pipe", [False, True])
async def test_calls_begin_in_order_as_far_as_the_room_goes_and_all_of_them_when_it_is_read(tool: str, on_pipe: bool) -> None:
    async with world(Large, threads=32) as there:
        await learnt(there, tool)
        client = Client(there)
        pipe = await there.open(caller=Caller(connection_id="a")) if on_pipe else None
        for number in range(30):
            client.call(tool, number, pipe)
        await calm(there)
        assert len(begun) <= RESULTS_ROOM // SIZE
        await all_answered(there, client, 30) if pipe is None else await pipe_answered(there, client, pipe)
        assert tool == "thread" or begun == list(range(30))


async def pipe_answered(there: World, client: Client, pipe: int) -> None:
    client.read()
    await until(lambda: all(asked.is_answered for asked in client.asked))
    await there.close(pipe, caller=Caller(connection_id="a")).answer()
    await there.at_rest()


async def test_calls_that_waited_for_a_place_before_the_results_were_known_wait_for_room_too() -> None:
    async with world(Large, threads=4) as there:
        park.shut()
        begun.clear()
        client = Client(there)
        for number in range(30):
            client.call("thread", number)
        await until(lambda: len(begun) == 4)
        park.let_go()
        await calm(there)
        assert len(begun) <= 8, "they were begun by the size of their line, not by that of the room"
        await all_answered(there, client, 30)


async def test_results_that_are_known_and_not_yet_in_the_outbox_take_room() -> None:
    async with world(Large, threads=4) as there:
        park.shut()
        begun.clear()
        client = Client(there)
        client.holds_back = 4
        for number in range(30):
            client.call("thread", number)
        await until(lambda: len(begun) == 4)
        park.let_go()
        await calm(there)
        assert len(begun) <= RESULTS_ROOM // SIZE
        client.before_outbox.let_go()
        await all_answered(there, client, 30)


async def test_connections_share_the_room_and_each_has_one_result_at_least() -> None:
    async with world(Large) as there:
        await learnt(there, "loop")
        clients = [Client(there, str(number)) for number in range(12)]
        for client in clients:
            for number in range(10):
                client.call("loop", number)
        await calm(there)
        assert all(client.outbox.size >= SIZE for client in clients)
        assert sum(client.outbox.size for client in clients[1:]) < 2 * RESULTS_ROOM
        for client in clients:
            client.read()
        await there.at_rest()
        assert len(begun) == 120


async def crowded(there: World, tool: str) -> list[Client]:
    """Many connections of a user, each with a call whose result it does not read, as far as there is room."""
    await learnt(there, tool)
    crowd = [Client(there, f"ada {number}", "ada") for number in range(20)]
    for client in crowd:
        client.call(tool)
    await until(lambda: any(client.outbox.size for client in crowd))
    await calm(there)
    return crowd


@pytest.mark.parametrize("tool", KINDS)
async def test_all_connections_of_a_user_share_its_limit_and_others_do_not_wait(tool: str) -> None:
    async with world(Large, threads=32, max_user_bytes=2 * COPIES * SIZE) as there:
        crowd = await crowded(there, tool)
        assert 0 < sum(client.outbox.size for client in crowd) <= 2 * COPIES * (SIZE + 100)
        bob = Client(there, "bob", "bob")
        bob.read()
        asked = bob.call(tool, 1)
        await until(lambda: asked.is_answered)
        later = Client(there, "ada 20", "ada")
        later.read()
        asked = later.call(tool, 2)
        for client in crowd:
            client.read()
        while not asked.is_answered:
            there.clock.advance(ROOM_LOOK)
            await asyncio.sleep(0.001)
        await there.at_rest()
        assert len(begun) == 22
        assert tool == "thread" or begun[-1] == 2, "it went before those that waited"


class Run:
    """A run whose result is expected."""

    expected = 0


async def test_a_smaller_result_does_not_overtake_the_larger_one_of_another_connection_of_its_user() -> None:
    clock, loop, run = ManualClock(), asyncio.get_running_loop(), Run()
    results = LargeResults(clock, of_user=2 * COPIES * SIZE)
    outboxes = [Outbox(Client.__new__(Client), 1, loop) for _ in range(3)]
    gone_on: list[int] = []

    async def wait(outbox: Outbox, size: int) -> None:
        await results.until_room(outbox, size, "ada")
        gone_on.append(size)

    assert results.take(outboxes[0], SIZE, run, "ada")
    async with asyncio.TaskGroup() as waits:
        waits.create_task(wait(outboxes[1], 2 * SIZE))
        waits.create_task(wait(outboxes[2], LARGE_RESULT))
        for size in (2 * SIZE, LARGE_RESULT):
            await asyncio.sleep(0)
            assert not gone_on
            assert not results.has_room(outboxes[2], LARGE_RESULT, "ada"), f"a new one overtakes that of {size}"
            clock.advance(ROOM_LOOK)
        results.give_back(outboxes[0], run)
        await asyncio.sleep(0)
        clock.advance(ROOM_LOOK)
    assert gone_on == [2 * SIZE, LARGE_RESULT]


async def test_a_call_whose_user_gets_no_room_is_told_the_limit_and_small_ones_go_on() -> None:
    async with world(Large, max_user_bytes=SIZE) as there:
        crowd = await crowded(there, "loop")
        there.clock.advance(ROOM_PATIENCE + 1)
        await until(lambda: all(client.asked[0].is_answered for client in crowd))
        told = [answer for client in crowd for answer in client.asked[0].answers if isinstance(answer, TooManyRequests)]
        assert len(told) == 19
        assert told[0].data == {"limit": "max_user_bytes", "maximum": SIZE}
        small = crowd[-1].call("nests")
        await until(lambda: small.is_answered)
        crowd[0].read()
        again = crowd[-1].call("loop")
        crowd[-1].read()
        await until(lambda: again.is_answered)
        await there.at_rest()


async def test_a_call_that_was_cancelled_in_a_thread_that_goes_on_keeps_no_room() -> None:
    async with world(Large) as there:
        await learnt(there, "thread")
        park.shut()
        client = Client(there)
        client.read()
        for number in range(RESULTS_ROOM // SIZE):
            client.call("thread", number)
        await until(lambda: len(begun) == RESULTS_ROOM // SIZE)
        later = client.call("thread", 100)
        await calm(there)
        assert 100 not in begun
        for asked in client.asked[:2]:
            asked.cancel()
        await until(lambda: 100 in begun)
        park.let_go()
        await until(lambda: later.is_answered)
        await there.at_rest()


async def test_nested_calls_wait_for_no_room_and_have_their_own_input() -> None:
    async with world(Large) as there:
        await learnt(there, "loop")
        park.shut()
        client = Client(there)
        asked = client.call("nests", 3 * RESULTS_ROOM // SIZE)
        for number in range(3):
            client.call("same", number)
        await until(lambda: client.outbox.is_full)
        park.let_go()
        await until(lambda: asked.is_answered)
        assert begun == [0, 1, 2, *range(1000, 1000 + 3 * RESULTS_ROOM // SIZE)]
        client.read()
        await there.at_rest()
        results: Any = there.engine.host.results
        assert not any(share.expected for share in results._shares.values()), "room is kept for results that no client gets"


ACTS = st.sampled_from([*KINDS, "nests", "cancel", "read", "stop", "leave"])
STEPS = st.lists(st.tuples(ACTS, st.integers(0, 2)), max_size=60)


@settings(max_examples=30)
@given(STEPS)
def test_whatever_is_called_cancelled_read_and_left_each_call_ends_and_no_room_is_lost(steps: list[tuple[str, int]]) -> None:
    async def walk() -> None:
        async with world(Large, threads=3) as there:
            await learnt(there, "thread")
            clients = [Client(there, str(number)) for number in range(3)]
            for what, number in steps:
                client = clients[number]
                if what in (*KINDS, "nests"):
                    client.call(what, 1)
                elif what == "cancel" and client.asked:
                    client.asked[len(client.asked) // 2].cancel()
                elif what == "read":
                    client.read()
                elif what == "stop":
                    client.reads = False
                elif what == "leave":
                    for asked in client.asked:
                        asked.cancel("disconnected")
                    client.outbox.break_off()
                await asyncio.sleep(0)
            for client in clients:
                client.read()
            await there.at_rest()
            results: Any = there.engine.host.results
            await until(lambda: not any(share.expected for share in results._shares.values()))

    asyncio.run(asyncio.wait_for(walk(), 60))


async def test_a_tool_that_returns_little_is_trusted_slowly() -> None:
    async with world(Large) as there:
        await learnt(there, "loop")
        route = there.task.routes.only(None, "loop")
        assert route is not None
        route.learn_size(100)
        assert route.returns > SIZE // 2
        for _ in range(80):
            route.learn_size(100)
        assert route.returns == 0
        route.learn_size(LARGE_RESULT)
        assert route.returns == 0


def test_what_the_room_knows_of_a_connection_goes_with_it() -> None:
    async def walk() -> None:
        results: Any = LargeResults(ManualClock())
        outbox = Outbox(Client.__new__(Client), 1, asyncio.get_running_loop())
        assert results.has_room(outbox, SIZE)
        assert len(results._shares) == 1
        del outbox
        assert len(results._shares) == 0

    asyncio.run(walk())
