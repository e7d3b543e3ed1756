"""What an editor offers to run: lenses above lines, actions at the cursor, and the picture of a pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.desks import Desk, desk, pipeline
from lsprotocol import types


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk(tmp_path) as found:
        yield found


async def lenses(bench: Desk) -> list[dict[str, Any]]:
    return await bench.editor.request("textDocument/codeLens", {"textDocument": {"uri": bench.uri}})


async def test_lenses_stand_at_what_they_run(bench: Desk) -> None:
    found = [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in await lenses(bench)]
    lines = pipeline().splitlines()
    assert found == [
        (0, "◇ Show graph"),
        (lines.index('      "id": "in",'), "▶ Send file…"),
        (lines.index('      "id": "bench",'), "▶ Run tool…"),
    ]


async def test_every_lens_names_a_command_that_there_is(bench: Desk) -> None:
    capabilities = (await desk_capabilities(bench))["executeCommandProvider"]["commands"]
    for lens in await lenses(bench):
        assert lens["command"]["command"] in capabilities
        assert lens["command"]["arguments"][0]["uri"] == bench.uri


async def desk_capabilities(bench: Desk) -> dict[str, Any]:
    answer = next(message for message in bench.editor.messages if "capabilities" in (message.get("result") or {}))
    return answer["result"]["capabilities"]


async def test_a_lens_runs_what_it_says(bench: Desk) -> None:
    bench.replace('// rrext tool add {"a": 40, "b": 2}\n' + pipeline())
    (lens,) = [lens for lens in await lenses(bench) if lens["command"]["title"] == "▶ Run add"]
    answer = await bench.editor.request("workspace/executeCommand", lens["command"])
    assert answer["result"] == {"sum": 42}


# at the cursor


def actions_at(bench: Desk, words: str, **context: Any) -> list[types.CodeAction]:
    """What is offered with the cursor on some words of the document."""
    document = bench.editor.server.documents.get(bench.uri)
    text = document.state.text
    assert document.state.analysis is not None
    start = text.content.index(words)
    place = types.Position(*text.position(start))
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(bench.uri), types.Range(place, place), types.CodeActionContext([], **context)
    )
    (source,) = bench.editor.server.action_sources
    return list(source(params, text, (start, start), document.state.analysis))


async def test_tools_of_the_node_at_the_cursor_are_offered(bench: Desk) -> None:
    await lenses(bench)
    found = {action.title: action for action in actions_at(bench, '"bench"')}
    assert {"Run tool add", "Run tool wait"} <= set(found)
    run = found["Run tool steps"]
    assert run.kind == "rrext.run"
    assert run.command is not None
    answer = await bench.editor.request(
        "workspace/executeCommand", {"command": run.command.command, "arguments": list(run.command.arguments or ())}
    )
    assert answer["ok"]
    assert actions_at(bench, '"webhook"') == []


async def test_on_a_comment_with_a_call_that_call_is_offered(bench: Desk) -> None:
    bench.replace('// rrext tool add {"a": 1}\n' + pipeline())
    await lenses(bench)
    (action,) = actions_at(bench, "tool add")
    assert action.title == "Run add"


async def test_nobody_is_offered_runs_who_did_not_ask(bench: Desk) -> None:
    await lenses(bench)
    assert actions_at(bench, '"bench"', trigger_kind=types.CodeActionTriggerKind.Automatic) == []
    assert actions_at(bench, '"bench"', only=[types.CodeActionKind.QuickFix]) == []
    for kind in ("rrext", "rrext.run", ""):
        assert actions_at(bench, '"bench"', only=[kind])
    assert actions_at(bench, '"bench"', only=["rrext.running"]) == []


async def test_the_client_gets_them_with_the_fixes(tmp_path: Path) -> None:
    literals = {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}}
    async with desk(tmp_path, capabilities={"textDocument": {"codeAction": literals}}) as bench:
        line = pipeline().splitlines().index('      "id": "bench",')
        place = {"line": line, "character": 14}
        params = {"textDocument": {"uri": bench.uri}, "range": {"start": place, "end": place}, "context": {"diagnostics": []}}
        found = await bench.editor.request("textDocument/codeAction", params)
        (run,) = [action for action in found if action["title"] == "Run tool steps"]
        assert run["kind"] == "rrext.run"
        assert (await bench.editor.request("workspace/executeCommand", run["command"]))["ok"]


async def test_without_trust_no_run_is_offered(tmp_path: Path) -> None:
    text = pipeline().replace('"provider": "bench"', '"provider": "tool_filesystem"')
    async with desk(tmp_path, text, trusted=False, nodes=[]) as bench:
        await lenses(bench)
        assert actions_at(bench, '"bench"') == []


# the picture


@pytest.mark.parametrize(
    ("form", "file", "words"), [("text", "bench.graph.txt", "bench"), ("svg", ".svg", "<svg"), ("mermaid", ".mmd", "flowchart")]
)
@pytest.mark.parametrize("trusted", [True, False])
async def test_a_pipeline_is_drawn_without_running_anything(
    tmp_path: Path, form: str, file: str, words: str, trusted: bool
) -> None:
    async with desk(tmp_path, trusted=trusted) as bench:
        answer = await bench.ask("rrext.showGraph", {"form": form})
        assert answer["ok"]
        assert answer["uri"].endswith(file)
        assert words in answer["result"]
        assert (await bench.told("window/showDocument"))["external"] is (form == "svg")


async def test_a_pipeline_with_errors_is_drawn_as_far_as_it_goes(bench: Desk) -> None:
    bench.replace(pipeline().replace('"webhook"', '"webhok"')[:-20])
    answer = await bench.ask("rrext.showGraph")
    assert answer["ok"]
    assert "webhok" in answer["result"]
    bench.replace("nothing")
    answer = await bench.ask("rrext.showGraph")
    assert not answer["ok"]
    assert "no component" in answer["error"]["message"]
    error = await bench.refused("rrext.showGraph", {"form": "png"})
    assert error["data"]["errors"][0]["path"] == "/form"


async def test_the_svg_of_a_text_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    async with desk(tmp_path, "hello") as bench:
        answer = await bench.ask("rrext.showGraph", {"form": "svg"})
        assert "Text needs double quotes" in answer["result"]


# cases


CASES = """{"cases": [
  {"name": "numbers are added", "tool": "add", "input": {"a": 40, "b": 2}, "expect": {"sum": %d}}
]}"""


async def test_cases_beside_a_document_have_a_lens_that_runs_them(bench: Desk) -> None:
    assert "▶ Run cases" not in [lens["command"]["title"] for lens in await lenses(bench)]
    write_beside(bench, CASES % 42)
    (lens,) = [lens for lens in await lenses(bench) if lens["command"]["title"] == "▶ Run cases"]
    assert lens["range"]["start"]["line"] == 0
    answer = await bench.editor.request("workspace/executeCommand", lens["command"])
    assert answer["ok"]
    assert "1 passed" in answer["result"]


async def test_a_case_that_fails_is_told_with_its_difference(bench: Desk) -> None:
    write_beside(bench, CASES % 43)
    answer = await bench.ask("rrext.runCases")
    assert (answer["ok"], answer["error"]["code"]) == (False, "cases_failed")
    assert "1 failed" in answer["error"]["message"]
    assert "43" in answer["result"]
    assert "42" in answer["result"]
    assert "1 failed" in (await bench.told("window/showMessage", "failed"))["message"]


async def test_packages_of_programs_are_those_of_runs_and_of_cases(tmp_path: Path) -> None:
    async with desk(tmp_path, pythonPackages=["no_such_package"]) as bench:
        write_beside(bench, CASES % 42)
        for command, given in (("rrext.runCases", {}), ("rrext.runTool", {"tool": "add", "input": {"a": 1, "b": 2}})):
            answer = await bench.ask(command, given)
            assert "no_such_package" in answer["error"]["message"], answer


async def test_cases_run_on_what_is_saved(bench: Desk) -> None:
    assert "has no cases" in (await bench.refused("rrext.runCases"))["message"]
    write_beside(bench, CASES % 42)
    bench.replace("// not saved\n" + pipeline())
    assert "is not saved" in (await bench.refused("rrext.runCases"))["message"]


async def test_a_file_of_cases_that_is_wrong_is_told_as_on_the_command_line(bench: Desk) -> None:
    write_beside(bench, '{"cases": [{"name": "x", "toool": "add"}]}')
    answer = await bench.ask("rrext.runCases")
    assert answer["error"]["code"] == "cases_failed"
    assert "toool" in answer["result"]


def write_beside(bench: Desk, cases: str) -> None:
    """Save the document, with its cases."""
    path = Path(bench.uri.removeprefix("file://"))
    path.write_text(bench.editor.server.documents.get(bench.uri).state.text.content)
    path.with_suffix(".cases.json").write_text(cases)
