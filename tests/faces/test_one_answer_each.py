"""Each request has exactly one answer, whatever else happens in whatever order."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import uuid4

import anyio
import pytest
from face import Line, Way
from houses import LocalHouse, open_house
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_faces import WireLine

from rrext.errors import Cancelled, InvalidRequest
from rrext.wire.messages import RequestId, Response

TOOLS: dict[str, dict[str, Any]] = {
    "add": {"input": {"a": 1}},
    "add_async": {"input": {"a": 1}},
    "add of text": {"tool": "add", "input": {"a": "1"}},
    "crash": {},
    "crash_async": {},
    "give_up": {},
    "unknown": {},
    "for_ada": {},
    "wait": {"input": {"key": "KEY"}},
    "park": {"input": {"key": "KEY"}, "progress": True},
    "deaf": {"input": {"key": "KEY"}},
    "wait a moment": {"tool": "wait", "input": {"key": "KEY"}, "timeout": 0.002},
    "park a moment": {"tool": "park", "input": {"key": "KEY"}, "timeout": 0.002},
    "count": {"input": {"to": 5}, "stream": True},
    "report": {"input": {"to": 5}, "progress": True},
    "ask": {"input": {"node": "", "tool": "wait", "input": {"key": "KEY"}}},
    "bad": {"input": {"kind": "nan"}},
}
"""Tool calls of every fate. KEY is the gate that the test opens."""

OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "open": ("rrext_process", {"subcommand": "open", "mimeType": "text/plain"}),
    "write": ("rrext_process", {"subcommand": "write", "data": "x"}),
    "write and wait": ("rrext_process", {"subcommand": "write", "data": "park:KEY"}),
    "close": ("rrext_process", {"subcommand": "close"}),
    "tools": ("tools", {}),
    "status": ("rrext_get_task_status", {}),
    "nonsense": ("nonsense", {}),
}

STEPS = st.lists(
    st.tuples(st.sampled_from([*TOOLS, *OTHERS, *["cancel"] * 8, *["turn"] * 4, "gate"]), st.integers(0, 30)),
    min_size=8,
    max_size=40,
)


def with_key(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: with_key(item, key) for name, item in value.items()}
    return value.replace("KEY", key) if isinstance(value, str) else value


class Play:
    """What was asked on a line."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.key = uuid4().hex
        self.asked: list[RequestId] = []
        self.cancels = 0

    async def step(self, name: str, which: int) -> None:
        line = self.line
        if name == "cancel" and self.asked:
            await line.cancel(self.asked[which % len(self.asked)])
        elif name == "turn":
            for _ in range(which):
                await anyio.lowlevel.checkpoint()
        elif name == "gate":
            await line.call("open_gate", {"key": self.key})
        elif name in TOOLS:
            arguments = with_key({"tool": name, "subcommand": "tool", **TOOLS[name]}, self.key)
            self.asked.append(await line.send("rrext_process", arguments))
        elif name in OTHERS:
            command, arguments = OTHERS[name]
            if arguments.get("subcommand") in ("write", "close"):
                arguments = {**arguments, "pipe_id": which}
            self.asked.append(await line.send(command, with_key(arguments, self.key)))

    def pipes(self) -> list[int]:
        """The pipes that were opened."""
        answers = [answer for number in self.asked for answer in self.line.answers(number) if answer.error is None]
        return [answer.body["pipe_id"] for answer in answers if "pipe_id" in answer.body]

    async def finish(self) -> None:
        """Let everything end, and close what is open."""
        await self.line.result("open_gate", {"key": self.key})
        for number in self.asked:
            await self.line.answer(number)
        for pipe_id in self.pipes():
            await self.line.answer(await self.line.send("rrext_process", {"subcommand": "close", "pipe_id": pipe_id}))


@pytest.mark.promise("call:answer:exactly-one")
@given(steps=STEPS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_every_request_of_any_play_has_one_answer(line: Line, steps: list[tuple[str, int]]) -> None:
    play = Play(line)
    for name, which in steps:
        await play.step(name, which)
    await play.finish()
    assert await line.result("add", {"a": 1}) == {"sum": 2}
    for number in play.asked:
        *events, answer = line.of(number)
        assert isinstance(answer, Response)
        assert not any(isinstance(event, Response) for event in events)
    assert line.of(None) == []


@pytest.mark.promise("call:answer:exactly-one")
@given(steps=STEPS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_who_vanishes_in_the_middle_gets_no_second_answer_and_leaves_nothing(
    house: LocalHouse, steps: list[tuple[str, int]]
) -> None:
    async with house.connect() as witness, anyio.create_task_group() as tasks:
        async with house.line() as line:
            play = Play(line)
            for name, which in steps:
                await play.step(name, which)
            await line.vanish()
            # A tool on the thread that reads keeps that thread, and the end of the session waits for its return.
            tasks.start_soon(witness.tool, "open_gate", {"key": play.key})
        with anyio.fail_after(20):
            while (state := await witness.request("rrext_get_task_status"))["threads"]["used"] or state["syncCalls"]["used"]:
                await anyio.lowlevel.checkpoint()
        answers = Counter(message.id for message in line.messages if isinstance(message, Response))
        assert set(answers.values()) <= {1}


@pytest.mark.promise("call:answer:exactly-one")
@pytest.mark.parametrize("dialect", ["dap", "jsonrpc"])
async def test_at_the_end_of_input_every_request_that_was_read_is_answered(dialect: Any) -> None:
    async with open_house(Way("spawned", dialect)) as house, house.line() as line:
        play = Play(line)
        for name in [*TOOLS, *OTHERS] * 3:
            await play.step(name, 1)
        line.end_input()
        answers = [await line.answer(number) for number in play.asked]
        await line.ended()
        assert [len(line.answers(number)) for number in play.asked] == [1] * len(answers)
        assert any(isinstance(answer.error, Cancelled) for answer in answers)  # those that would wait for ever


@pytest.mark.promise("call:answer:exactly-one")
async def test_an_id_that_is_in_flight_cannot_be_used_twice_and_keeps_its_own_answer(wire: WireLine, key: str) -> None:
    first = await wire.call("wait", {"key": key})
    await wire.send_again(first, "rrext_process", {"subcommand": "tool", "tool": "add", "input": {"a": 1}})
    refused = await wire.answer(None)
    assert isinstance(refused.error, InvalidRequest)
    assert refused.error.data["id"] == first
    assert wire.answers(first) == []
    await wire.result("open_gate", {"key": key})
    assert (await wire.answer(first)).body == {"result": "passed"}
    await wire.send_again(first, "rrext_process", {"subcommand": "tool", "tool": "add", "input": {"a": 1}})
    await wire.until(lambda: len(wire.answers(first)) == 2)  # it is free again
    assert wire.answers(first)[1].body == {"result": {"sum": 2}}


@pytest.mark.promise("call:answer:exactly-one")
async def test_a_notification_runs_and_is_never_answered(key: str) -> None:
    """Of JSON-RPC alone: a request without id."""
    for kind in ("memory", "bytes", "spawned", "unix", "ws"):
        async with open_house(Way(kind, "jsonrpc")) as house, house.line() as line:  # type: ignore[arg-type]
            await line.notify("rrext_process", {"subcommand": "tool", "tool": "note", "input": {"key": key + kind}})
            await line.notify("rrext_process", {"subcommand": "tool", "tool": "unknown"})
            await line.notify("nonsense", {})
            while await line.result("journal", {"key": key + kind}) != ["ran"]:
                await anyio.lowlevel.checkpoint()
            assert line.of(None) == []
