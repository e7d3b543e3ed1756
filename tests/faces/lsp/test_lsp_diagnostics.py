"""What an editor is told of a document's problems."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from faces.lsp.editors import Editor

from rrext.faces.lsp.diagnostics import Manual
from rrext.limits import DEFAULTS
from rrext.pipefile.text.problems import CODES


async def test_a_problem_is_told_with_range_code_and_link() -> None:
    editor = Editor()
    await editor.start()
    editor.open('{"components": [{"id": "in", "provider": "webhok", "config": {}}]}')
    (found, *_) = await editor.diagnostics()
    assert found["code"] == "unknown_provider"
    assert found["range"] == {"start": {"line": 0, "character": 41}, "end": {"line": 0, "character": 49}}
    assert found["source"] == "rrext"
    assert "protocol.md#L" in found["codeDescription"]["href"]


async def test_severities_are_those_of_the_problems() -> None:
    editor = Editor()
    await editor.start()
    component = '{"id": "a", "provider": "%s", "config": {"nonsense": 1}}'
    editor.open(f'{{"components": [{component % "webhook"}, {component % "x"}]}}')
    severities = {found["code"]: found["severity"] for found in await editor.diagnostics()}
    wanted = {"error": 1, "warning": 2, "information": 3}
    assert set(severities.values()) == {1, 2}
    assert severities == {code: wanted[CODES[code][0]] for code in severities}


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_links_to_the_line_that_explains_it(code: str) -> None:
    link = Manual().link(code)
    assert link is not None
    parts = urlsplit(link)
    line = Path(url2pathname(parts.path)).read_text(encoding="utf-8").splitlines()[int(parts.fragment[1:]) - 1]
    assert re.match(rf"\| `{code}` \| (error|warning|information) \|", line)


def test_without_the_page_there_are_no_links(tmp_path: Path) -> None:
    assert Manual(tmp_path / "protocol.md").link("unclosed") is None
    assert repr(Manual(tmp_path / "protocol.md")) == "<Manual None, 0 codes>"


def test_a_link_leads_to_a_folder_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / "ü #1" / "protocol.md"
    path.parent.mkdir()
    path.write_text("\n| `unclosed` | error | x |\n", encoding="utf-8")
    assert Manual(path).link("unclosed") == f"{path.as_uri()}#L2"


@pytest.mark.parametrize("sign", ["\x1b[31m", "\x00", "\u202e", "\n"])
async def test_what_a_file_names_cannot_colour_or_turn_around_a_message(sign: str) -> None:
    editor = Editor()
    await editor.start()
    edges = [{"id": f"a{sign}", "provider": "prompt", "config": {}, "input": [{"lane": "questions", "from": f"a{sign}"}]}] * 2
    editor.open(json.dumps({"components": edges}))
    found = await editor.diagnostics()
    assert {"cycle", "duplicate_id"} <= {problem["code"] for problem in found}
    told = [problem["message"] for problem in found]
    told += [other["message"] for problem in found for other in problem.get("relatedInformation", ())]
    assert all(message.isprintable() for message in told), told


async def test_a_name_of_megabytes_makes_no_message_of_megabytes() -> None:
    editor = Editor()
    await editor.start()
    edge = {
        "id": "a" * 1_000_000,
        "provider": "prompt",
        "config": {},
        "input": [{"lane": "questions", "from": "a" * 1_000_000}],
    }
    editor.open(json.dumps({"components": [edge]}))
    found = await editor.diagnostics()
    assert "cycle" in {problem["code"] for problem in found}
    assert max(len(problem["message"]) for problem in found) <= DEFAULTS.max_error_text


async def test_characters_that_nobody_sees_are_escapes_in_a_message() -> None:
    editor = Editor()
    await editor.start()
    editor.open('{"components": [{"id": "in", "provider": "web\u200bhook\u3164", "config": {}}]}')
    (found, *_) = await editor.diagnostics()
    assert '"web\\u200bhook\\u3164"' in found["message"]
