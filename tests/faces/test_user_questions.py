"""A tool asks the user of its caller: the question is an event, and the answer a command."""

from __future__ import annotations

from typing import Any

import pytest
from face import Line, Way
from houses import WireLine, open_house

from rrext.wire.messages import Event

pytestmark = pytest.mark.promise("questions:caller-answers")

FORM = {
    "message": "How many?",
    "requestedSchema": {"type": "object", "properties": {"count": {"type": ["integer", "null"], "x-own": [None]}}},
    "_meta": {"k": 1},
}
PAGE = {"mode": "url", "message": "Sign in", "url": "https://example.org/in", "elicitationId": "e-1"}

ASKING_PILOT: dict[str, Any] = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {"id": "probe_1", "provider": "probe", "config": {}, "control": [{"classType": "tool", "from": "webhook_1"}]},
        {"id": "pilot_1", "provider": "pilot", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "out_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "pilot_1"}]},
    ],
    "source": "webhook_1",
}


async def asked(line: Line, params: Any = FORM, modes: Any = ("form", "url"), **more: Any) -> int | str:
    return await line.call("ask_user", {"params": params}, questions=list(modes), **more)


async def answer(line: Line, question: Any, action: str, **content: Any) -> dict[str, Any]:
    return (await line.answer(await line.send("rrext_answer", {"question": question, "action": action, **content}))).body


@pytest.mark.parametrize("params", [FORM, PAGE])
async def test_the_caller_is_asked_in_the_words_of_the_tool_and_its_answer_is_the_tools(wire: WireLine, params: Any) -> None:
    number = await asked(wire, params)
    event = await wire.message(number, 0)
    assert isinstance(event, Event)
    assert event.name == "rrext_question"
    question = event.body["question"]
    assert event.body == {
        "request": number, "question": question, "tool": "ask_user", "nodeId": "nest_1", "params": params, "timeout": 60.0,
    }  # fmt: skip
    content = {"count": 3, "own": ["a", None]}
    assert await answer(wire, question, "accept", content=content) == {"answered": True}
    given = {"modes": ["form", "url"], "action": "accept", "content": content}
    assert (await wire.answer(number)).body == {"result": given}
    assert await answer(wire, question, "decline") == {"answered": False}


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_decline_or_cancel(wire: WireLine, action: str) -> None:
    number = await asked(wire)
    event = await wire.message(number, 0)
    await answer(wire, event.body["question"], action)
    assert (await wire.answer(number)).body["result"]["action"] == action


@pytest.mark.parametrize(
    ("params", "modes"), [(FORM, []), (PAGE, ["form"]), (FORM, ["url"]), ({"mode": "own"}, ["form", "url"])]
)
async def test_a_caller_who_does_not_offer_to_ask_like_that_is_not_asked(wire: WireLine, params: Any, modes: list[str]) -> None:
    number = await asked(wire, params, modes)
    refused = await wire.answer(number)
    assert refused.error is not None
    assert refused.error.code == "unavailable"
    assert "`questions`" in refused.error.message
    assert not wire.events(number)


async def test_kinds_of_questions_that_nobody_knows_are_refused(wire: WireLine) -> None:
    refused = await wire.answer(await asked(wire, FORM, ["voice"]))
    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"


async def test_a_permit_answers_no_question_and_an_answer_permits_nothing(wire: WireLine) -> None:
    number = await asked(wire)
    question = (await wire.message(number, 0)).body["question"]
    permit = {"permission": question, "allow": True}
    assert (await wire.answer(await wire.send("rrext_permit", permit))).body == {"answered": False}
    assert await answer(wire, question, "accept") == {"answered": True}
    assert (await wire.answer(number)).body["result"]["action"] == "accept"


async def test_no_question_is_open_after_its_call(wire: WireLine) -> None:
    number = await asked(wire)
    event = await wire.message(number, 0)
    await wire.cancel(number)
    cancelled = await wire.answer(number)
    assert cancelled.error is not None
    assert cancelled.error.code == "cancelled"
    assert await answer(wire, event.body["question"], "accept") == {"answered": False}


async def test_a_tool_within_a_tool_asks_the_same_caller(wire: WireLine) -> None:
    inner = {"node": "nest_1", "tool": "ask_user", "input": {"params": FORM}}
    number = await wire.call("ask_async", inner, questions=["form"])
    event = await wire.message(number, 0)
    assert event.body["within"] == "nest_1.ask_async"
    await answer(wire, event.body["question"], "accept", content={"count": 1})
    assert (await wire.answer(number)).body["result"]["content"] == {"count": 1}


async def test_who_does_not_answer_in_time_cancels() -> None:
    async with open_house(Way("memory", "dap"), clock=True) as house, house.line() as line:
        number = await asked(line)
        event = await line.message(number, 0)
        house.clock.advance(60)
        assert (await line.answer(number)).body["result"]["action"] == "cancel"
        assert await answer(line, event.body["question"], "accept") == {"answered": False}


async def test_a_node_that_works_on_an_object_asks_the_user_of_who_writes(wire: WireLine) -> None:
    await wire.answer(await wire.send("execute", {"pipeline": ASKING_PILOT, "token": "pilot"}))
    opened = await wire.answer(
        await wire.send("rrext_process", {"subcommand": "open", "token": "pilot", "mimeType": "lane/text"})
    )
    pipe = {"pipe_id": opened.body["pipe_id"]}
    number = await wire.send("rrext_process", {"subcommand": "write", "data": "ask", "questions": ["form"], **pipe})
    event = await wire.message(number, 0)
    assert isinstance(event, Event)
    assert (event.name, event.body["nodeId"], event.body.get("tool")) == ("rrext_question", "pilot_1", None)
    await answer(wire, event.body["question"], "decline")
    assert (await wire.answer(number)).body == {}
    closed = await wire.answer(await wire.send("rrext_process", {"subcommand": "close", **pipe}))
    assert closed.body["text"] == ["decline\n\n"]
