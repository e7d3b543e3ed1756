"""What a person is asked when a command lacks something, and call lines that are written for the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.running import Desk, components, desk, pipeline

from rrext.editor.edits import Edit, applied
from rrext.editor.text import Text

WRITE = {"title": "Write a call line"}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path) as found:
        yield found


def edited(desk: Desk, text: str) -> str:
    """A text after the edit that the server asked for."""
    (asked,) = desk.messages("workspace/applyEdit")
    (changes,) = (asked["edit"]["changes"][desk.uri],)
    places = Text(text)
    edits = [
        Edit(places.offset(**change["range"]["start"]), places.offset(**change["range"]["end"]), change["newText"])
        for change in changes
    ]
    return applied(text, edits)


async def test_without_a_tool_the_person_chooses_one(bench: Desk) -> None:
    bench.editor.answers["window/showMessageRequest"] = lambda asked: asked["actions"][1]
    answer = await bench.ask("rrext.runTool", {"node": "bench", "input": {}})
    (asked,) = bench.messages("window/showMessageRequest")
    assert [action["title"] for action in asked["actions"]][:2] == ["add", "where"]
    assert "bench" in asked["message"]
    assert answer["result"]["pid"]


async def test_who_chooses_no_tool_is_told_how_to_name_one(bench: Desk) -> None:
    error = await bench.refused("rrext.runTool")
    assert (error["code"], error["data"]["errors"][0]["path"]) == (-32602, "/tool")
    assert "pass `tool`, one of add, where" in error["data"]["hint"]


async def test_the_only_tool_is_run_without_a_question(tmp_path: Path) -> None:
    parts = [
        components()[0],
        {"id": "one", "provider": "single", "config": {}, "control": [{"classType": "tool", "from": "in"}]},
    ]
    async with desk(tmp_path, json.dumps({"components": parts})) as bench:
        assert (await bench.ask("rrext.runTool"))["result"] == "alone"
        assert not bench.messages("window/showMessageRequest")
        bench.replace(json.dumps({"components": parts[:1]}))
        error = await bench.refused("rrext.runTool")
        assert "this pipeline has no tool that can be called" in error["message"]


async def test_missing_input_is_written_as_a_call_line_in_the_component(bench: Desk) -> None:
    bench.editor.answers["window/showMessageRequest"] = lambda _: WRITE
    bench.editor.answers["workspace/applyEdit"] = lambda _: {"applied": True}
    answer = await bench.ask("rrext.runTool", {"tool": "add"})
    assert "add needs input: a." in bench.messages("window/showMessageRequest")[0]["message"]
    assert (answer["ok"], answer["written"]) == (False, 'rrext tool add {"a": 0}')
    assert not bench.messages("window/showMessage")
    after = edited(bench, pipeline())
    bench.replace(after)
    assert await bench.editor.diagnostics(bench.uri) == []
    lenses = await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
    (lens,) = [lens for lens in lenses if lens["command"]["title"] == "▶ Run add"]
    answer = await bench.editor.request("workspace/executeCommand", lens["command"])
    assert answer["result"] == {"sum": 1}


async def test_who_writes_no_call_line_is_told_how_to_give_input(bench: Desk) -> None:
    error = await bench.refused("rrext.runTool", {"tool": "add"})
    assert (error["code"], error["data"]["errors"][0]["path"]) == (-32602, "/input")
    assert error["data"]["hint"] == 'pass `input`, or write a comment into the document: // rrext tool add {"a": 0}'
    assert not bench.messages("workspace/applyEdit")


@pytest.mark.parametrize("answer", [None, {"applied": False}])
async def test_an_edit_that_is_not_made_is_not_told_as_made(bench: Desk, answer: Any) -> None:
    bench.editor.answers["window/showMessageRequest"] = lambda _: WRITE
    bench.editor.answers["workspace/applyEdit"] = lambda _: answer
    assert "pass `input`" in (await bench.refused("rrext.runTool", {"tool": "add"}))["data"]["hint"]


async def test_an_editor_that_takes_no_edits_gets_none(tmp_path: Path) -> None:
    async with desk(tmp_path, capabilities={}) as bench:
        bench.editor.answers["window/showMessageRequest"] = lambda _: WRITE
        assert "pass `input`" in (await bench.refused("rrext.runTool", {"tool": "add"}))["data"]["hint"]
        assert not bench.messages("workspace/applyEdit")


async def test_an_edit_is_for_the_version_that_was_seen_if_the_client_looks_at_that(tmp_path: Path) -> None:
    workspace = {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}
    async with desk(tmp_path, capabilities={"workspace": workspace}) as bench:
        bench.editor.answers["window/showMessageRequest"] = lambda _: WRITE
        bench.editor.answers["workspace/applyEdit"] = lambda _: {"applied": True}
        await bench.ask("rrext.runTool", {"tool": "add"})
        (asked,) = bench.messages("workspace/applyEdit")
        (change,) = asked["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": bench.uri, "version": 1}


async def test_a_question_that_is_never_answered_can_be_cancelled(bench: Desk) -> None:
    take = bench.editor.server.protocol.sink
    bench.editor.server.protocol.sink = lambda body: take(body) if b"showMessageRequest" not in body else asked.append(body)
    asked: list[bytes] = []
    request = bench.command("rrext.runTool", {"tool": "add"})
    while not asked:
        await bench.ask("rrext.listTools")
    bench.editor.notify("$/cancelRequest", {"id": request})
    assert (await bench.editor.answer(request))["error"]["code"] == -32800


async def test_a_tool_that_needs_nothing_runs_without_input(bench: Desk) -> None:
    assert (await bench.ask("rrext.runTool", {"tool": "steps"}))["ok"]
    assert not bench.messages("window/showMessageRequest")


@pytest.mark.parametrize(
    ("command", "path", "words"),
    [("rrext.sendFile", "/path", "// rrext send notes.txt"), ("rrext.chat", "/question", "// rrext chat What is this about?")],
)
async def test_missing_files_and_questions_are_call_lines_too(bench: Desk, command: str, path: str, words: str) -> None:
    error = await bench.refused(command)
    assert error["data"]["errors"][0]["path"] == path
    assert words in error["data"]["hint"]
    bench.editor.answers["window/showMessageRequest"] = lambda _: WRITE
    bench.editor.answers["workspace/applyEdit"] = lambda _: {"applied": True}
    assert (await bench.ask(command))["written"] == words.removeprefix("// ")
    assert words in edited(bench, pipeline()).partition('"id": "in"')[0]


async def test_tools_are_listed_with_the_token_of_their_pipeline(bench: Desk) -> None:
    found = await bench.ask("rrext.listTools", {"node": "bench"})
    assert found["ok"]
    assert {tool["name"] for tool in found["result"]["tools"]} >= {"add", "wait", "refuse"}
    arguments = {"subcommand": "tool", "tool": "add", "input": {"a": 1}, "token": found["result"]["token"]}
    assert await bench.editor.request("rrext_process", arguments) == {"result": {"sum": 2}}
    wrong = await bench.ask("rrext.listTools", {"node": "bnch"})
    assert (wrong["ok"], wrong["error"]["code"], wrong["error"]["data"]["near"]) == (False, "node_not_found", ["bench"])
    assert not bench.messages("window/showDocument")


async def test_two_nodes_with_a_tool_of_one_name_are_told_apart(tmp_path: Path) -> None:
    parts = components()
    parts.append({**parts[1], "id": "other", "input": []})
    async with desk(tmp_path, json.dumps({"components": parts, "source": "in"})) as bench:
        bench.editor.answers["window/showMessageRequest"] = lambda asked: asked["actions"][-1]
        await bench.ask("rrext.runTool", {"input": {}})
        titles = [action["title"] for action in bench.messages("window/showMessageRequest")[0]["actions"]]
        assert {"add (bench)", "add (other)"} <= set(titles)
