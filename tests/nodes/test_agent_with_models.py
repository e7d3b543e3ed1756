"""The agent with each kind of model that is not OpenAI's: a script, offline, and the makers' own APIs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from model_server import Call, ModelServer, Say, serving

from rrext.nodes.llm.scripted import Script

from running import component, pipeline, running  # isort: skip

pytest.importorskip("pydantic_ai", reason="the extra `agent` is not installed")
pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")

TWICE = {
    "match": "how many",
    "turns": [
        {"text": "I count.", "calls": [{"tool": "query", "input": {"sql": "select 21 as n"}}]},
        {"calls": [{"tool": "query", "input": {"sql": "select {result.rows.0.n} * 2 as n"}}]},
        {"text": "There are {result.rows.0.n}."},
    ],
}


def bound(name: str, provider: str, kind: str, **config: Any) -> dict[str, Any]:
    return {**component(name, provider, **config), "control": [{"classType": kind, "from": "agent"}]}


def analyst(provider: str, **config: Any) -> dict[str, Any]:
    """A pipeline in which an agent answers questions with a database."""
    return pipeline(
        component("chat", "chat"),
        component("agent", "agent", "questions:chat"),
        bound("model", provider, "llm", **config),
        bound("data", "db_sqlite", "tool"),
        component("reply", "response_answers", "answers:agent"),
    )


async def test_a_script_drives_an_agent_without_a_network_and_no_loop_waits_for_its_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []
    make = Script.agent_model

    def making(script: Script) -> Any:
        threads.append(threading.current_thread().name)
        return make(script)

    monkeypatch.setattr(Script, "agent_model", making)
    async with running(analyst("llm_scripted", script=[TWICE])) as client:
        for _ in range(2):
            assert (await client.chat({"questions": [{"text": "How many?"}]}))["answers"] == ["There are 42."]
    (name,) = threads
    assert name not in ("MainThread", "rrext-models")


@pytest.mark.parametrize("provider", ["llm_anthropic", "llm_gemini"])
async def test_models_of_other_makers_call_tools(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serving(key="sk-4711") as server:
        assert isinstance(server, ModelServer)
        server.next(Say("I count.", calls=[Call("query", {"sql": "select 42 as n"})]), Say("There are 42."))
        async with running(analyst(provider, base_url=server.root, apikey="sk-4711")) as client:
            result = await client.chat({"questions": [{"text": "How many?"}]})
        assert result["answers"] == ["There are 42."]
        assert "42" in server.asked[1].results[0]
        assert "query" in server.asked[0].tools
