"""Events of a call for its caller: the calls within it and their outcomes, in order, before the answer, and for no one else."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from face import Line

from rrext.wire.messages import Response

pytestmark = pytest.mark.promise("events:caller:own-call")


def without_times(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in event.items() if key not in ("time", "seconds", "request", "call", "caller")}
        for event in events
    ]


@pytest.mark.parametrize("relay", ["ask", "ask_async"])
async def test_a_caller_who_asks_gets_the_start_and_the_end_of_each_call_within_its_call(line: Line, relay: str) -> None:
    input = {"node": "", "tool": "add", "input": {"a": 1, "b": 2}}
    number = await line.call(relay, input, events=True, token="face")
    answer = await line.answer(number)
    assert answer.body == {"result": {"sum": 3}}
    assert isinstance(line.of(number)[-1], Response)
    events = line.events(number)
    outer, inner = events[0]["call"], events[1]["call"]
    assert [event["call"] for event in events] == [outer, inner, inner, outer]
    assert [event.get("caller") for event in events] == [None, outer, outer, None]
    told = without_times(events)
    assert told[0] == {"event": "call_started", "tool": relay, "nodeId": told[0]["nodeId"], "arguments": input}
    callers = [f"{told[0]['nodeId']}.{relay}"]
    inside = {"tool": "add", "nodeId": told[1]["nodeId"], "callers": callers}
    assert told[1:3] == [
        {"event": "call_started", **inside, "arguments": {"a": 1, "b": 2}},
        {"event": "call_ended", **inside, "size": len(b'{"sum":3}'), "result": {"sum": 3}},
    ]
    assert (told[3]["event"], told[3]["result"]) == ("call_ended", {"sum": 3})


async def test_a_call_that_fails_ends_with_its_code_and_the_failure_is_answered_all_the_same(line: Line) -> None:
    number = await line.call("ask", {"node": "", "tool": "no_such_tool", "input": {}}, events=True, token="face")
    answer = await line.answer(number)
    assert answer.error is not None
    started, ended = line.events(number)
    assert started["event"] == "call_started"
    assert (ended["event"], ended["code"], ended["message"]) == ("call_ended", answer.error.code, answer.error.message)


async def test_a_caller_who_does_not_ask_gets_no_events_beside_one_who_does(line: Line) -> None:
    input = {"node": "", "tool": "add", "input": {"a": 1}}
    asked = [await line.call("ask_async", input, token="face", **({"events": True} if n % 2 else {})) for n in range(20)]
    for n, number in enumerate(asked):
        await line.answer(number)
        events = line.events(number)
        assert [event["event"] for event in events] == (["call_started"] * 2 + ["call_ended"] * 2 if n % 2 else [])
        assert {event["request"] for event in events} <= {number}
    await anyio.lowlevel.checkpoint()
