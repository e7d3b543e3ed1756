"""Calls of users pass to a worker while there is room for their results, and none is forgotten at the gate."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.engine.host.host import Host
from rrext.engine.host.large_results import COPIES
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.operations import Tool
from rrext.errors import Cancelled, RrextError
from rrext.limits import DEFAULTS, LARGE_RESULT
from rrext.server.outbox import Outbox
from rrext.tasks.call_gate import CallGate

pytestmark = pytest.mark.promise("ws:user:memory")

AT_ONCE = 3
SIZE = 4 * LARGE_RESULT


class Answers:
    """Takes the answers of calls."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, str]] = []

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self.given.append((call.request_id, "ok"))

    def fail(self, call: Call, error: RrextError) -> None:
        self.given.append((call.request_id, error.code))


class Deaf:
    """A client that reads nothing."""

    def write(self, pieces: Any) -> int:
        return 0

    def when_writable(self, action: Any) -> None: ...


class Gate:
    """A gate, the calls that passed it, and their answers."""

    def __init__(self, most: int = 100 * SIZE) -> None:
        limits = msgspec.structs.replace(DEFAULTS, threads=AT_ONCE, max_user_bytes=most)
        self.host = Host(asyncio.get_running_loop(), limits=limits)
        self.gate = CallGate(self.host)
        self.answers = Answers()
        self.passed: list[Call] = []
        self.count = 0

    def call(self, user: str = "ada", tool: str = "large") -> Call:
        self.count += 1
        outbox = Outbox(Deaf(), DEFAULTS.outbox_bytes, self.host.loop)
        caller = Caller(connection_id=f"ws-{self.count}", counts_for=user)
        call = Call(Tool(tool=tool), self.answers, caller, self.count, outlet=outbox)
        assert CallGate.is_for(call)
        self.gate.run(call, self.passed.append)
        return call

    @property
    def numbers(self) -> list[Any]:
        return [call.request_id for call in self.passed]


@given(st.lists(st.tuples(st.sampled_from(["call", "answer", "fail", "cancel"]), st.integers(0, 50)), max_size=60))
def test_each_call_passes_or_is_cancelled_and_at_most_so_many_are_behind_the_gate(steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        there = Gate()
        calls: list[Call] = []
        for step, number in steps:
            behind = [call for call in there.passed if call.unsettled]
            if step == "call":
                calls.append(there.call())
            elif step == "cancel" and calls:
                calls[number % len(calls)].cancel("cancelled", Cancelled())
            elif behind:
                call = behind[number % len(behind)]
                call.succeed(b"{}") if step == "answer" else call.fail(Cancelled())
            behind = [call for call in there.passed if call.unsettled]
            waiting = [call for call in calls if call.unsettled and call not in behind]
            assert len(behind) <= AT_ONCE
            assert not waiting or len(behind) == AT_ONCE, "a call waits though there is a place"
        while behind := [call for call in there.passed if call.unsettled]:
            behind[0].succeed(b"{}")
        assert sorted(number for number, _ in there.answers.given) == [call.request_id for call in calls]
        assert not there.gate._places
        assert not there.gate._gated

    asyncio.run(main())


async def test_users_and_tools_have_lines_of_their_own() -> None:
    there = Gate()
    for _ in range(AT_ONCE + 1):
        there.call()
    there.call(user="bob")
    there.call(tool="other")
    assert there.numbers == [1, 2, 3, 5, 6]


async def test_a_call_that_waits_for_a_person_keeps_no_other_one_waiting() -> None:
    there = Gate()
    calls = [there.call() for _ in range(AT_ONCE + 2)]
    there.gate.leave(calls[0])
    assert there.numbers == [1, 2, 3, 4]
    calls[0].succeed(b"{}")
    assert there.numbers == [1, 2, 3, 4]
    calls[1].succeed(b"{}")
    assert there.numbers == [1, 2, 3, 4, 5]


async def test_calls_of_a_tool_that_returned_much_pass_while_their_user_has_room() -> None:
    there = Gate(most=COPIES * SIZE)
    there.call(user="bob").succeed(b"x" * SIZE)
    first, second = there.call(), there.call()
    await asyncio.sleep(0)
    assert there.numbers == [1, 2]
    first.cancel("cancelled", Cancelled())
    while len(there.passed) < 3:
        await asyncio.sleep(0)
    second.succeed(b"{}")
    assert there.answers.given == [(1, "ok"), (2, "cancelled"), (3, "ok")]


async def test_a_call_that_is_cancelled_while_it_waits_for_room_never_passes() -> None:
    there = Gate(most=COPIES * SIZE)
    there.call(user="bob").succeed(b"x" * SIZE)
    first, second = there.call(), there.call()
    await asyncio.sleep(0)
    second.cancel("cancelled", Cancelled())
    first.succeed(b"{}")
    third = there.call()
    while third not in there.passed:
        await asyncio.sleep(0)
    assert there.numbers == [1, 2, 4]
