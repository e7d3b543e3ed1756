"""A stranger in Emacs with the settings of EDITORS.md: eglot, which we did not write, shows problems and makes the fixes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from editor_settings import settings
from terminals import Terminal

pytestmark = pytest.mark.system

BROKEN = """\
{
  "components": [
    { "id": "webhook_1", "provider": "webhok", "config": {} },
    { "id": "reply_1", "provider": "response_text", "config": {}, "input": [{ "lane": "text", "from": "webhook_1" }] }
  ],
  "source": "webhook_1"
}
"""

QUIET = "(setq native-comp-deferred-compilation nil native-comp-jit-compilation nil)"
"""No compiling in the background, which opens windows with warnings about Emacs' own libraries."""


@pytest.fixture
def emacs(terminal: Terminal, home: Path) -> Terminal:
    """Emacs on broken.pipe, when its problems are shown."""
    if shutil.which("emacs") is None:
        pytest.skip("install Debian's emacs-nox and elpa-eglot")
    folder = home / ".emacs.d"
    folder.mkdir()
    (folder / "init.el").write_text(settings("Emacs"), encoding="utf-8")
    (folder / "early-init.el").write_text(QUIET, encoding="utf-8")
    (home / "project" / "broken.pipe").write_text(BROKEN, encoding="utf-8")
    terminal.start(["emacs", "-nw", "broken.pipe"])
    terminal.until("Flymake[1 0]")
    return terminal


def command(terminal: Terminal, name: str) -> None:
    terminal.keys("M-x")
    terminal.until("M-x")
    terminal.type(name)
    terminal.keys("Enter")


def test_problems_are_listed(emacs: Terminal) -> None:
    command(emacs, "flymake-show-buffer-diagnostics")
    screen = emacs.until('There is no node "webhok". Did you mean "webhook"?')
    assert "3  37 error" in screen  # lines from 1, columns from 0
    assert "[unknown_provider]" in screen


def test_a_node_is_found_where_it_is_named(emacs: Terminal) -> None:
    emacs.keys("M->", "Up", "Up", "C-e", "Left", "Left")  # inside of "source": "webhook_1"
    emacs.until(" L6 ")
    emacs.keys("M-.")
    emacs.until(" L3 ")


def test_a_node_is_renamed_wherever_it_is_named(emacs: Terminal) -> None:
    emacs.keys("M->", "Up", "Up", "C-e", "Left", "Left")
    command(emacs, "eglot-rename")
    emacs.until("Rename `webhook_1' to:")
    emacs.type("entry")
    emacs.keys("Enter")
    emacs.until('"source": "entry"', '"id": "entry"', gone=("webhook_1",))


def test_a_provider_is_completed(emacs: Terminal) -> None:
    emacs.keys("C-s")
    emacs.type('"provider": "webh')
    emacs.keys("Enter", "M-d")
    emacs.until('"provider": "webh",')
    emacs.keys("C-M-i")
    emacs.until('"provider": "webhook",', "Flymake[0 0]")


def test_a_problem_is_mended_by_what_is_offered(emacs: Terminal) -> None:
    emacs.keys("C-s")
    emacs.type("hok")
    emacs.keys("Enter")
    command(emacs, "eglot-code-actions")
    emacs.until("Pick an action")
    emacs.type('Replace "webhok" with "webhook"')
    emacs.keys("Enter")
    emacs.until('"provider": "webhook",', "Flymake[0 0]")
