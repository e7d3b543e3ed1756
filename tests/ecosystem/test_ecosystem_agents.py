"""Pipelines with the nodes and edges of RocketRide's own examples of agents answer, with the models at another address."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from model_server import Asked, Call, ModelServer, Say, serving

from rrext.client.client import Client
from rrext.engine.local_engine import LocalEngine
from rrext.nodes.sandbox.node import PythonNode
from rrext.pipefile.catalog.catalog import Catalog
from rrext.testing.sessions import pair

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")
pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")

HERE = Path(__file__).resolve().parent
KEYS = {f"ROCKETRIDE_{maker}_KEY": f"sk-{maker}-4711" for maker in ("OPENAI", "ANTHROPIC", "GEMINI")}


@asynccontextmanager
async def loaded(name: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client of a pipeline whose models are at the server."""
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    engine = LocalEngine(catalog=Catalog())
    try:
        text = (HERE / f"{name}.pipe").read_text(encoding="utf-8")
        engine.load(text, token="t", env={**KEYS, "ROCKETRIDE_MODEL_URL": server.root})
        async with pair(engine) as client:
            yield client
    finally:
        await engine.aclose()


async def test_a_planner_uses_python_its_memory_and_a_scout_that_asks_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := PythonNode.unavailable():
        pytest.skip(missing)
    with serving() as server:

        def play(asked: Asked) -> Say | None:
            if asked.wire is None:  # what the scout asks
                return None
            if "run_agent" in asked.tools:
                if not asked.results:
                    nights = Call("execute", {"code": "result = 7 * 3"})
                    keep = Call("put", {"key": "nights", "value": 21})
                    return Say("I plan.", calls=[nights, keep, Call("run_agent", {"query": "Is the hut open?"})])
                ran, _, scouted = asked.results
                return Say(f"{json.loads(ran)['result']} nights. {scouted}")
            if not asked.results:
                look = {"url": f"{server.address}/embeddings", "method": "POST", "body_json": {"model": "m", "input": "hut"}}
                return Say(calls=[Call("http_request", look)])
            return Say(f"The hut said {json.loads(asked.results[0])['status_code']}.")

        server.plays(play)
        async with loaded("planner", server, monkeypatch) as client:
            turn: Any = await client.chat(question="Where do we sleep?")
        assert turn["answers"] == ["21 nights. The hut said 200."]
        asked = [(request.model, request.key) for request in server.asked if request.wire is not None]
        planner, scout = ("gpt-4o", "sk-OPENAI-4711"), ("claude-sonnet-4-6", "sk-ANTHROPIC-4711")
        assert asked == [planner, scout, scout, planner]
        offered = [set(request.tools) for request in server.asked if request.wire is not None]
        memory = {"put", "get", "list", "clear"}
        assert offered[0] == {"http_request", "execute", "run_agent", *memory}
        assert offered[1] == {"http_request", *memory}


async def test_three_agents_answer_one_question_each_with_a_model_of_another_maker(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        server.plays(lambda asked: Say(asked.model.partition("-")[0]))
        async with loaded("three_models", server, monkeypatch) as client:
            turn: Any = await client.chat(question="Who are you?")
        assert sorted(turn["answers"]) == ["claude", "gemini", "gpt"]
        assert sorted(request.key for request in server.asked) == sorted(KEYS.values())
