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


@pytest.fixture(params=[NEW, OLD])
def neovim(request: pytest.FixtureRequest, terminal: Terminal, home: Path) -> Neovim:
    return Neovim(terminal, home, program_of(request.param), request.param)


def test_problems_are_shown_where_they_are(neovim: Neovim, home: Path) -> None:
    (home / "project" / "broken.pipe").write_text(BROKEN, encoding="utf-8")
    neovim.edit("broken.pipe")
    screen = neovim.terminal.until('There is no node "webhok"', "txt")
    print(screen)
    assert neovim.diagnostics() == [("unknown_provider", '"webhok"'), ("unknown_lane", '"txt"')]
