"""protocol.md's chapter about the editor: its transcripts are played, and its tables are whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from faces.lsp.editors import Editor

from rrext.faces.lsp.features.table import language_server
from rrext.faces.lsp.options import Options
from rrext.faces.lsp.runs.engine import EngineEnded, FilesFailed, NotTrusted

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "protocol.md").read_text(encoding="utf-8")
CHAPTER = PAGE[PAGE.index("## 10. ") :]
ANY = "…"


def transcripts() -> list[Any]:
    found = re.finditer(r"^```lsp\n(.*?)^```$", CHAPTER, re.MULTILINE | re.DOTALL)
    return [pytest.param(match[1].splitlines(), id=f"transcript {number}") for number, match in enumerate(found, 1)]


def fits(pattern: Any, value: Any) -> bool:
    if pattern == ANY:
        return True
    if isinstance(pattern, dict) and isinstance(value, dict):
        wanted = {key: entry for key, entry in pattern.items() if key != ANY}
        is_whole = ANY in pattern or wanted.keys() == value.keys()
        return is_whole and all(key in value and fits(entry, value[key]) for key, entry in wanted.items())
    if isinstance(pattern, list) and isinstance(value, list):
        return len(pattern) == len(value) and all(map(fits, pattern, value))
    return type(pattern) is type(value) and pattern == value


async def play(lines: list[str]) -> None:
    editor = Editor()
    seen = 0
    try:
        for line in lines:
            direction, _, text = line.partition(" ")
            message = json.loads(text)
            if direction == "→":
                editor.server.protocol.receive(message)
                continue
            assert direction == "←", f"neither sent nor received: {line}"
            what = "id" if "id" in message else "method"
            while not fits(message, found := await next_message(editor, seen)):
                same = what == "id" and found.get(what) == message[what]
                assert not same, f"\nexpected {text}\nreceived {json.dumps(found, ensure_ascii=False)}"
                seen += 1
            seen += 1
    finally:
        await editor.server.aclose()


async def next_message(editor: Editor, seen: int) -> dict[str, Any]:
    await editor.until(lambda _: len(editor.messages) > seen)
    return editor.messages[seen]


@pytest.mark.parametrize("lines", transcripts())
async def test_the_editor_is_answered_as_the_transcript_says(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    await play(lines)


async def test_a_transcript_that_is_not_what_the_server_does_would_fail() -> None:
    (first, answer, *_) = transcripts()[0].values[0]
    with pytest.raises(AssertionError, match="expected"):
        await play([first, answer.replace("capabilities", "abilities")])


def cells() -> set[str]:
    """The names in backquotes in the first cells of the chapter's tables."""
    return {
        name for line in CHAPTER.splitlines() if line.startswith("|") for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


async def test_every_command_option_and_code_has_a_row() -> None:
    commands = {name for name in language_server().protocol.fm.commands if name.startswith("rrext.")}
    assert len(commands) >= 7
    codes = {error.code for error in (NotTrusted, EngineEnded, FilesFailed)}
    assert commands | codes | set(Options.__struct_encode_fields__) <= cells()
