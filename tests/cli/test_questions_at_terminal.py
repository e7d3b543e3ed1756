"""`rrext tool` asks its user at the terminal what a tool wants to know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_terminal import Terminal, at_terminal
from commands import NODES, call, component, pipeline, spawned, until

pytestmark = pytest.mark.promise("questions:caller-answers")

FIELDS = {
    "name": {"type": "string", "title": "Your name\x1b[2J"},
    "size": {"type": "string", "enum": ["S", "L"], "description": "of a shirt"},
    "count": {"type": "integer", "default": 2},
    "gift": {"type": "boolean"},
    "colours": {"type": "array", "items": {"type": "string"}},
    "odd": 7,
}
FORM = {"message": "An order\x1b[2J", "requestedSchema": {"type": "object", "properties": FIELDS, "required": ["name"]}}
PAGE = {"mode": "url", "message": "Sign in", "url": "https://example.org/in"}


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    return pipeline(tmp_path, component("w", "webhook"), component("kinds", "kinds", control="w"))


@pytest.fixture(params=["here", "at"])
def where(request: pytest.FixtureRequest, kinds: str, tmp_path: Path) -> Iterator[list[str]]:
    """The words that name a pipeline in the command's process, and one of a server."""
    if request.param == "here":
        yield [kinds, "--nodes", NODES]
        return
    with spawned("serve", "--listen", f"unix:{tmp_path}/socket", "--nodes", NODES, kinds) as process:
        assert process.stderr is not None
        until(process.stderr, "listening at")
        yield ["--at", f"unix:{tmp_path}/socket"]


@contextmanager
def asked(where: list[str], params: dict[str, Any], folder: Path) -> Iterator[Terminal]:
    words = ["tool", *where[:1], "wonder", *where[1:]] if where[0] != "--at" else ["tool", *where, "wonder"]
    with at_terminal([*words, "--input", json.dumps({"params": params})], folder=folder) as terminal:
        yield terminal


def result(terminal: Terminal) -> Any:
    before = len(terminal.shown)
    assert terminal.ended() == 0
    text = terminal.shown[before:] or terminal.shown
    return json.loads(text[text.index("{") :])


def test_a_form_is_asked_field_by_field_in_the_types_of_its_schema(where: list[str], tmp_path: Path) -> None:
    with asked(where, FORM, tmp_path) as terminal:
        assert "\\u001b[2J" in terminal.until("Your name"), "what a terminal would obey is escaped"
        terminal.until("(needed): ")
        terminal.type("Ada\n")
        terminal.until("size (of a shirt; one of S, L): ")
        terminal.type("L\n")
        terminal.until("count (else 2): ")
        terminal.type("\n")
        terminal.until("gift (y or n): ")
        terminal.type("y\n")
        terminal.until("colours: ")
        terminal.type('["red", "blue"]\n')
        terminal.until("odd: ")
        terminal.type("\n")
        terminal.until("Send this? [y/n] ")
        terminal.type("y\n")
        content = {"name": "Ada", "size": "L", "count": 2, "gift": True, "colours": ["red", "blue"]}
        assert result(terminal) == {"action": "accept", "content": content}
        assert b"\x1b[2J" not in terminal.raw


@pytest.mark.parametrize(("keys", "action"), [("y\n", "accept"), ("n\n", "decline"), ("\x04", "cancel")])
def test_a_page_is_shown_and_opened_by_nobody(keys: str, action: str, where: list[str], tmp_path: Path) -> None:
    with asked(where, PAGE, tmp_path) as terminal:
        assert "https://example.org/in" in terminal.until("[y/n] ")
        terminal.type(keys)
        assert result(terminal) == {"action": action}


def test_ctrl_c_at_a_question_cancels_the_tool(where: list[str], tmp_path: Path) -> None:
    with asked(where, FORM, tmp_path) as terminal:
        terminal.until("(needed): ")
        terminal.type("\x03")
        assert terminal.ended() == 130


def test_without_a_terminal_nobody_is_asked(kinds: str) -> None:
    done = call("tool", kinds, "wonder", "--nodes", NODES, "--input", json.dumps({"params": FORM}))
    assert done.code == 1
    assert "did not offer to ask its user" in done.err
