"""`llm_scripted` as the model of an agent: its turns, and its misbehaviours."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from rrext.errors import ToolError
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.llm.scripted import ScriptedNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.threads import Workers

from fake_pipe import made  # isort: skip
from running import component, pipeline  # isort: skip

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from pydantic_ai import Agent
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart

from rrext.nodes.llm.agent_models import AgentModel, model_failure, require_whole

ANALYST: dict[str, Any] = {
    "match": "how many",
    "answer": "That was all.",
    "turns": [
        {"text": ["Let me ", "count."], "calls": [{"tool": "query", "input": {"sql": "select count(*) as n from visit"}}]},
        {"calls": [{"tool": "run_python", "input": {"code": "result = {result.rows.0.n} * 2"}}]},
        {"text": "{question} {result}, which is twice of what was there.", "usage": {"input": 30, "output": 9}},
    ],
}


async def agent_model(*script: dict[str, Any], **settings: Any) -> AgentModel:
    config = made(ScriptedNode, script=script, **settings).config
    async with ScriptedNode.setup(config, SetupContext(Workers(), node_id="llm_1")) as shared:
        return shared.agent_model()


async def turn(agent: AgentModel, question: str = "?") -> ModelResponse:
    async with model_request_stream(agent.model, [ModelRequest.user_text_prompt(question)]) as events:
        async for _ in events:
            pass
        return events.get()


async def test_a_script_drives_an_agent_through_its_tools_to_the_answer() -> None:
    agent = await agent_model(ANALYST, price={"input": 1.0, "output": 2.0})
    assert agent.price == {"input": 1.0, "output": 2.0}
    loop: Agent[None, str] = Agent(agent.model)
    asked: list[str] = []

    @loop.tool_plain
    def query(sql: str) -> dict[str, Any]:
        asked.append(sql)
        return {"rows": [{"n": 21}]}

    @loop.tool_plain
    def run_python(code: str) -> str:
        asked.append(code)
        return "42"

    pieces: list[str] = []
    async with loop.run_stream_events("How many visits?") as events:
        async for event in events:
            if (delta := getattr(event, "delta", None)) is not None and (text := getattr(delta, "content_delta", None)):
                pieces.append(text)
    assert asked == ["select count(*) as n from visit", "result = 21 * 2"]
    assert pieces == ["count."]
    run = await loop.run("How many visits?")
    assert run.output == "How many visits? 42, which is twice of what was there."
    assert (run.usage.input_tokens, run.usage.output_tokens) == (30, 9)
    assert (await loop.run("How many?", message_history=run.all_messages())).output.startswith("How many? 42")


async def test_after_the_turns_the_answer_comes_and_without_a_line_the_default() -> None:
    agent = await agent_model({"match": "a", "answer": {"b": [1]}, "turns": []}, default="No idea of {question}")
    assert (await model_request(agent.model, [ModelRequest.user_text_prompt("a")])).text == '{"b":[1]}'
    assert (await turn(agent, "x")).text == "No idea of x"
    with pytest.raises(ToolError) as caught:
        await turn(await agent_model({"match": "*", "turns": []}))
    assert caught.value.code == "no_answer"


async def test_arguments_that_are_a_text_are_what_the_model_writes() -> None:
    agent = await agent_model({"match": "*", "turns": [{"calls": [{"tool": "a", "input": '{"b": '}, {"tool": "c"}]}]})
    calls = [part for part in (await turn(agent)).parts if isinstance(part, ToolCallPart)]
    assert [(call.tool_name, call.args) for call in calls] == [("a", '{"b": '), ("c", "{}")]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"failure": {"status": 503, "message": "too busy"}}, "model_failed"),
        ({"failure": {"status": 429}}, "model_rate_limited"),
        ({"text": "It", "cut": True}, "model_unreachable"),
        ({"calls": [{"tool": "a", "input": {"b": 1}}], "cut": True}, "model_unreachable"),
        ({"text": "It", "finish": "length"}, "answer_cut"),
        ({"text": "It", "finish": "content_filter"}, "answer_filtered"),
        ({"text": "{result}"}, "no_result"),
    ],
    ids=repr,
)
async def test_a_misbehaviour_of_a_script_fails_as_that_of_a_server(said: dict[str, Any], code: str) -> None:
    agent = await agent_model({"match": "*", "turns": [said]})
    with pytest.raises(Exception) as caught:
        require_whole(agent.server, await turn(agent))
    assert model_failure(caught.value, agent.server).code == code


async def test_a_script_that_stalls_is_stopped_by_a_cancel() -> None:
    agent = await agent_model({"match": "*", "turns": [{"text": "One", "stall": 3600}]})
    texts: list[str] = []
    with anyio.CancelScope() as scope:
        async with model_request_stream(agent.model, [ModelRequest.user_text_prompt("?")]) as events:
            async for event in events:
                texts.append(type(event).__name__)
                if texts == ["PartStartEvent", "FinalResultEvent"]:
                    scope.cancel()
    assert texts == ["PartStartEvent", "FinalResultEvent"]


async def test_a_turn_without_usage_counts_nothing() -> None:
    agent = await agent_model({"match": "*", "turns": [{"text": "One"}]})
    usage = (await turn(agent)).usage
    assert (usage.input_tokens, usage.unmeasured_requests) == (0, 1)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ({"turns": []}, "/components/1/config/script/0/match"),
        ({"match": "a", "turns": [{"text": 1}]}, "/components/1/config/script/0/turns/0/text"),
        ({"match": "a", "turns": [{"calls": [{"input": {}}]}]}, "/components/1/config/script/0/turns/0/calls/0/tool"),
        ({"match": "a", "turns": [{}, {"failure": {"status": 200}}]}, "/components/1/config/script/0/turns/1/failure/status"),
        ({"match": "a", "turns": [{"usage": {"input": -1, "output": 1}}]}, "/components/1/config/script/0/turns/0/usage/input"),
        ({"match": "a", "turns": [{"call": []}]}, "/components/1/config/script/0/turns/0/call"),
    ],
    ids=repr,
)
def test_a_line_that_is_wrong_is_a_problem_with_its_place(line: dict[str, Any], path: str) -> None:
    text = pipeline(component("chat_1", "chat"), component("llm_1", "llm_scripted", "questions:chat_1", script=[line]))
    loaded = load_pipeline(text, Catalog(), Environment())
    assert path in [problem.path for problem in loaded.problems]
