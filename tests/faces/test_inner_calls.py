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


FLIGHT: dict[str, Any] = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "webhook_1"}]},
        {"id": "pilot_1", "provider": "pilot", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "copilot_1", "provider": "copilot", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "out_1", "provider": "response_text", "config": {}, "input": [
            {"lane": "text", "from": "pilot_1"}, {"lane": "text", "from": "copilot_1"},
        ]},
    ],
    "source": "webhook_1",
}  # fmt: skip


async def test_who_writes_and_closes_gets_the_steps_and_the_calls_of_the_nodes_that_work_on_the_object(line: Line) -> None:
    async def asked(subcommand: str, **arguments: Any) -> tuple[Any, list[dict[str, Any]]]:
        number = await line.send("rrext_process", {"subcommand": subcommand, **arguments})
        answer = await line.answer(number)
        assert answer.error is None
        assert isinstance(line.of(number)[-1], Response)
        return answer.body, line.events(number)

    await line.answer(await line.send("execute", {"pipeline": FLIGHT, "token": "flight"}))
    pipe = {"pipe_id": (await asked("open", token="flight", mimeType="lane/text"))[0]["pipe_id"]}
    assert await asked("write", data="add", **pipe) == ({}, [])
    events = (await asked("write", data="add", events=True, **pipe))[1]
    written, inner, inner_of_thread = (events[place]["call"] for place in (0, 3, 6))
    assert [event["call"] for event in events] == [
        *[written] * 3, *[inner] * 2, written, *[inner_of_thread] * 2, written,
    ]  # fmt: skip
    assert {event.get("caller") for event in events} == {None, written}
    step = {"event": "agent_step", "agent": "pilot"}
    inside = {"tool": "add", "nodeId": "probe_1", "callers": ["pilot_1"]}
    started, ended = (
        {"event": "call_started", "arguments": {"a": 1, "b": 2}},
        {"event": "call_ended", "result": {"sum": 3}, "size": 9},
    )
    assert without_times(events) == [
        {"event": "call_started"},
        {**step, "step": "start"},
        {**step, "step": "chunk", "data": "I call it."},
        {**inside, **started},
        {**inside, **ended},
        {**step, "step": "end"},
        {**inside, **started, "callers": ["copilot_1"]},
        {**inside, **ended, "callers": ["copilot_1"]},
        {"event": "call_ended", "size": 2, "result": {}},
    ]
    body, events = await asked("close", events=True, **pipe)
    assert "".join(body["text"]).count("{'sum': 3}") == 4
    assert [(event["event"], event.get("tool")) for event in events] == [
        ("call_started", None), ("call_started", "add"), ("call_ended", "add"), ("call_ended", None),
    ]  # fmt: skip


@pytest.mark.parametrize(("relay", "inner"), [("ask_async", "wait"), ("ask_async", "park"), ("ask", "wait")])
async def test_a_caller_cancels_one_call_within_its_call_and_the_rest_goes_on(line: Line, relay: str, inner: str) -> None:
    input = {"node": "", "tool": inner, "input": {"key": f"alone {relay} {inner}"}}
    number = await line.call(relay, input, events=True, token="face")
    events = await line.until(lambda: len(line.events(number)) > 1 and line.events(number))
    await line.cancel(number, 10**9)
    await line.cancel(number, events[1]["call"])
    await line.cancel(number, events[1]["call"])
    answer = await line.answer(number)
    assert answer.error is not None
    assert "wants this call no longer" in answer.error.message
    ends = [(event["call"], event.get("code")) for event in line.events(number) if event["event"] == "call_ended"]
    assert ends == [(events[1]["call"], "cancelled"), (events[0]["call"], answer.error.code)]


async def test_a_caller_who_does_not_ask_gets_no_events_beside_one_who_does(line: Line) -> None:
    input = {"node": "", "tool": "add", "input": {"a": 1}}
    asked = [await line.call("ask_async", input, token="face", **({"events": True} if n % 2 else {})) for n in range(20)]
    for n, number in enumerate(asked):
        await line.answer(number)
        events = line.events(number)
        assert [event["event"] for event in events] == (["call_started"] * 2 + ["call_ended"] * 2 if n % 2 else [])
        assert {event["request"] for event in events} <= {number}
    await anyio.lowlevel.checkpoint()
