"""Tools that need a permit for each call: the caller is asked by an event, and its answer decides."""

from __future__ import annotations

from typing import Any

import pytest
from face import Line
from houses import WireLine

from rrext.wire.messages import Event

pytestmark = pytest.mark.promise("references:ask:caller-decides")

ASKING: dict[str, Any] = {
    "components": [
        {
            "id": "tools_1",
            "provider": "tools",
            "config": {"tools": [{"type": "node", "node": "probe_1", "tool": "add", "name": "sum", "permission": "ask"}]},
        },
        {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]},
    ],
    "source": "tools_1",
}


async def asked(line: Line, **more: Any) -> int | str:
    await line.answer(await line.send("execute", {"pipeline": ASKING, "token": "asking"}))
    return await line.call("sum", {"a": 1, "b": 2}, token="asking", **more)


@pytest.mark.parametrize("allow", [True, False])
async def test_the_answer_of_the_caller_decides(wire: WireLine, allow: bool) -> None:
    number = await asked(wire, permits=True)
    question = await wire.message(number, 0)
    assert isinstance(question, Event)
    assert question.name == "rrext_permission"
    permission = question.body["permission"]
    assert question.body == {
        "request": number,
        "permission": permission,
        "tool": "sum",
        "nodeId": "tools_1",
        "arguments": {"a": 1, "b": 2},
        "timeout": 60.0,
    }
    permit = {"permission": permission, "allow": allow}
    assert (await wire.answer(await wire.send("rrext_permit", permit))).body == {"answered": True}
    answer = await wire.answer(number)
    if allow:
        assert answer.body == {"result": {"sum": 3}}
    else:
        assert answer.error is not None
        assert answer.error.code == "unavailable"
        assert "it was denied" in answer.error.message
    assert (await wire.answer(await wire.send("rrext_permit", permit))).body == {"answered": False}


async def test_a_caller_who_does_not_offer_to_answer_is_refused_and_not_asked(wire: WireLine) -> None:
    number = await asked(wire)
    answer = await wire.answer(number)
    assert answer.error is not None
    assert "`permits`" in answer.error.message
    assert not wire.events(number)


async def test_a_question_that_nobody_asked_has_no_answer(wire: WireLine) -> None:
    answer = await wire.answer(await wire.send("rrext_permit", {"permission": 77, "allow": True}))
    assert answer.body == {"answered": False}
    refused = await wire.answer(await wire.send("rrext_permit", {"permission": "77", "allow": 1}))
    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"


async def test_a_call_that_waits_for_its_permit_can_be_cancelled(wire: WireLine) -> None:
    number = await asked(wire, permits=True)
    question = await wire.message(number, 0)
    await wire.cancel(number)
    answer = await wire.answer(number)
    assert answer.error is not None
    assert answer.error.code == "cancelled"
    permit = {"permission": question.body["permission"], "allow": True}
    assert (await wire.answer(await wire.send("rrext_permit", permit))).body == {"answered": False}


async def test_no_question_of_a_call_is_open_after_the_call(wire: WireLine) -> None:
    nest = {"id": "nest_1", "provider": "nest", "config": {}, "control": [{"classType": "tool", "from": "tools_1"}]}
    pipeline = {**ASKING, "components": [*ASKING["components"], nest]}
    await wire.answer(await wire.send("execute", {"pipeline": pipeline, "token": "asking many"}))
    number = await wire.call("ask_many", {"number": 3, "tool": "sum"}, token="asking many", permits=True)
    questions = [await wire.message(number, index) for index in range(3)]
    await wire.cancel(number)
    await wire.answer(number)
    for question in questions:
        assert isinstance(question, Event)
        permit = {"permission": question.body["permission"], "allow": True}
        assert (await wire.answer(await wire.send("rrext_permit", permit))).body == {"answered": False}


@pytest.mark.promise("pool:limit:true")
async def test_a_call_that_waits_for_its_permit_keeps_no_place_from_others(wire: WireLine) -> None:
    await wire.answer(await wire.send("execute", {"pipeline": ASKING, "token": "one at a time", "threads": 1}))
    about: dict[str, Any] = {"token": "one at a time", "permits": True}
    asking = [await wire.call("sum", {"a": each, "b": 1}, **about) for each in range(3)]
    questions = [await wire.message(number, 0) for number in asking]
    assert await wire.result("add", {"a": 1, "b": 1}, token="one at a time", nodeId="probe_1") == {"sum": 2}
    for question in questions:
        assert isinstance(question, Event)
        await wire.answer(await wire.send("rrext_permit", {"permission": question.body["permission"], "allow": True}))
    assert [(await wire.answer(number)).body for number in asking] == [{"result": {"sum": each + 1}} for each in range(3)]


FLYING: dict[str, Any] = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        *ASKING["components"],
        {"id": "pilot_1", "provider": "pilot", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "copilot_1", "provider": "copilot", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "out_1", "provider": "response_text", "config": {}, "input": [
            {"lane": "text", "from": "pilot_1"}, {"lane": "text", "from": "copilot_1"},
        ]},
    ],
}  # fmt: skip


async def test_who_writes_decides_over_what_the_nodes_call_for_the_object(wire: WireLine) -> None:
    await wire.answer(await wire.send("execute", {"pipeline": FLYING, "token": "flying"}))
    about = {"token": "flying", "source": "webhook_1", "mimeType": "lane/text"}
    opened = await wire.answer(await wire.send("rrext_process", {"subcommand": "open", **about}))
    pipe = {"pipe_id": opened.body["pipe_id"]}

    async def written(*allowed: bool, **more: Any) -> None:
        number = await wire.send("rrext_process", {"subcommand": "write", "data": "tools_1.sum", **pipe, **more})
        for index, allow in enumerate(allowed):
            question = await wire.message(number, index)
            assert isinstance(question, Event)
            within = ("pilot_1", "copilot_1")[index]
            assert (question.name, question.body["tool"], question.body["within"]) == ("rrext_permission", "sum", within)
            permit = {"permission": question.body["permission"], "allow": allow}
            assert (await wire.answer(await wire.send("rrext_permit", permit))).body == {"answered": True}
        assert (await wire.answer(number)).body == {}

    await written(True, False, permits=True)
    await written()
    cancelled = await wire.send("rrext_process", {"subcommand": "write", "data": "tools_1.sum", "permits": True, **pipe})
    await wire.message(cancelled, 0)
    await wire.cancel(cancelled)
    assert (await wire.answer(cancelled)).error is not None
    closed = await wire.answer(await wire.send("rrext_process", {"subcommand": "close", **pipe}))
    assert "".join(closed.body["text"]).split() == ["{'sum':", "3}", "unavailable", "unavailable", "unavailable"]
    assert closed.body["error"]["code"] == "cancelled"
