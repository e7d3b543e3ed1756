"""What an editor shows of a text that is not quite a pipeline, and what its fixes make of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.editors import URI, Editor
from faces.lsp.test_lsp_actions import LITERALS, after
from life.raw_client import environment

from rrext.faces.lsp.features.actions import FIX_ALL

GOOD = (Path(__file__).parents[2] / "examples" / "echo.pipe").read_text()
PARTS: list[Any] = json.loads(GOOD)["components"]


async def opened(text: str) -> Editor:
    editor = Editor()
    await editor.start(None, LITERALS)
    editor.open(text)
    return editor


async def fixed(editor: Editor, text: str) -> str:
    """The text after everything that has one obvious answer is fixed."""
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 1000, "character": 0}}
    params = {"textDocument": {"uri": URI}, "range": place, "context": {"diagnostics": [], "only": [FIX_ALL]}}
    (action,) = await editor.request("textDocument/codeAction", params)
    return after(text, action)


@pytest.mark.parametrize("around", ["```json\n{}```\n", "pipeline = {}", "#!/usr/bin/env rrext\n{}"])
async def test_a_wrapped_pipeline_is_shown_and_unwrapped(around: str) -> None:
    text = around.replace("{}", GOOD)
    editor = await opened(text)
    (found,) = await editor.diagnostics()
    assert (found["code"], found["severity"], found["range"]["start"]) == ("wrapped", 1, {"line": 0, "character": 0})
    symbols = await editor.request("textDocument/documentSymbol", {"textDocument": {"uri": URI}})
    assert PARTS[0]["id"] in json.dumps(symbols), "the pipeline inside is read"
    assert (await fixed(editor, text)).strip() == GOOD.strip()


async def test_prose_is_one_problem_with_one_fix_that_is_for_the_author_to_choose() -> None:
    text = f"Here it is:\n\n```json\n{GOOD}```\n\nHope that helps.\n"
    editor = await opened(text)
    (found,) = await editor.diagnostics()
    params = {"textDocument": {"uri": URI}, "range": found["range"], "context": {"diagnostics": [found], "only": ["quickfix"]}}
    (action,) = await editor.request("textDocument/codeAction", params)
    assert not action.get("isPreferred")
    assert after(text, action).strip() == GOOD.strip()


@pytest.mark.parametrize(
    ("good", "wrong"),
    [
        ('"webhook_1"', "\u201cwebhook_1\u201d"),
        ('"webhook_1"', '"webhook_1\u201d'),
        ("// sends", "# sends"),
    ],
)
async def test_quotes_and_comments_of_other_programs_are_put_right(good: str, wrong: str) -> None:
    text = GOOD.replace("{", "{ // sends back what comes\n", 1)
    spoilt = text.replace(good, wrong, 1)
    assert spoilt != text
    editor = await opened(spoilt)
    assert len(await editor.diagnostics()) == 1
    assert await fixed(editor, spoilt) == text


async def test_control_inside_config_is_moved_out_and_a_type_becomes_the_provider() -> None:
    tool = {"id": "t", "provider": "tool_python", "config": {"control": [{"classType": "tool", "from": PARTS[0]["id"]}]}}
    first = {("type" if key == "provider" else key): value for key, value in PARTS[0].items()}
    text = json.dumps({"components": [first, *PARTS[1:], tool]}, indent=2)
    editor = await opened(text)
    told = {each["code"]: each["message"] for each in await editor.diagnostics()}
    assert 'write "provider": "webhook"' in told["missing_key"]
    assert '"control" belongs beside config' in told["misplaced_key"]
    moved = json.loads(await fixed(editor, text))["components"][-1]
    assert moved == {"id": "t", "provider": "tool_python", "config": {}, "control": tool["config"]["control"]}


def test_the_command_line_reads_the_same_and_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "answer.pipe"
    path.write_text(f"```json\n{GOOD}```\n")
    command = [sys.executable, "-m", "rrext", "check", "--json", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["valid"], [each["code"] for each in told["problems"]]) == (2, False, ["wrapped"])
