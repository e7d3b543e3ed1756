"""A stranger in Neovim with README's settings repairs a pipeline by what is offered, runs its tool and sees the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from neovims import NEW, OLD, Neovim, program_of
from terminals import Terminal

pytestmark = pytest.mark.system

BROKEN = """\
{
  // The files of a small library.
  "components": [
    { "id": "webhook_1", "provider": "webhok", "config": {} },
    {
      "id": "files_1",
      "provider": "tool_filesystem",
      "config": { "root": "library" },
      "control": [{ "classType": "tool", "from": "webhook_1" }]
    },
    {
      "id": "reply_1",
      "provider": "response_text",
      "config": {},
      "input": [{ "lane": "txt", "from": "webhook_1" }]
    }
  ],
  "source": "webhook_1",
  "version": 1
}
"""


GOOD = BROKEN.replace("webhok", "webhook").replace('"txt"', '"text"')


@pytest.fixture(params=[NEW, OLD])
def neovim(request: pytest.FixtureRequest, terminal: Terminal, home: Path) -> Neovim:
    return Neovim(terminal, home, program_of(request.param), request.param)


def test_problems_are_shown_where_they_are(neovim: Neovim) -> None:
    neovim.edit("broken.pipe", BROKEN)
    screen = neovim.terminal.until('There is no node "webhok"', "txt")
    print(screen)
    assert neovim.diagnostics() == [("unknown_provider", '"webhok"'), ("unknown_lane", '"txt"')]


def test_a_node_is_explained(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD)
    neovim.terminal.when(lambda _: neovim.is_served(), "language server")
    neovim.go(7, 22)
    neovim.terminal.keys("K")
    neovim.terminal.until("File system", "No path leads out of it")


def test_a_node_is_found_and_renamed_wherever_it_is_named(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD)
    neovim.terminal.when(lambda _: neovim.is_served(), "language server")
    neovim.go(9, 51)
    neovim.terminal.keys("C-]" if neovim.block == NEW else "gd")
    neovim.terminal.when(lambda _: neovim.ask("vim.api.nvim_win_get_cursor(0)") == [4, 13], "cursor on the id")
    neovim.terminal.keys("grn")
    neovim.terminal.until("New Name: webhook_1")
    neovim.terminal.keys("C-u")
    neovim.terminal.type("entry")
    neovim.terminal.keys("Enter")
    neovim.terminal.until('"source": "entry"', gone=("webhook_1",))
    assert "\n".join(neovim.lines()) + "\n" == GOOD.replace("webhook_1", "entry")
