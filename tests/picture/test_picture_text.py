"""Pictures in characters as people see them. Each of those written out here was looked at by a person."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_graphs import pictures
from picture_nodes import catalog
from picture_tracing import Drawing

from rrext.picture.picture import Picture, PictureEdge, PictureNode, Remark, picture_of
from rrext.picture.text import as_text
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = HERE.parent / "examples"

CHAT = """librarian

┏━━━━━━━━━━━━━━━━━━┓
┃ chat_1           ┃
┃ chat             ┃
┗━━┯━━━━━━━━━━━━━━━┛
   │ questions
┌──▼───────────────┐
│ llm_1            │
│ llm_scripted     │
└──┬───────────────┘
   │ answers
╔══▼═══════════════╗
║ answers_1        ║
║ response_answers ║
╚══════════════════╝

━ source   ═ response   ─▶ data
"""
FILESYSTEM = """library

┏━━━━━━━━━━━━━━━┓          ┌─────────────────┐
┃ webhook_1     ┠┄┄┄ tool ┄▷ files_1         │
┃ webhook       ┃          │ tool_filesystem │
┗━━┯━━━━━━━━━━━━┛          └─────────────────┘
   │ text
╔══▼════════════╗
║ reply_1       ║
║ response_text ║
╚═══════════════╝

━ source   ═ response   ─▶ data   ┄▷ control
"""
AGENT = """researcher

┏━━━━━━━━━━━━━━━━━━┓
┃ chat_1           ┃
┃ chat             ┃
┗━━┯━━━━━━━━━━━━━━━┛
   │ questions
┌──▼───────────────┐            ┌───────────────────┐
│ agent_1          ├┄┬┄ llm ┄┄┄┄▷ llm_1             │
│ agent_rocketride │ ┆          │ llm_hosted        │
│ Research agent   │ ┆          └───────────────────┘
└──┬───────────────┘ ┆
   │ answers         ┆
╔══▼═══════════════╗ ┆          ┌───────────────────┐
║ answers_1        ║ ├┄ memory ┄▷ memory_1          │
║ response_answers ║ ┆          │ memory_internal   │
╚══════════════════╝ ┆          └───────────────────┘
                     ┆          ┌───────────────────┐
                     ├┄ tool ┄┄┄▷ files_1           │
                     ┆          │ tool_filesystem   │
                     ┆          └───────────────────┘
                     ┆          ┌───────────────────┐
                     ├┄ tool ┄┄┄▷ python_1          │
                     ┆          │ tool_python       │
                     ┆          └───────────────────┘
                     ┆          ┌───────────────────┐         ┌────────────┐
                     ├┄ tool ┄┄┄▷ db_1              ├┄┄┄ llm ┄▷ llm_2      │
                     ┆          │ db_internal       │         │ llm_hosted │
                     ┆          └───────────────────┘         └────────────┘
                     ┆          ┌───────────────────┐
                     ╰┄ tool ┄┄┄▷ web_1             │
                                │ tool_http_request │
                                └───────────────────┘

━ source   ═ response   ─▶ data   ┄▷ control
"""
BROKEN = """   ┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓    ┌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┐
   ┃ w                             ┃    ╎ gone              ╎
   ┃ webhook                       ┃    ╎ no such component ╎
   ┗━━┯━━━━━━━━━━━━━━━━━━━━━━━━━━━━┛    └╌╌┬╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┘
╭─────┼──────╮             ╭───────────────╯
│     │ text │ ✗ questions │ ✗ text
│  ┌──▼──────▼─────────────▼───────┐
│  │ ✗ a                           │
│  │ promt                         │
│  └──┬────────────────────────────┘
╰─────┤
      │ questions
   ┌──▼────────────────────────────┐
   │ ✗ a                           │
   │ (no provider)                 │
   └───────────────────────────────┘

