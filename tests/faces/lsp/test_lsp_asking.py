"""What a person is asked when a command lacks something, and what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from faces.lsp.desks import Desk, components, desk, pipeline


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path) as found:
        yield found


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


async def test_missing_input_is_refused_with_the_comment_that_gives_it(bench: Desk) -> None:
    error = await bench.refused("rrext.runTool", {"tool": "add"})
    assert (error["code"], error["data"]["errors"][0]["path"]) == (-32602, "/input")
    message, comment = error["message"].split(". Write it in a comment of the component: ")
    assert (message, comment) == ("/input: is missing: a", '// rrext tool add {"a": 0}')
    bench.replace(pipeline().replace('"id": "bench"', f'{comment}\n"id": "bench"'))
    lenses = await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})
    (lens,) = [lens for lens in lenses if lens["command"]["title"] == "▶ Run add"]
    answer = await bench.editor.request("workspace/executeCommand", lens["command"])
    assert answer["result"] == {"sum": 1}


async def test_a_question_that_is_never_answered_can_be_cancelled(bench: Desk) -> None:
    take = bench.editor.server.protocol.sink
    bench.editor.server.protocol.sink = lambda body: take(body) if b"showMessageRequest" not in body else asked.append(body)
    asked: list[bytes] = []
    request = bench.command("rrext.runTool", {"node": "bench"})
    while not asked:
        await bench.ask("rrext.listTools")
    bench.editor.notify("$/cancelRequest", {"id": request})
    assert (await bench.editor.answer(request))["error"]["code"] == -32800


async def test_a_tool_that_needs_nothing_runs_without_input(bench: Desk) -> None:
    assert (await bench.ask("rrext.runTool", {"tool": "steps"}))["ok"]
    assert not bench.messages("window/showMessageRequest")


@pytest.mark.parametrize(("command", "path"), [("rrext.sendFile", "/path"), ("rrext.chat", "/question")])
async def test_missing_files_and_questions_are_refused(bench: Desk, command: str, path: str) -> None:
    error = await bench.refused(command)
    assert error["data"]["errors"][0]["path"] == path
    assert f"pass `{path[1:]}`" in error["data"]["hint"]


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
