"""Pipelines of our own in the shapes of RocketRide's examples: texts are made anonymous, summed up, searched, spoken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.testing import open_pipeline, run_pipeline

SOURCE = {"hideForm": True, "mode": "Source", "parameters": {}}
LETTER = "On 2026-11-29 Ada wrote to grace@example.com about the lending week."
NAMES = {
    "ROCKETRIDE_EXA_KEY": "exa-key-1234",
    "ROCKETRIDE_GIT_REPO_PATH": "/nowhere",
    "ROCKETRIDE_GITHUB_TOKEN": "token-1234",
}


def part(name: str, provider: str, *inputs: str, control: tuple[str, str] | None = None, **config: Any) -> dict[str, Any]:
    """A component as RocketRide's editor writes it; each input is `lane:from`."""
    found: dict[str, Any] = {"id": name, "provider": provider, "config": config}
    found["ui"] = {"position": {"x": 20, "y": 200}, "measured": {"width": 150, "height": 66}, "nodeType": "default"}
    if inputs:
        found["input"] = [dict(zip(("lane", "from"), each.split(":"), strict=True)) for each in inputs]
    if control is not None:
        found["control"] = [{"classType": control[0], "from": control[1]}]
    return found


def shape(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"components": list(parts), "viewport": {"x": 0, "y": 0, "zoom": 1}, "version": 1, "source": parts[0]["id"]}


PROCESSOR = shape(
    part("webhook_1", "webhook", **SOURCE, type="webhook"),
    part("parse_1", "parse", "tags:webhook_1"),
    part("ner_1", "ner", "text:parse_1"),
    part("anonymize_1", "anonymize", "text:ner_1"),
    part("response_text_1", "response_text", "text:anonymize_1", laneName="text"),
)
INGEST = shape(
    part("webhook_1", "webhook", **SOURCE, type="webhook"),
    part("parse_1", "parse", "tags:webhook_1"),
    part("summary_1", "summarization", "text:parse_1", "text:webhook_1"),
    part(
        "model_1",
        "llm_scripted",
        control=("llm", "summary_1"),
        default={"summary": "A letter.", "keyPoints": [], "entities": []},
    ),
    part("embedding_1", "embedding_hashing", "documents:summary_1"),
    part("dictionary_1", "dictionary", "text:parse_1"),
    part(
        "model_2",
        "llm_scripted",
        control=("llm", "dictionary_1"),
        default={"terms": [{"term": "lending week", "description": "Seven days."}]},
    ),
    part("response_1", "response", "documents:embedding_1", "documents:dictionary_1", "text:summary_1", lanes=[]),
)
SEARCH = shape(
    part("chat_1", "chat", **SOURCE, type="chat"),
    part(
        "search_exa_1",
        "search_exa",
        "questions:chat_1",
        apikey="${ROCKETRIDE_EXA_KEY}",
        profile="default",
        default={"highlightChars": 600, "includeHighlights": True, "numResults": 5, "type": "auto"},
        parameters={"google": {}},
    ),
    part("response_1", "response", "answers:search_exa_1", lanes=[]),
)
GIT_AGENT = shape(
    part("chat_1", "chat", **SOURCE, type="chat"),
    part("agent_1", "agent_langchain", "questions:chat_1", instructions=["You read a repository."], parameters={}),
    part("model_1", "llm_scripted", control=("llm", "agent_1"), default="Three commits."),
    part(
        "tool_git_1",
        "tool_git",
        control=("tool", "agent_1"),
        type="tool_git",
        repoPath="${ROCKETRIDE_GIT_REPO_PATH}",
        authType="token",
        username="git",
        token="${ROCKETRIDE_GITHUB_TOKEN}",
        sshKey="",
        sshPassphrase="",
        safeMode=True,
    ),
    part("response_answers_1", "response_answers", "answers:agent_1", laneName="answers"),
)
SPEAKER = shape(
    part("dropper_1", "dropper", **SOURCE, type="dropper"),
    part("parse_1", "parse", "tags:dropper_1"),
    part("audio_tts_1", "audio_tts", "text:parse_1", profile="kokoro", kokoro={"kokoro_voice": "am_fenrir"}),
    part("audio_player_1", "audio_player", "audio:audio_tts_1"),
)
QUICKSTART = shape(
    part("input", "webhook"), part("processor", "transform", "text:input"), part("output", "response_text", "text:processor")
)
SHAPES = {
    "processor": PROCESSOR,
    "ingest": INGEST,
    "search": SEARCH,
    "git agent": GIT_AGENT,
    "speaker": SPEAKER,
    "quickstart": QUICKSTART,
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_pipeline_in_the_shape_of_an_example_loads_without_a_word(name: str) -> None:
    loaded = load_pipeline(json.dumps(SHAPES[name]), Catalog(installed=False), Environment(NAMES))
    nameless = ["/components/2/config/path", "/components/3/config/path"] if name == "processor" else []
    assert [(each.code, each.path) for each in loaded.problems] == [("caution", path) for path in nameless]
    assert loaded.spec is not None


def test_a_letter_is_parsed_searched_for_names_and_made_anonymous() -> None:
    pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")
    pytest.importorskip("re2", reason="the extra `text` is not installed")
    body = run_pipeline(PROCESSOR, LETTER.encode(), mimetype="application/octet-stream", objinfo={"name": "letter.txt"})
    assert body["text"] == [f"On 2026-11-29 Ada wrote to {'█' * 17} about the lending week.\n\n"]
    assert body["metadata"]["entities_email"] == ["█" * 17]
    assert body["metadata"]["entities_date"] == ["2026-11-29"]
    assert body["metadata"]["anonymized"] == {"EMAIL": 1}


def test_a_letter_is_summed_up_and_explained_by_the_models_that_are_bound() -> None:
    pytest.importorskip("kreuzberg", reason="the extra `docs` is not installed")
    body = run_pipeline(INGEST, LETTER.encode(), mimetype="application/octet-stream", objinfo={"name": "letter.txt"})
    assert body["text"] == ["Summary:\nA letter.\n\n"]
    summary, term = sorted(body["documents"], key=lambda document: document["page_content"])
    assert (summary["page_content"], summary["embedding_model"]) == ("Summary:\nA letter.", "hashing-384")
    assert json.loads(term["page_content"]) == {"term": "lending week", "description": "Seven days."}
    assert summary["metadata"]["parent"] == "letter.txt"


async def test_an_agent_has_the_tools_of_a_repository_and_no_key_leaves(tmp_path: Path) -> None:
    pygit2 = pytest.importorskip("pygit2", reason="the extra `git` is not installed")
    pygit2.init_repository(str(tmp_path / "repo"))
    env = {**NAMES, "ROCKETRIDE_GIT_REPO_PATH": str(tmp_path / "repo")}
    async with open_pipeline(GIT_AGENT, env=env) as client:
        tools = await client.tools(node_id="tool_git_1")
        assert {tool["name"] for tool in tools} >= {"status", "log", "show", "diff", "blame", "file_at", "grep", "ls_files"}
        assert NAMES["ROCKETRIDE_GITHUB_TOKEN"] not in json.dumps(tools)
        assert (await client.tool(tool="status", node_id="tool_git_1"))["branch"] == "(unborn)"
