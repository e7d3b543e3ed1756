"""`llm_anthropic` and `llm_gemini` against a real HTTP server that speaks their APIs."""

from __future__ import annotations

import json
import logging
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from model_server import Body, Call, HalfStream, Hang, ModelServer, Reset, Say, Status, Step

from rrext.errors import ToolError
from rrext.nodes.base import setup
from rrext.nodes.base.lanes import new_question
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.llm.anthropic import ANTHROPIC_PROFILES, ENDS, AnthropicNode
from rrext.nodes.llm.gemini import GeminiNode
from rrext.nodes.llm.sdk import SdkModel, SdkNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import call_tool, open_node, run_node
from rrext.threads import Workers
from rrext.tools.context import ToolContext

from chat_world import KEY  # isort: skip

pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

WEATHER = ToolDefinition(name="weather", parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}})


@pytest.fixture(params=[AnthropicNode, GeminiNode])
def node(request: pytest.FixtureRequest) -> type[SdkNode]:
    return request.param


def settings(server: ModelServer, **more: Any) -> dict[str, Any]:
    return {"base_url": server.root, "apikey": KEY, "model": "test-model", "retryDelay": 0.001, **more}


def ask(node: type[SdkNode], server: ModelServer, question: Any = "Hello", expectJson: bool = False, **more: Any) -> Any:
    return call_tool(node, "ask", {"question": question, "expectJson": expectJson}, config=settings(server, **more))


async def streamed(node: type[SdkNode], server: ModelServer, **more: Any) -> tuple[list[Any], ToolError | None]:
    pieces: list[Any] = []
    async with open_node(node, settings(server, **more)) as client:
        try:
            await client.tool(tool="ask_stream", input={"question": "Hello"}, on_chunk=pieces.append)
        except ToolError as error:
            return pieces, error
    return pieces, None


def test_a_question_is_asked_in_the_form_of_the_api_and_answered_with_its_tokens(
    node: type[SdkNode], server: ModelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "of-somebody")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-secret: of-somebody")
    question = new_question("Who?", role="You are a guide.", context=["It was Ada."])
    emitted = run_node(node, "questions", question, config=settings(server, temperature=0.5, maxTokens=9))
    assert emitted == {"answers": [{"answer": "You said: Context:\nIt was Ada.\n\nWho?", "expectJson": False, "tokens": 12}]}
    assert "It was Ada." not in caplog.text, "what users ask is in no log"
    assert KEY not in caplog.text
    (asked,) = server.asked
    assert (asked.key, asked.model) == (KEY, "test-model")
    assert "of-somebody" not in json.dumps(asked.headers)
    told = asked.body.get("generationConfig", asked.body)
    assert told["temperature"] == 0.5
    assert told.get("max_tokens") or told.get("maxOutputTokens") == 9
    assert "You are a guide." in json.dumps(asked.body.get("system") or asked.body.get("systemInstruction"))


def test_json_that_is_asked_for_comes_as_a_value_and_else_is_asked_for_again(node: type[SdkNode], server: ModelServer) -> None:
    server.next(Say("Sure!"), Say('```json\n{"a": [1]}\n```'))
    assert ask(node, server, expectJson=True) == {"answer": {"a": [1]}, "expectJson": True, "tokens": 24}


async def test_a_stream_brings_the_answer_in_its_pieces(node: type[SdkNode], server: ModelServer) -> None:
    server.next(Say(pieces=["Hel", "lo ", "wörld"]))
    assert await streamed(node, server) == (["Hel", "lo ", "wörld"], None)


FAILURES: tuple[tuple[Step, str, str], ...] = (
    (Status(401, f"invalid key {KEY}"), "model_unauthorized", "invalid key"),
    (Status(404), "model_not_found", "scripted"),
    (Status(429, headers={"retry-after": "7"}), "model_rate_limited", "429"),
    (Status(400), "model_bad_request", "scripted"),
    (Status(500), "model_failed", "scripted"),
    (Reset(), "model_unreachable", "the connection failed"),
    (Body(b"<html>"), "model_bad_answer", ""),
    (Body(b"x", headers={"content-encoding": "br"}), "model_bad_answer", "packing"),
    (HalfStream(["It "]), "model_unreachable", "the connection failed"),
    (HalfStream(["It "], clean=True), "model_unreachable", "broke off"),
    (Say("It is", finish="length"), "answer_cut", "cut"),
)


@pytest.mark.promise("models:one-failure")
async def test_a_failure_has_the_code_that_other_models_have(node: type[SdkNode], server: ModelServer) -> None:
    async with open_node(node, settings(server, retries=0)) as client:
        for step, code, said in FAILURES:
            server.next(step)
            with pytest.raises(ToolError) as caught:
                await client.tool(tool="ask_stream", input={"question": "Hello"})
            error = caught.value
            assert error.code == code, step
            assert said in error.message
            assert KEY not in error.message + json.dumps(error.data) + (error.hint or "")


IN_STREAMS = {
    AnthropicNode: b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "too busy"}}\n\n',
    GeminiNode: b'data: {"error": {"code": 503, "message": "too busy", "status": "UNAVAILABLE"}}\n\n',
}