━ source   ╌ no such component   ─▶ data   ✗ error
"""


def example(path: Path) -> Picture:
    return picture_of(load_pipeline(path.read_text(), catalog(), Environment({}), strict_env=False, positions=True))


@pytest.mark.parametrize(
    ("path", "shown"),
    [(EXAMPLES / "chat.pipe", CHAT), (EXAMPLES / "filesystem.pipe", FILESYSTEM), (HERE / "agent.pipe", AGENT)],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_a_real_pipeline_looks_like_this(path: Path, shown: str) -> None:
    assert as_text(example(path), 100) == shown


def nodes(*names: str) -> tuple[PictureNode, ...]:
    return tuple(PictureNode(name, "p") for name in names)


def test_a_line_goes_around_what_stands_in_its_way() -> None:
    edges = (PictureEdge(0, 1, "data", ("text",)), PictureEdge(1, 2, "data", ("text",)), PictureEdge(0, 2, "data", ("table",)))
    assert as_text(Picture(nodes("one", "two", "three"), edges), 80) == (
        "   ┌────────────────┐\n"
        "   │ one            │\n"
        "   │ p              │\n"
        "   └──┬─────────────┘\n"
        "╭─────┤\n"
        "│     │ text\n"
        "│  ┌──▼─────────────┐\n"
        "│  │ two            │\n"
        "│  │ p              │\n"
        "│  └──┬─────────────┘\n"
        "╰─────┼──────╮\n"
        "      │ text │ table\n"
        "   ┌──▼──────▼──────┐\n"
        "   │ three          │\n"
        "   │ p              │\n"
        "   └────────────────┘\n"
        "\n"
        "─▶ data\n"
    )


def test_branches_to_both_sides_leave_a_line_together() -> None:
    leading = ((0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (6, 8), (2, 7), (2, 8))
    edges = tuple(PictureEdge(source, target, "data", ("text",)) for source, target in leading)
    assert as_text(Picture(nodes("s", "x", "y", "z", "x1", "y1", "z1", "p", "q"), edges), 80) == (
        "┌───────────────┐\n"
        "│ s             │\n"
        "│ p             │\n"
        "└──┬────────────┘\n"
        "   ├────────────────────┬───────────────╮\n"
        "   │ text               │ text          │ text\n"
        "┌──▼────────────┐    ┌──▼───────┐    ┌──▼────────────┐\n"
        "│ x             │    │ y        │    │ z             │\n"
        "│ p             │    │ p        │    │ p             │\n"
        "└──┬────────────┘    └──┬───────┘    └──┬────────────┘\n"
        "   │              ╭─────┤               │\n"
        "   │ text         │     │ text          │ text\n"
        "┌──▼────────────┐ │  ┌──▼───────┐    ┌──▼────────────┐\n"
        "│ x1            │ │  │ y1       │    │ z1            │\n"
        "│ p             │ │  │ p        │    │ p             │\n"
        "└──┬────────────┘ │  └──────────┘    └──┬────────────┘\n"
        "   │      ╭───────┴─────────────────────┼──────╮\n"
        "   │ text │ text                        │ text │ text\n"
        "┌──▼──────▼─────┐                    ┌──▼──────▼─────┐\n"
        "│ p             │                    │ q             │\n"
        "│ p             │                    │ p             │\n"
        "└───────────────┘                    └───────────────┘\n"
        "\n"
        "─▶ data\n"
    )


def test_a_line_that_goes_on_further_down_leaves_the_others_in_one_place() -> None:
    leading = ((0, 1), (0, 2), (0, 3), (2, 4), (3, 5), (0, 4), (0, 5))
    edges = tuple(PictureEdge(source, target, "data", ("text",)) for source, target in leading)
    lines = as_text(Picture(nodes("s", "a", "b", "c", "d", "e"), edges), 80).splitlines()
    assert lines[3:7] == [
        "└──┬───────┘",
        "   ├─────────┬─────┬────────────────────╮",
        "   │ text    │     │ text               │ text",
        "┌──▼───────┐ │  ┌──▼────────────┐    ┌──▼────────────┐",
    ]


def test_two_nodes_may_share_what_they_invoke() -> None:
    data = tuple(PictureEdge(source, source + 1, "data", ("text",)) for source in (0, 1))
    control = tuple(PictureEdge(source, target, "control", ("tool",)) for source in (1, 2) for target in (3, 4))
    assert as_text(Picture(nodes("s", "a", "b", "t", "u"), data + control), 80).partition("text\n")[2] == (
        "┌──▼───────┐            ┌──────────┐\n"
        "│ a        ├┄┄┄┬┄ tool ┄▷ t        │\n"
        "│ p        │ ╭┄┼┄ tool ┄▷ p        │\n"
        "└──┬───────┘ ┆ ┆        └──────────┘\n"
        "   │ text    ┆ ┆\n"
        "┌──▼───────┐ ┆ ┆        ┌──────────┐\n"
        "│ b        ├┄┤ ┆        │ u        │\n"
        "│ p        │ ┆ ╰┄ tool ┄▷ p        │\n"
        "└──────────┘ ╰┄┄┄ tool ┄▷          │\n"
        "                        └──────────┘\n"
        "\n"
        "─▶ data   ┄▷ control\n"
    )


def test_names_are_shortened_before_lines_are_left_out() -> None:
    shown = as_text(Picture(nodes("a", "b" * 16), (PictureEdge(0, 1, "control", ("classificationContext",)),)), 40)
    assert "╰┄ classific… ┄▷ bbbb" in shown


def test_data_from_many_nodes_arrives_on_the_left_where_there_is_room_for_all_names() -> None:
    edges = tuple(PictureEdge(index, 5, "data", ("documents", "table", "text")) for index in range(5))
    shown = as_text(Picture(nodes("a", "b", "c", "d", "e", "all"), edges), 120)
    assert shown.count("─ documents, table, text ─▶") == 4
    assert "│ documents, table, text" in shown, "the node straight above needs no way around"


def test_a_circle_has_a_line_that_leads_back() -> None:
    edges = (PictureEdge(0, 1, "data", ("text",)), PictureEdge(1, 0, "data", ("answers",)))
    assert as_text(Picture(nodes("one", "two"), edges), 80) == (
        "╭─────╮\n"
        "│     │ answers\n"
        "│  ┌──▼────────┐\n"
        "│  │ one       │\n"
        "│  │ p         │\n"
        "│  └──┬────────┘\n"
        "│     │ text\n"
        "│  ┌──▼────────┐\n"
        "│  │ two       │\n"
        "│  │ p         │\n"
        "│  └──┬────────┘\n"
        "╰─────╯\n"
        "\n"
        "─▶ data\n"
    )


def test_what_is_wrong_is_marked_at_nodes_and_names_and_in_the_legend() -> None:
    remarks = (Remark("warning", "not_connected", "nothing leads here"),)
    picture = Picture(
        (PictureNode("one", "p", remarks=(Remark("error", "x", "y"), *remarks)), PictureNode("two", "", remarks=remarks)),
        (PictureEdge(0, 1, "data", ("text", "table"), "error"), PictureEdge(0, 1, "control", ("tool",), "warning")),
    )
    shown = as_text(picture, 80)
    assert "│ ✗ one " in shown
    assert "▷ ! two " in shown
    assert "│ (no provider) " in shown
    assert "✗ text, table" in shown
    assert "! tool" in shown
    assert shown.endswith("\n─▶ data   ┄▷ control   ✗ error   ! warning\n")
    coloured = as_text(picture, 80, colour=True)
    assert "\x1b[1;31m✗ one\x1b[0m" in coloured
    assert "\x1b[1;33m! two\x1b[0m" in coloured
    assert "\x1b[1;31m✗ text, table\x1b[0m" in coloured


def test_wide_and_combining_characters_and_long_texts_keep_the_borders_straight() -> None:
    picture = Picture(
        (
            PictureNode("日本語のノード", "e\u0301e\u0301", "短い"),
            PictureNode("x" * 500, "🙂" * 100, "t" * 500),
            PictureNode("\u0301", "プロバイダー"),
        ),
        (PictureEdge(0, 1, "data", ("文書", "z" * 500)), PictureEdge(0, 2, "control", ("e\u0301道具",))),
    )
    for width in (40, 80, 200):
        drawing = Drawing(as_text(picture, width).partition("\n\n")[0])
        assert drawing.width <= width
        assert {frame.texts[0][:4] for frame in drawing.frames} == {"日本語の", "xxxx", "\u0301"}, (
            "borders that stray make no box"
        )


def test_control_characters_never_reach_the_terminal() -> None:
    evil = "a\x1b[31m\r\n\t\u202e\x9b"
    picture = Picture((PictureNode(evil, evil, evil), PictureNode("b", evil)), (PictureEdge(0, 1, "data", (evil,)),), name=evil)
    for width in (40, 200):
        shown = as_text(picture, width)
        assert all(line.isprintable() for line in shown.splitlines())
        assert "a\\u001b[31m\\u000d\\u000a \\u202e\\u009b" in shown


def test_colours_are_around_the_same_characters() -> None:
    picture = example(HERE / "agent.pipe")
    coloured = as_text(picture, 100, colour=True)
    assert "\x1b[1magent_1\x1b[0m" in coloured
    assert coloured.startswith("\x1b[1mresearcher\x1b[0m\n")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == as_text(picture, 100)
    assert all(line.count("\x1b[0m") * 2 == line.count("\x1b[") for line in coloured.splitlines()), "each ends in its line"


def test_a_title_is_shown_if_it_is_short_and_says_something_new() -> None:
    def lines(title: str) -> int:
        return as_text(Picture((PictureNode("id", "provider", title),)), 80).count("\n")

    assert lines("a few words") == lines("") + 1
    assert lines("id") == lines("provider") == lines(" ") == lines("so many words that they are a description") == lines("")


def test_a_picture_is_never_narrower_than_it_needs_to_be_read() -> None:
    picture = example(HERE / "agent.pipe")
    assert as_text(picture, 1) == as_text(picture, 40)
    assert "agent_1" in as_text(picture, 1)


def test_lines_that_find_no_room_are_words_in_the_box_at_their_end() -> None:
    edges = tuple(
        PictureEdge(source, target, "data", ("documents",)) for source in range(30) for target in range(source + 1, 30)
    )
    shown = as_text(Picture(nodes(*(f"n{index}" for index in range(30))), edges), 40)
    boxes = {frame.name: frame.texts for frame in Drawing(shown.partition("\n\n")[0]).frames}
    assert "◂ n0" in boxes["n29"]
    assert "documents" in boxes["n29"]
    assert not [index for index in range(29) if f"◂ n{index}" in boxes[f"n{index + 1}"]], "the short ones have room"
    assert shown.endswith("─▶ data   ◂ ◃ edges without a line\n")


def test_many_names_at_one_edge_are_counted() -> None:
    names = tuple(f"lane_with_a_long_name_{index}" for index in range(20))
    shown = as_text(Picture(nodes("a", "b"), (PictureEdge(0, 1, "data", names),)), 80)
    assert "lane_with_a_long_name_0" in shown
    assert "lane_with_a_long_name_7" in shown
    assert "and 12 more" in shown


def test_a_hundred_nodes_that_have_nothing_to_do_with_each_other_fill_the_width() -> None:
    shown = as_text(Picture(nodes(*(f"n{index}" for index in range(100)))), 200)
    assert shown.count("\n") == 4 * 9, "twelve columns"


@given(pictures(30), st.sampled_from([40, 100]))
@settings(max_examples=30, deadline=None)
def test_the_same_pipeline_gives_the_same_picture(picture: Picture, width: int) -> None:
    assert as_text(picture, width) == as_text(picture, width)


def test_the_picture_does_not_depend_on_how_texts_are_hashed() -> None:
    code = (
        "import sys; from picture_graphs import drawn_from; from rrext.picture.text import as_text; "
        "sys.stdout.buffer.write(as_text(drawn_from(7, 40, 90, 5), 90).encode())"
    )
    found = set()
    for seed in ("1", "2"):
        path = os.pathsep.join([str(ROOT), str(HERE)])
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed}, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        found.add(done.stdout)
    assert len(found) == 1


def test_a_broken_pipeline_looks_like_this() -> None:
    text = """{"components": [
      {"id": "w", "provider": "webhook", "config": {}},
      {"id": "a", "provider": "promt", "config": {}, "input": [
        {"lane": "text", "from": "gone"}, {"lane": "questions", "from": "a"}, {"lane": "text", "from": "w"}]},
      {"id": "a", "config": {}, "input": [{"lane": "questions", "from": "a"}]}
    ]"""
    shown = as_text(picture_of(load_pipeline(text, catalog(), Environment({}), strict_env=False, positions=True)), 100)
    assert shown == BROKEN
