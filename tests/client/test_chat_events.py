"""A chat whose events are read while the pipeline answers: on asyncio, on trio, and blocking."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest
from real_servers import ENV, NODES, PIPELINE, spawned
from scripted_peer import connected, settle, until

from rrext import (
    AgentBegun,
    AgentEnded,
    ChatEvent,
    ChatText,
    ModelAnswered,
    ModelAsked,
    PermitAsked,
    ToolBegun,
    ToolEnded,
    ToolError,
    blocking,
)
from rrext.client.chat_events import ChatReader

pytestmark = [pytest.mark.anyio, pytest.mark.promise("chat:events:as-they-come")]

REFERENCE: dict[str, Any] = {"type": "node", "node": "probe_1", "tool": "add", "name": "sum", "permission": "ask"}
GUIDED: dict[str, Any] = {
    "components": [
        {"id": "chat_1", "provider": "chat", "config": {}},
        {"id": "tools_1", "provider": "tools", "config": {"tools": [REFERENCE]}},
        {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]},
        {"id": "guide_1", "provider": "guide", "config": {}, "input": [{"lane": "questions", "from": "chat_1"}]},
        {"id": "reply_1", "provider": "response_answers", "config": {}, "input": [{"lane": "answers", "from": "guide_1"}]},
    ]
}
"""A pipeline whose agent calls a tool that needs a permit, then one that is not there."""

EXPECTED: list[tuple[type[ChatEvent], dict[str, Any]]] = [
    (AgentBegun, {"agent": "guide_1", "depth": 0}),
    (ModelAsked, {"agent": "guide_1", "turn": 1}),
    (ChatText, {"agent": "guide_1", "text": "I count."}),
    (ModelAnswered, {"model": "script", "output_tokens": 2, "input_tokens": None}),
    (PermitAsked, {"tool": "sum", "node_id": "tools_1", "arguments": {"a": 2}, "allowed": True}),
    (ToolBegun, {"tool": "sum", "node_id": "tools_1", "arguments": {"a": 2}, "depth": 0}),
    (ToolEnded, {"tool": "sum", "result": {"sum": 3}, "code": None}),
    (ToolBegun, {"tool": "fly", "node_id": "", "arguments": {}}),
    (ToolEnded, {"tool": "fly", "code": "no_such_tool", "message": "no such tool"}),
    (AgentEnded, {"agent": "guide_1", "code": None}),
]


def check(events: list[ChatEvent]) -> None:
    """They are the expected ones; pieces of a text count as one."""
    joined: list[ChatEvent] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, ChatText) and isinstance(last, ChatText):
            joined[-1] = msgspec.structs.replace(last, text=last.text + event.text)
        else:
            joined.append(event)
    assert [type(event) for event in joined] == [kind for kind, _ in EXPECTED]
    for event, (_, fields) in zip(joined, EXPECTED, strict=True):
        assert {name: getattr(event, name) for name in fields} == fields
    assert {event.missed for event in events} == {0}


async def test_a_chat_tells_texts_tools_and_permits_as_they_come_and_then_its_result() -> None:
    asked: list[dict[str, Any]] = []

    async def allow(body: dict[str, Any]) -> bool:
        asked.append(body)
        return True

    async with spawned() as client:
        await client.use(pipeline=GUIDED, token="guided")
        about: Any = {"token": "guided", "source": "chat_1", "question": "Count", "session": "mine"}
        async with client.chat_events(**about, on_permission=allow) as turn:
            events = [event async for event in turn]
        check(events)
        assert asked[0]["within"] == "guide_1"
        assert turn.result is not None
        assert turn.result["answers"] == ["3 mine"]
        assert (await client.chat(**about, on_permission=lambda body: False))["answers"] == ["unavailable mine"]
        told: list[str] = []
        assert (await client.chat(**about, on_event=lambda body: told.append(body["event"])))["answers"] == ["unavailable mine"]
        assert told[0] == told[-2] == "call_started"


def test_what_a_sub_agent_does_is_within_the_call_of_its_tool() -> None:
    def body(event: str, call: int, **more: Any) -> dict[str, Any]:
        return {"event": event, "time": 1.0, "call": call, **more}

    step = {"agent": "main", "step": "tool_call", "agentTool": "helper_run_agent", "data": {"query": "q"}}
    inner = {"caller": 1, "tool": "run_agent", "nodeId": "helper"}
    bodies = [
        body("call_started", 1),
        body("agent_step", 1, **step),
        body("call_started", 2, **inner),
        body("agent_step", 2, caller=1, agent="helper", step="chunk", data="I see"),
        body("call_started", 3, caller=2, tool="add", nodeId="probe"),
        body("call_ended", 3, caller=2, tool="add", nodeId="probe", seconds=0.5, result=3),
        body("call_ended", 2, **inner, seconds=1.0, code="lost", message="lost"),
        body("agent_step", 1, **{**step, "step": "tool_result"}, code="lost"),
    ]
    reader = ChatReader()
    events = [event for each in bodies for event in reader.read(each)]
    assert [(type(event), event.call, event.caller, event.depth) for event in events] == [
        (ToolBegun, 2, 1, 0),
        (ChatText, 2, 1, 1),
        (ToolBegun, 3, 2, 1),
        (ToolEnded, 3, 2, 1),
        (ToolEnded, 2, 1, 0),
    ]


async def test_one_tool_of_a_chat_is_cancelled_alone_and_its_caller_goes_on() -> None:
    async with spawned() as client:
        await client.use(pipeline=GUIDED, token="guided")
        async with client.chat_events(question="delegate", token="guided", source="chat_1") as turn:
            async for event in turn:
                if isinstance(event, ToolBegun):
                    turn.cancel(event.call)
                last = event
        assert isinstance(last, ToolEnded)
        assert (last.tool, last.code) == ("wait", "cancelled")
        assert turn.result is not None
        assert turn.result["answers"] == ["cancelled"]


async def test_leaving_the_block_cancels_the_question_and_its_failure_is_raised_at_its_end() -> None:
    async with spawned() as client:
        await client.use(pipeline=GUIDED, token="guided")
        about = {"token": "guided", "source": "chat_1"}
        async with client.chat_events(question="wait", **about) as turn:
            async for event in turn:
                if isinstance(event, ChatText):
                    break
        assert turn.result is None
        while await client.tool(tool="how_they_ended", token="real") != ["guide"]:
            await anyio.lowlevel.checkpoint()
        async with client.chat_events(question="fail", **about) as turn:
            kinds = [type(await anext(turn)) for _ in range(3)]
            assert kinds == [AgentBegun, ModelAsked, ChatText]
            while True:
                try:
                    await anext(turn)
                except ToolError as error:
                    failure = error
                    break
        assert failure.code == "lost"


async def test_a_reader_that_stands_still_costs_bounded_memory_and_is_told_what_it_missed() -> None:
    async with connected() as (client, peer):
        async with client.chat_events(question="long") as turn:
            await peer.answer(await peer.take("open"), {"pipe_id": 1})
            write = await peer.take("write")
            assert write.arguments["events"] is True
            for piece in range(4000):
                step = {"event": "agent_step", "step": "chunk", "time": 1.0, "call": 1, "agent": "a", "data": f"{piece:0100}"}
                await peer.event("rrext_call", {"request": write.id, **step})
            for number in range(2, 4):
                tool = {"time": 2.0, "call": number, "caller": 1, "tool": f"t{number}", "nodeId": "n"}
                await peer.event("rrext_call", {"request": write.id, "event": "call_started", **tool})
            await peer.event("rrext_call", {"request": write.id, "event": "agent_step", "step": "end", "time": 3.0, "call": 1,
                                            "agent": "a", "dropped": 5})  # fmt: skip
            await peer.answer(write, {})
            await peer.answer(await peer.take("close"), {"answers": ["whole"]})
            await settle()
            text, first, second, end = [event async for event in turn]
        assert isinstance(text, ChatText)
        assert text.text.startswith(f"{0:0100}{1:0100}")
        assert len(text.text) == 262_100
        assert (first.missed, second.missed, end.missed) == (4000 - 2621, 0, 5)
        assert turn.result == {"answers": ["whole"]}


async def test_a_reader_that_is_asked_is_interrupted_when_the_chat_is_over() -> None:
    async with connected() as (client, peer), anyio.create_task_group() as tasks:
        inside = anyio.Event()

        async def think(body: dict[str, Any]) -> bool:
            inside.set()
            await anyio.sleep_forever()
            return True

        seen: list[ChatEvent] = []

        async def read() -> None:
            async with client.chat_events(question="ask", on_permission=think) as turn:
                seen.extend([event async for event in turn])

        tasks.start_soon(read)
        await peer.answer(await peer.take("open"), {"pipe_id": 1})
        write = await peer.take("write")
        about = {"request": write.id, "permission": 7, "tool": "t", "nodeId": "n", "arguments": {}, "timeout": 60}
        await peer.event("rrext_permission", about)
        await inside.wait()
        await peer.answer(write, {})
        await peer.answer(await peer.take("close"), {"answers": []})
        await until(lambda: not tasks.cancel_scope.cancel_called and not client._connected().endpoint._calls)
    assert seen == []


def test_the_blocking_client_has_the_same_events() -> None:
    asked: list[Any] = []
    with blocking.Client.spawn(PIPELINE, nodes=NODES, env=ENV) as client:
        client.use(pipeline=GUIDED, token="guided")

        def allow(body: dict[str, Any]) -> bool:
            asked.append(client.tool(tool="add", input={"a": 1}, token="real"))
            return True

        with client.chat_events(question="Count", token="guided", source="chat_1", on_permission=allow) as turn:
            check(list(turn))
        assert turn.result is not None
        assert turn.result["answers"] == ["3 None"]
        assert asked == [{"sum": 2}]
        with client.chat_events(question="wait", token="guided", source="chat_1") as turn:
            assert isinstance(next(iter(turn)), AgentBegun)
        while client.tool(tool="how_they_ended", token="real") != ["guide"]:
            pass
        assert client.chat(question="Count", token="guided", source="chat_1", on_permission=allow)["answers"] == ["3 None"]
