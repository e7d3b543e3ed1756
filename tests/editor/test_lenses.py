"""What a document offers to run, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse
from rrext.editor.outline import MAX_TOOL_COMMENTS, Lens, lenses_of
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment

CONTROL = [{"classType": "tool", "from": "in"}]


class Free(Node):
    """A source that does not say what it is for."""

    provider = "free"
    class_types = ("source",)
    lanes = {"_source": ("text", "questions")}


AROUND = AnalysisSettings(Catalog([Free], installed=False), Environment())


def look(text: str) -> Analysis:
    return analyse(text, AROUND)


def pipeline(source: str = "webhook", **more: Any) -> str:
    files = {"id": "files", "provider": "tool_filesystem", "config": {"root": "."}, "control": CONTROL}
    return json.dumps({"components": [{"id": "in", "provider": source, "config": {}}, files], **more}, indent=1)


def offered(analysis: Analysis) -> list[tuple[str, str, str]]:
    """(marked text, title, action) of each lens."""
    return [(analysis.text[slice(*lens.span)], lens.title, lens.action) for lens in lenses_of(analysis)]


def test_a_pipeline_offers_its_graph_its_source_and_its_tools() -> None:
    assert offered(look(pipeline())) == [
        ("{", "Show graph", "show_graph"),
        ('"in"', "Send file…", "send_file"),
        ('"files"', "Run tool…", "run_tool"),
    ]


@pytest.mark.parametrize(
    ("source", "actions"),
    [
        ("webhook", ["send_file"]),
        ("chat", ["chat"]),
        ("dropper", ["send_file"]),
        ("tools", []),
        ("free", ["send_file", "chat"]),
    ],
)
def test_a_source_is_offered_what_it_takes(source: str, actions: list[str]) -> None:
    found = [action for _, _, action in offered(look(pipeline(source))) if action in ("send_file", "chat")]
    assert sorted(found) == sorted(actions)


def test_of_several_sources_each_is_offered_what_only_it_takes() -> None:
    two = json.dumps({"components": [{"id": "in", "provider": "webhook"}, {"id": "ask", "provider": "chat"}]})
    assert offered(look(two))[1:] == [('"in"', "Send file…", "send_file"), ('"ask"', "Chat…", "chat")]
    assert all(problem.severity == "warning" for problem in look(two).problems)
    three = two.replace("]", ', {"id": "drop", "provider": "dropper"}]')
    assert offered(look(three))[1:] == [('"ask"', "Chat…", "chat")]


def commented(comment: str) -> list[Lens]:
    """The lenses of comments, with one comment above the pipeline."""
    return [lens for lens in lenses_of(look(f"{comment}\n{pipeline()}")) if lens.is_comment]


def test_a_comment_with_the_call_of_a_tool_is_offered_with_its_arguments() -> None:
    (lens,) = commented('// rrext tool read_file {"path": "a"}')
    assert (lens.title, lens.arguments) == ("Run read_file", {"tool": "read_file", "input": {"path": "a"}})
    inside = pipeline().replace('"id": "files"', '// rrext tool list_directory\r\n"id": "files"')
    (lens,) = [lens for lens in lenses_of(look(inside)) if lens.is_comment]
    assert lens.arguments == {"node": "files", "tool": "list_directory", "input": {}}


@pytest.mark.parametrize(
    "comment",
    [
        '// rrext tool read_file {"path": }',
        "// rrext tool read_file [1]",
        "// rrext tool read_file path=a",
        "// rrext tool",
        "// rrext tools read_file",
        "// rrext send a",
        "/* rrext tool list_directory */",
        "// see rrext tool list_directory",
    ],
)
def test_a_comment_with_anything_else_is_only_a_comment(comment: str) -> None:
    assert commented(comment) == []
    assert look(f"{comment}\n{pipeline()}").problems == look(pipeline()).problems


def test_only_a_thousand_comments_are_offered() -> None:
    assert len(commented("// rrext tool list_directory\n" * 2000)) == MAX_TOOL_COMMENTS


def test_only_the_graph_runs_nothing() -> None:
    found = lenses_of(look(pipeline() + "\n// rrext tool stat_file"))
    assert [lens.runs for lens in found] == [False, True, True, True]


def test_a_text_without_components_offers_nothing() -> None:
    for text in ("", "{}", "[1]", '{"components": 7}', "nonsense"):
        assert lenses_of(look(text)) == []


@given(st.text("{}[]\",:/* rextolsnd\n'", max_size=60), st.integers(0, 400))
def test_any_text_is_survived(junk: str, at: int) -> None:
    text = pipeline() + "\n// rrext tool read_file {}\n"
    analysis = look(text[:at] + junk + text[at:])
    for lens in lenses_of(analysis):
        assert 0 <= lens.span[0] <= lens.span[1] <= len(analysis.text)


def test_a_title_has_no_character_that_does_something() -> None:
    titles = [lens.title for lens in commented(f"// rrext tool \x1b[31mred\u202eabc\n// rrext tool \x00{'a' * 100}")]
    assert titles == ["Run \\u001b[31mred\\u202eabc", f"Run \\u0000{'a' * 33}…"]
