"""The models that LLM nodes give to agents, against a real HTTP server: what is asked, and every way that it can go wrong."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from model_server import Body, Call, HalfStream, Hang, ModelServer, Reset, Say, Status, Step, Usage

from rrext.errors import ToolError
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.http import EndpointSettings, Retries, open_endpoint
from rrext.nodes.llm.chat import ChatModel, ChatSettings
from rrext.threads import Workers

from chat_world import KEY  # isort: skip

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from rrext.nodes.llm.agent_models import AgentModel, model_failure, require_whole

WEATHER = ToolDefinition(name="weather", parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}})


@asynccontextmanager
async def made(
    server: ModelServer | str, *, remote: bool = False, retries: int = 0, **settings: Any
) -> AsyncIterator[AgentModel]:
    address = server if isinstance(server, str) else server.address
    limits = {name: settings.pop(name) for name in ("silence", "total", "max_answer") if name in settings}
    endpoint = EndpointSettings(address=address, apikey=KEY, retries=Retries(count=retries), **limits)
    async with open_endpoint(endpoint, SetupContext(Workers(), node_id="llm_1", remote=remote)) as opened:
        agent = ChatModel(opened, ChatSettings(**{"model": "test-model", **settings})).agent_model()
        try:
            yield agent
        finally:
            await agent.close()


async def asked(agent: AgentModel, *, stream: bool = True) -> ModelResponse:
    """The answer to one question, or the failure as a caller of an agent gets it."""
    parameters = ModelRequestParameters(function_tools=[WEATHER])
    question = [ModelRequest.user_text_prompt("Hello")]
    try:
        if not stream:
            answer = await model_request(
                agent.model, question, model_settings=agent.settings, model_request_parameters=parameters
            )
        else:
            async with model_request_stream(
                agent.model, question, model_settings=agent.settings, model_request_parameters=parameters
            ) as events:
                async for _ in events:
                    pass
                answer = events.get()
        require_whole(agent.server, answer)
    except Exception as error:
        raise model_failure(error, agent.server) from None
    return answer


async def failure(agent: AgentModel, *, stream: bool = True) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await asked(agent, stream=stream)
    shown = caught.value.message + json.dumps(caught.value.data) + (caught.value.hint or "")
    assert KEY not in shown + repr(agent)
    return caught.value


async def test_a_model_of_an_agent_asks_with_the_settings_of_its_node(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-secret: of-somebody")
    server.next(Say("Let me see.", calls=[Call("weather", {"city": "Oslo"})], usage=Usage(11, 3)))
    async with made(
        server, temperature=0.5, max_tokens=9, extra={"top_k": 3}, window=4000, price={"input": 1, "output": 2}
    ) as agent:
        answer = await asked(agent)
        assert (agent.name, agent.window, agent.price) == ("test-model", 4000, {"input": 1, "output": 2})
    (request,) = server.asked
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert not [name for name in request.headers if name.startswith(("x-", "openai-"))]
    assert request.headers["user-agent"] == "rrext"
    body = request.body
    assert {name: body[name] for name in ("model", "temperature", "max_tokens", "top_k")} == {
        "model": "test-model",
        "temperature": 0.5,
        "max_tokens": 9,
        "top_k": 3,
    }
    assert request.tools == ["weather"]
    assert answer.text == "Let me see."
    (call,) = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert (call.tool_name, call.args_as_dict()) == ("weather", {"city": "Oslo"})
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 3)


async def test_calls_without_ids_or_indexes_stay_apart(server: ModelServer) -> None:
    calls = [Call("weather", {"city": "Oslo"}, id=None), Call("weather", {"city": "Rome"}, has_index=False)]
    server.next(Say(calls=calls))
    async with made(server) as agent:
        answer = await asked(agent)
    found = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert [part.args_as_dict()["city"] for part in found] == ["Oslo", "Rome"]
    assert len({part.tool_call_id for part in found}) == 2


async def test_what_passes_is_tried_again(server: ModelServer) -> None:
    server.next(Status(503, headers={"retry-after-ms": "1"}), Say("ok"))
    async with made(server, retries=1) as agent:
        assert (await asked(agent)).text == "ok"


FAILURES: tuple[tuple[Step, str, str], ...] = (
    (Status(401, f"Incorrect API key provided: {KEY}"), "model_unauthorized", "Incorrect"),
    (Status(404), "model_not_found", "scripted"),
    (Status(429, headers={"retry-after": "7"}), "model_rate_limited", "429"),
    (Status(429, code="insufficient_quota"), "model_rate_limited", "429"),
    (Status(400, "this model's maximum context length is 5"), "model_bad_request", "maximum context length"),
    (Status(302, headers={"location": "http://elsewhere.invalid"}), "model_redirected", "302"),
    (Status(500), "model_failed", "scripted"),
    (Reset(), "model_unreachable", "the connection failed"),
    (Body(b"<html>"), "model_bad_answer", "cannot be read"),
    (Body(b'data: {"error": {"message": "too busy"}}\n\n', "text/event-stream"), "model_failed", "too busy"),
    (Body(b"", "text/event-stream"), "model_bad_answer", ""),
    (Body(b"x" * 2000, "text/event-stream"), "model_answer_too_large", "1,000"),
    (Body(b"x", headers={"content-encoding": "br"}), "model_bad_answer", "packing"),
    (HalfStream(["It "]), "model_unreachable", "the connection failed"),
    (HalfStream(["It "], clean=True), "model_unreachable", "finish_reason"),
    (HalfStream([], calls=[Call("weather", {"city": "Oslo"})]), "model_unreachable", ""),
    (Say("It is", finish="length"), "answer_cut", "cut"),
    (Say("It is", finish="content_filter"), "answer_filtered", "filter"),
    (Say("", refusal="I will not."), "answer_refused", "I will not."),
)


@pytest.mark.promise("models:one-failure")
async def test_a_failure_has_the_code_that_ask_has(server: ModelServer) -> None:
    async with made(server, max_answer=1000) as agent:
        for step, code, said in FAILURES:
            server.next(step)
            error = await failure(agent)
            assert error.code == code, step
            assert said in error.message
            if isinstance(step, Status) and "retry-after" in step.headers:
                assert error.data["retryAfter"] == 7


@pytest.mark.parametrize(
    ("step", "code"),
    [(Body(b"{}"), "model_bad_answer"), (Body(b"no"), "model_bad_answer"), (Say("It", finish="length"), "answer_cut")],
    ids=repr,
)
async def test_a_whole_answer_that_is_none_is_told_as_such(server: ModelServer, step: Step, code: str) -> None:
    server.next(step)
    async with made(server) as agent:
        assert (await failure(agent, stream=False)).code == code


@pytest.mark.parametrize(("limits", "said"), [({"silence": 0.05}, "(timeout)"), ({"total": 0.1}, "totalTimeout")])
async def test_a_silent_server_is_given_up(server: ModelServer, limits: dict[str, float], said: str) -> None:
    server.next(Hang())
    async with made(server, **limits) as agent:
        error = await failure(agent)
    assert error.code == "model_timeout"
    assert said in error.message
    if server.asked:  # on a busy machine the time may be over before
        assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20)), "the request was not closed"


@pytest.mark.promise("models:left:closed")
async def test_a_cancelled_run_closes_its_request_at_once(server: ModelServer) -> None:
    server.next(Hang(["one"]))
    async with made(server) as agent, anyio.create_task_group() as group:
        group.start_soon(asked, agent)
        assert await anyio.to_thread.run_sync(lambda: server.hanging.acquire(timeout=20))
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            assert await anyio.to_thread.run_sync(lambda: server.lost.acquire(timeout=20)), "the request was not closed"


async def test_the_model_of_a_remote_pipeline_reaches_no_private_address(server: ModelServer) -> None:
    async with made(server, remote=True, retries=2) as agent:
        assert (await failure(agent)).code == "private_address"
    assert server.asked == []


@pytest.mark.parametrize(
    ("service", "model", "is_known"), [("openai", "gpt-4o", True), ("ollama", "gpt-4o", False), ("openai", "x", False)]
)
async def test_a_price_is_known_for_models_of_their_makers_alone(
    server: ModelServer, service: str, model: str, is_known: bool
) -> None:
    async with made(server, service=service, model=model) as agent:
        assert (agent.price is not None) == is_known
