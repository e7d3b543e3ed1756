"""Deadlines: one timer for all calls, each rung once, at its own time, and nothing kept of a call that is answered."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable

import pytest
from engine_world import AsyncPark, until, world
from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.host.host import DeadlineTimer
from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import Tool
from rrext.limits import MIN_SWEEP_ENTRIES
from rrext.nodes.base.node import Node
from rrext.testing.sessions import ManualClock
from rrext.tools.decorator import tool_function


class Nobody:
    def succeed(self, call, body, tail) -> None: ...

    def fail(self, call, error) -> None: ...


class Bench:
    """Deadlines on a clock that stands still; what threads post waits in `posted`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.rung: list[tuple[Call, float]] = []
        self.posted: list[Callable[[], None]] = []
        self.deadlines = DeadlineTimer(self.clock, lambda call: self.rung.append((call, self.clock.now())), self.posted.append)

    def turn(self) -> None:
        while self.posted:
            self.posted.pop(0)()

    def add(self, when: float) -> Call:
        call = Call(Tool(tool="x"), Nobody())
        self.deadlines.add(when, call)
        return call


@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=30), st.lists(st.integers(1, 7), max_size=8))
def test_each_call_is_rung_for_once_at_its_time_unless_it_is_answered(calls, steps) -> None:
    bench = Bench()
    expected: dict[int, int] = {}
    kept = []
    for when, answered in calls:
        call = bench.add(when)
        kept.append(call)
        bench.turn()
        if answered:
            call.succeed(b"{}")
        else:
            expected[id(call)] = when
    for step in steps:
        bench.clock.advance(step)
    rung = {id(call): when for call, when in bench.rung}
    assert len(rung) == len(bench.rung)
    assert rung == {key: when for key, when in expected.items() if when <= bench.clock.now()}


def test_a_call_that_comes_later_but_ends_earlier_moves_the_timer() -> None:
    bench = Bench()
    late, early = bench.add(10), bench.add(3)
    bench.turn()
    bench.clock.advance(3)
    assert [call for call, _ in bench.rung] == [early]
    bench.clock.advance(7)
    assert [call for call, _ in bench.rung] == [early, late]


def test_a_timer_is_asked_for_once_however_many_calls_end_after_it() -> None:
    bench = Bench()
    kept = [bench.add(5 + n) for n in range(100)]
    assert len(bench.posted) == 1
    assert kept


def test_what_an_answered_call_was_given_is_not_kept_until_its_deadline() -> None:
    bench = Bench()
    call = bench.add(3600)
    bench.turn()
    gone = weakref.ref(call)
    call.succeed(b"{}")
    gc.disable()
    try:
        del call
        assert gone() is None
    finally:
        gc.enable()


def test_entries_of_answered_calls_do_not_pile_up() -> None:
    bench = Bench()
    for _ in range(50 * MIN_SWEEP_ENTRIES):
        bench.add(3600).succeed(b"{}")
    bench.turn()
    assert len(bench.deadlines._heap) <= MIN_SWEEP_ENTRIES


def test_one_call_that_cannot_be_stopped_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    clock, rung = ManualClock(), []

    def expire(call: Call) -> None:
        rung.append(call)
        if len(rung) == 1:
            raise RuntimeError("a bug")

    deadlines = DeadlineTimer(clock, expire, lambda action: action())
    calls = [Call(Tool(tool="x"), Nobody()) for _ in range(3)]
    for number, call in enumerate(calls):
        deadlines.add(1 + number // 2, call)
    clock.advance(1)
    clock.advance(1)
    assert rung == calls
    assert "could not be stopped" in caplog.text


def test_after_the_end_nothing_rings() -> None:
    bench = Bench()
    kept = [bench.add(1)]
    posted = list(bench.posted)
    bench.turn()
    bench.deadlines.stop()
    for action in posted:  # a thread posted it before the end
        action()
    kept.append(bench.add(2))
    bench.turn()
    bench.clock.advance(10)
    assert bench.rung == []


def test_threads_may_add_while_others_ring() -> None:
    bench = Bench()
    lock = threading.Lock()
    kept: list[Call] = []

    def add(first: int) -> None:
        for when in range(first, first + 300):
            call = bench.add(when)
            with lock:
                kept.append(call)

    threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        bench.turn()
        bench.clock.advance(1)
    bench.turn()
    bench.clock.advance(1000)
    assert len(bench.rung) == len({id(call) for call, _ in bench.rung}) == len(kept) == 1200


async def test_the_timeout_of_an_owner_that_is_passed_over_is_not_the_calls() -> None:
    lot = AsyncPark()

    class Closed(Node):
        provider = "closed"

        @tool_function(timeout=1, available=lambda ctx: False)
        async def find(self) -> str:
            return "never"

    class Patient(Node):
        provider = "patient"

        @tool_function
        async def find(self) -> str:
            await lot.stay()
            return "found"

    async with world(Closed, Patient) as w:
        asked = w.tool("find")
        await until(lambda: lot.inside)
        w.clock.advance(5)
        await asyncio.sleep(0)
        lot.let_go()
        assert await asked.result() == "found"
