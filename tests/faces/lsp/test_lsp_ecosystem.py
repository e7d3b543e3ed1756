"""Pipelines as RocketRide's users have them, with nodes that rrext lacks: no fix puts another vendor in their place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from faces.lsp.editors import URI, Editor
from faces.lsp.test_lsp_actions import LITERALS, after, place_of, resolving

from rrext.faces.lsp.features.actions import FIX_ALL
from rrext.faces.lsp.options import Options


def part(id_: str, provider: str, *edges: str, control: str = "", **config: Any) -> dict[str, Any]:
    """A component; an edge is `lane:from`, `control` is `classType:from`."""
    found: dict[str, Any] = {"id": id_, "provider": provider, "config": config}
    if edges:
        found["input"] = [dict(zip(("lane", "from"), edge.split(":"), strict=True)) for edge in edges]
    if control:
        found["control"] = [dict(zip(("classType", "from"), control.split(":"), strict=True))]
    return found


def pipeline(*parts: dict[str, Any]) -> str:
    project = "6b0a8a52-0c7e-4f0e-9c0d-2a7c3a5e9f10"
    return json.dumps({"components": parts, "source": parts[0]["id"], "project_id": project, "version": 1}, indent=2)


CHAT = part("chat_1", "chat", mode="Source", type="chat", hideForm=True, parameters={})
DROPPER = part("dropper_1", "dropper", mode="Source", type="dropper", hideForm=True, parameters={})
ANSWERS = part("response_answers_1", "response_answers", "answers:llm_mistral_1", laneName="answers")
KEY = {"apikey": "${ROCKETRIDE_MISTRAL_KEY}"}

PIPELINES = {
    "a chat with another model": pipeline(
        CHAT,
        part("llm_mistral_1", "llm_mistral", "questions:chat_1", profile="mistral-large", **{"mistral-large": KEY}),
        ANSWERS,
    ),
    "an agent with tools": pipeline(
        CHAT,
        part("agent_rocketride_1", "agent_rocketride", "questions:chat_1", instructions=["Be brief."]),
        part("llm_qwen_1", "llm_qwen", control="llm:agent_rocketride_1"),
        part("memory_persistent_1", "memory_persistent", control="memory:agent_rocketride_1"),
        part("tool_github_1", "tool_github", control="tool:agent_rocketride_1"),
        part("tool_http_request_1", "tool_http_request", control="tool:agent_rocketride_1"),
        part("response_answers_1", "response_answers", "answers:agent_rocketride_1"),
    ),
    "documents into a store": pipeline(
        DROPPER,
        part("parse_1", "parse", "tags:dropper_1"),
        part("preprocessor_llm_1", "preprocessor_llm", "text:parse_1"),
        part("embedding_image_1", "embedding_image", "documents:preprocessor_llm_1"),
        part("store_chroma_1", "store_chroma", "documents:embedding_image_1"),
    ),
    "a database": pipeline(
        CHAT,
        part("db_clickhouse_1", "db_clickhouse", "questions:chat_1"),
        part("llm_mistral_1", "llm_mistral", control="llm:db_clickhouse_1"),
        part("response_table_1", "response_table", "table:db_clickhouse_1"),
    ),
    "chunks": pipeline(
        DROPPER,
        part("parse_1", "parse", "tags:dropper_1"),
        part("split_1", "split", "text:parse_1"),
        part("embedding_hashing_1", "embedding_hashing", "documents:split_2"),
        part("response_documents_1", "response_documents", "documents:embedding_hashing_1"),
    ),
}


async def actions_everywhere(editor: Editor, text: str, **context: Any) -> list[dict[str, Any]]:
    lines = text.count("\n")
    place = {"start": {"line": 0, "character": 0}, "end": {"line": lines, "character": 1000}}
    params = {"textDocument": {"uri": URI}, "range": place, "context": {"diagnostics": [], **context}}
    return await editor.request("textDocument/codeAction", params)


def names_in(text: str) -> list[tuple[str, str]]:
    return [(each["id"], each["provider"]) for each in json.loads(text)["components"]]


@pytest.mark.promise("editor:fix:no-other-vendor")
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("name", PIPELINES)
async def test_no_fix_replaces_a_node_that_is_not_installed(name: str, trusted: bool) -> None:
    text = PIPELINES[name]
    editor = Editor(Options(trusted=trusted))
    await editor.start(None, LITERALS)
    editor.open(text)
    await editor.diagnostics()
    for action in await actions_everywhere(editor, text):
        assert names_in(after(text, action)) == names_in(text) or not action["title"].startswith("Replace")
        if action.get("isPreferred"):
            codes = {told["code"] for told in action["diagnostics"]}
            assert codes.isdisjoint({"unknown_provider", "foreign_provider", "from_not_found"})
    for action in await actions_everywhere(editor, text, only=[FIX_ALL]):
        assert names_in(after(text, action)) == names_in(text)


async def test_a_number_that_is_not_there_is_not_replaced_by_another_one() -> None:
    text = PIPELINES["chunks"]
    editor = Editor()
    await editor.start(None, LITERALS)
    editor.open(text)
    (told,) = [each for each in await editor.diagnostics() if each["code"] == "from_not_found"]
    assert "Did you mean" not in told["message"]
    place = place_of(text, '"split_2"')
    params = {"textDocument": {"uri": URI}, "range": place, "context": {"diagnostics": [told]}}
    found = [each for each in await editor.request("textDocument/codeAction", params) if each["kind"] == "quickfix"]
    assert [action["title"] for action in found] == ['Replace "split_2" with "split_1"', 'Remove the edge from "split_2"']
    assert not any(action.get("isPreferred") for action in found), "it sends documents too, but that is for the author to say"


async def test_an_alias_is_found_by_its_misspelling() -> None:
    text = PIPELINES["chunks"].replace('"embedding_hashing"', '"embedding_transformers"')
    editor = Editor()
    await editor.start(None, LITERALS)
    editor.open(text)
    (told,) = [each for each in await editor.diagnostics() if each["code"] == "unknown_provider"]
    assert told["message"].endswith('Did you mean "embedding_transformer"?')
    params = {"textDocument": {"uri": URI}, "range": told["range"], "context": {"diagnostics": [told]}}
    (action,) = await editor.request("textDocument/codeAction", params)
    assert action["isPreferred"]
    assert '"embedding_transformer"' in after(text, action)


async def test_a_problem_has_one_preferred_action_also_where_two_problems_share_an_edit() -> None:
    text = json.dumps({"components": [CHAT, {**ANSWERS, "inputs": ANSWERS["input"], "provder": "response_answers"}]})
    for spoilt in (text, text.replace('"provider": "response_answers"', '"provider": "response_answrs"')):
        editor = Editor()
        await editor.start(None, resolving())
        editor.open(spoilt)
        await editor.diagnostics()
        preferred: list[tuple[str, str]] = []
        for action in await actions_everywhere(editor, spoilt):
            if action.get("isPreferred"):
                preferred += [(told["code"], json.dumps(told["range"])) for told in action["diagnostics"]]
        assert len(preferred) == len(set(preferred))
