"""A stranger in Neovim with the settings of EDITORS.md repairs a pipeline by quick fixes, runs its tool, sees the result."""

from __future__ import annotations

import json
import subprocess
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


SPOILT = """\
{
  // The files of a small library.
  "components": [
    { "id": "webhook_1", "provider": "webhok", "config": {}, "control": [{ "classType": "tool", "from": "files_1" }] },
    {
      "id": "files_1",
      "provider": "tool_filesystem"
      "config": { "rot": "library" }
    },
    {
      "id": "reply_1",
      "provider": "response_text",
      "config": {},
      "input": [{ "lane": "txt", "from": "webhook" }]
    }
  ],
  "source": "webhook_1",
  "version": 1
}
// rrext tool read_file {"path": "welcome.txt"}
"""
REPAIRS = [
    ("webhok", 'Replace "webhok" with "webhook"'),
    ('"provider": "tool_filesystem"', "Insert a comma"),
    ("rot", 'Replace "rot" with "root"'),
    ('control"', 'Move this edge to "files_1", which is invoked'),
    ('webhook" }]', 'Replace "webhook" with "webhook_1"'),
    ('"txt', 'Replace "txt" with "text"'),
]
"""Where the cursor is put, and which fix is chosen there."""
REPAIRED = """\
{
  // The files of a small library.
  "components": [
    { "id": "webhook_1", "provider": "webhook", "config": {} },
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
      "input": [{ "lane": "text", "from": "webhook_1" }]
    }
  ],
  "source": "webhook_1",
  "version": 1
}
// rrext tool read_file {"path": "welcome.txt"}
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


def test_a_pipeline_that_is_typed_has_the_problems_that_a_check_of_its_file_has(neovim: Neovim, home: Path) -> None:
    neovim.edit("typed.pipe", "")
    neovim.terminal.keys("i")
    for line in BROKEN.replace("small", "👩‍👩‍👧 smäll").replace('"root"', '"😀": 1, "rot"').splitlines():
        neovim.terminal.type(line.strip())
        neovim.terminal.keys("Enter")
    neovim.terminal.keys("Escape")
    neovim.command("w")
    checked = subprocess.run(
        [str(home / "bin" / "rrext"), "check", "--json", str(home / "project" / "typed.pipe")],
        capture_output=True,
        check=False,
        timeout=30,
    )
    problems = json.loads(checked.stdout)["problems"]
    assert len(problems) > 3
    lines = neovim.lines()

    def places() -> list[tuple[str, int, int]]:
        found = neovim.ask("vim.diagnostic.get(0)")
        characters = [len(lines[one["lnum"]].encode()[: one["col"]].decode()) for one in found]
        return sorted((one["message"], one["lnum"] + 1, at + 1) for one, at in zip(found, characters, strict=True))

    wanted = sorted((problem["message"], problem["line"], problem["column"]) for problem in problems)
    neovim.terminal.when(lambda _: places() == wanted, f"problems {wanted}")


def test_a_node_is_explained(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD)
    neovim.terminal.until("▶ Send file…")
    neovim.go(7, 22)
    neovim.terminal.keys("K")
    neovim.terminal.until("File system", "No path leads out of it")


def test_a_node_is_found_and_renamed_wherever_it_is_named(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD)
    neovim.terminal.until("▶ Send file…")
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


def test_providers_are_completed_between_quotes(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD.replace('"response_text"', '""'))
    neovim.terminal.until("▶ Send file…")
    neovim.command('call search(\'"provider": ""\', "e")')
    neovim.terminal.keys("i")
    neovim.terminal.type("response_t")
    neovim.terminal.keys("C-x", "C-o")
    neovim.terminal.until("response_text ", "response_table ")
    neovim.terminal.type("ex")
    neovim.terminal.keys("C-n", "C-y", "Escape")
    neovim.terminal.when(lambda _: "\n".join(neovim.lines()) + "\n" == GOOD, "completed text")


# the whole way


def test_a_stranger_repairs_a_pipeline_by_what_is_offered_and_runs_its_tool(neovim: Neovim) -> None:
    neovim.edit("spoilt.pipe", SPOILT)
    neovim.terminal.until('There is no node "webhok"', "A comma is missing here")
    for place, title in REPAIRS:
        broken = neovim.lines()
        neovim.command(f"call search('{place}', 'w')")
        neovim.terminal.keys("gra")
        neovim.choose(title, "Code actions")
        neovim.terminal.when(lambda _, broken=broken: neovim.lines() != broken, f"text after: {title}")
    neovim.terminal.when(lambda _: not neovim.ask("vim.diagnostic.get(0)"), "file without problems")
    assert "\n".join(neovim.lines()) + "\n" == REPAIRED
    neovim.terminal.until("▶ Run read_file")
    neovim.go(21)
    neovim.terminal.keys("grx")
    neovim.terminal.until("spoilt.read_file.json", "Welcome to the library.")


def test_all_that_has_one_obvious_answer_is_repaired_at_once(neovim: Neovim) -> None:
    neovim.edit("spoilt.pipe", SPOILT)
    neovim.terminal.until('There is no node "webhok"')
    neovim.command("call search('webhok')")
    neovim.terminal.keys("gra")
    neovim.choose("Fix everything that has one obvious answer", "Code actions")
    neovim.terminal.until('"provider": "webhook",', '"root": "library"', '"lane": "text", "from": "webhook_1"')
    left = {"control_on_invoker"}
    neovim.terminal.when(lambda _: {code for code, _ in neovim.diagnostics()} == left, "problems with two answers")


# what runs

CALLS = """\
// rrext tool read_file {"path": "welcome.txt"}
// rrext tool read_file {"path": "nowhere.txt"}
"""


def test_a_tool_runs_from_its_lens_and_its_result_is_shown_and_shown_anew(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD + CALLS)
    neovim.terminal.until('welcome.txt"} ▶ Run read_file')
    neovim.go(21)
    neovim.terminal.keys("grx")
    neovim.terminal.until("library.read_file.json", "Welcome to the library.", "▶ Run read_file")
    neovim.command("21s/welcome.txt/catalog.csv/")
    neovim.terminal.until('catalog.csv"} ▶ Run read_file')

    def is_renewed(_: object) -> bool:
        if "catalog.csv" in str(neovim.lenses()):
            return True
        neovim.command("doautocmd TextChanged")  # Neovim up to 0.10 drops a refresh while another one is under way
        return False

    neovim.terminal.when(is_renewed, "a lens of the new text")
    neovim.terminal.keys("grx")
    neovim.terminal.until('"path": "catalog.csv",', gone=("Welcome to the library.",))


def test_a_tool_that_fails_is_a_problem_at_its_node(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD + CALLS)
    neovim.terminal.until('nowhere.txt"} ▶ Run read_file')
    neovim.go(22)
    neovim.terminal.keys("grx")
    neovim.terminal.until('■ "nowhere.txt" does not exist')


def test_the_pipeline_is_shown_as_a_picture(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD)
    neovim.terminal.until("◇ Show graph")
    neovim.go(1)
    neovim.terminal.keys("grx")
    neovim.terminal.until("library.graph.txt", "┃ webhook_1", "│ tool_filesystem")


def test_a_tool_that_is_chosen_from_the_lens_of_its_node_says_which_comment_gives_its_input(neovim: Neovim) -> None:
    neovim.edit("library.pipe", GOOD)
    neovim.terminal.until("▶ Run tool…")
    neovim.go(6)
    neovim.terminal.keys("grx")
    neovim.choose("read_file", 'Which tool of "files_1" is to run?')
    neovim.terminal.until("Write it in a comment of the component: // rrext tool read_file")


def test_without_trust_nothing_runs_and_the_lens_says_why(neovim: Neovim) -> None:
    neovim.distrust()
    neovim.edit("library.pipe", GOOD + CALLS)
    neovim.terminal.until("▷ Run read_file (not trusted)")
    neovim.go(21)
    neovim.terminal.keys("grx")
    neovim.terminal.until('Nothing is run here until "trusted": true is set', gone=("Welcome to the library.",))