async def test_a_failure_within_a_stream_is_told_in_the_servers_words(node: type[SdkNode], server: ModelServer) -> None:
    server.next(Body(IN_STREAMS[node], "text/event-stream"))
    _, error = await streamed(node, server, retries=0)
    assert error is not None
    assert (error.code, "too busy" in error.message) == ("model_failed", True)


async def test_an_answer_that_is_withheld_is_a_failure(server: ModelServer) -> None:
    for node, code in ((AnthropicNode, "answer_refused"), (GeminiNode, "answer_filtered")):
        server.next(Say("It is", finish="content_filter"))
        _, error = await streamed(node, server)
        assert error is not None
        assert error.code == code


async def test_what_passes_is_tried_again_and_a_silent_server_given_up(node: type[SdkNode], server: ModelServer) -> None:
    server.next(Status(503, headers={"retry-after-ms": "1"}), Say("ok"))
    assert await streamed(node, server, retries=1) == (["ok"], None)
    server.next(Hang())
    asked = len(server.asked)
    _, error = await streamed(node, server, retries=0, timeout=0.2)
    assert error is not None
    assert error.code == "model_timeout"
    if len(server.asked) > asked:  # on a busy machine the time may be over before
        assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20)), "the request was not closed"


@pytest.mark.promise("models:left:closed")
async def test_a_cancelled_call_closes_its_request_at_once(node: type[SdkNode], server: ModelServer) -> None:
    server.next(Hang(["one"]))
    async with open_node(node, settings(server)) as client, anyio.create_task_group() as group:

        async def call() -> None:
            await client.tool(tool="ask_stream", input={"question": "?"})

        group.start_soon(call)
        assert await anyio.to_thread.run_sync(lambda: server.hanging.acquire(timeout=20))
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20)), "the request was not closed"


@pytest.mark.promise("models:left:closed")
async def test_a_stream_that_is_left_closes_its_request(node: type[SdkNode], server: ModelServer) -> None:
    server.next(Hang(["one"]))
    config = node.Config()
    config.base_url, config.model, config.apikey = server.root, "m", KEY
    async with node.setup(config, SetupContext(Workers(), node_id="llm_1")) as model:
        async with aclosing(model.stream(new_question("?"), ToolContext())) as pieces:
            assert await anext(pieces) == "one"
        assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20)), "the request was not closed"


async def test_the_model_of_a_remote_pipeline_reaches_no_private_address(node: type[SdkNode], server: ModelServer) -> None:
    config = node.Config()
    config.base_url, config.model, config.apikey, config.retries = server.root, "m", KEY, 0
    async with node.setup(config, SetupContext(Workers(), node_id="llm_1", remote=True)) as model:
        with pytest.raises(ToolError) as caught:
            await model.ask(new_question("?"), ToolContext())
    assert caught.value.code == "private_address"
    assert server.asked == []


async def test_an_agent_gets_the_calls_of_tools(node: type[SdkNode], server: ModelServer) -> None:
    server.next(Say("Let me see.", calls=[Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"})]))
    config = node.Config()
    config.base_url, config.model = server.root, node.profiles[node.default_profile or ""]["model"]
    async with node.setup(config, SetupContext(Workers(), node_id="llm_1")) as model:
        assert isinstance(model, SdkModel)
        agent = model.agent_model()
        assert agent.price is not None
        server.key = None
        async with model_request_stream(
            agent.model,
            [ModelRequest.user_text_prompt("?")],
            model_settings=agent.settings,
            model_request_parameters=ModelRequestParameters(function_tools=[WEATHER]),
        ) as events:
            async for _ in events:
                pass
            answer = events.get()
        await agent.close()
    assert server.asked[0].tools == ["weather"]
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert [call.args_as_dict() for call in calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (5, 7)


def test_a_missing_package_is_told_with_the_line_that_installs_it(node: type[SdkNode], monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.unavailable() is None
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    assert f'pip install "rrext[{node.needs[0]}]"' in (node.unavailable() or "")


def test_a_model_whose_end_is_known_is_warned_of_and_no_default_or_example_names_one() -> None:
    def cautions(profile: str, **own: Any) -> list[tuple[str, str, str]]:
        config = {"profile": profile, profile: own}
        components = [
            {"id": "chat_1", "provider": "chat", "config": {}},
            {"id": "llm_1", "provider": "llm_anthropic", "config": config},
        ]
        found = load_pipeline({"components": components}, Catalog(installed=False), Environment()).problems
        return [(each.severity, each.path, each.message) for each in found if each.code == "caution"]

    [(severity, path, message)] = cautions("claude-sonnet-4-5")
    assert (severity, path) == ("warning", "/components/1/config/claude-sonnet-4-5/model")
    assert "2026-11-30" in message
    assert cautions("custom", model="claude-opus-4-5-20251101") != []
    assert ENDS.keys() <= ANTHROPIC_PROFILES.keys(), "files of RocketRide name them"
    assert cautions(AnthropicNode.default_profile or "") == cautions("claude") == cautions("custom", model="my-model") == []
    for path in (Path(__file__).resolve().parents[2] / "examples").rglob("*.pipe"):
        assert not any(name in path.read_text() for name in ENDS), path
