"""Calls that stand in comments: where they are found, what they mean, and what is wrong with them."""

from __future__ import annotations

import json
import string
from typing import Annotated, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse
from rrext.editor.calls.lines import CallLine
from rrext.editor.checked_calls import MAX_CALL_LINES
from rrext.nodes.base.node import Node
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.tools.decorator import tool_function


class Desk(Node):
    """Tools of several kinds."""

    provider = "desk"

    @tool_function
    def write(self, text: str, copies: Annotated[int, "How many."] = 1) -> str:
        """Write."""
        return text * copies

    @tool_function
    def wait(self) -> None:
        """Wait."""

    @tool_function(input_schema=lambda node: {"type": "object", "required": ["colour"]})
    def paint(self, **input: Any) -> None:
        """Paint, with what only the settings know."""


class Drawer(Node):
    """One tool more."""

    provider = "drawer"

    @tool_function
    def open_drawer(self) -> None:
        """Open it."""


AROUND = AnalysisSettings(Catalog([Desk, Drawer], installed=False), Environment(), trusted=True)

PIPELINE = """{
  "components": [
    { "id": "webhook_1", "provider": "webhook", "config": {} },
    {
      %s
      "id": "desk_1",
      "provider": "desk", "config": {}, "control": [{ "classType": "tool", "from": "webhook_1" }]
    },
    { "id": "drawer_1", "provider": "drawer", "config": {}, "control": [{ "classType": "tool", "from": "webhook_1" }] }
    %s
  ],
  "source": "webhook_1"
}
"""


def look(inside: str = "", outside: str = "", pipeline: str = PIPELINE) -> Analysis:
    """A pipeline with comments inside of the desk and outside of all components."""
    return analyse(pipeline % (inside, outside), AROUND)


def only(analysis: Analysis) -> CallLine:
    (line,) = analysis.calls.lines
    return line


def told(analysis: Analysis) -> list[tuple[str, str, str]]:
    """(code, marked text, message) of each problem of a call."""
    found = []
    for problem in analysis.calls.problems:
        start, end = analysis.map.span_of(problem)
        found.append((problem.code, analysis.text[start:end], problem.message))
    return found


def test_a_call_in_a_component_is_made_to_that_node() -> None:
    analysis = look('// rrext tool write {"text": "hello"}')
    line = only(analysis)
    assert (line.kind, line.node, line.tool, line.input, line.sound) == ("tool", "desk_1", "write", {"text": "hello"}, True)
    assert analysis.text[slice(*line.span)] == 'rrext tool write {"text": "hello"}'
    assert analysis.problems == analysis.loaded.problems


def test_a_call_outside_of_components_is_made_to_whoever_has_the_tool() -> None:
    line = only(look(outside="// rrext tool open_drawer"))
    assert (line.node, line.tool, line.input, line.sound) == ("", "open_drawer", None, True)


def test_a_call_outside_may_name_its_node() -> None:
    for text in ("rrext tool --node drawer_1 open_drawer", "rrext tool open_drawer --node drawer_1 {}"):
        line = only(look(outside=f"// {text}"))
        assert (line.node, line.tool, line.sound) == ("drawer_1", "open_drawer", True)


def test_a_call_may_name_the_tool_of_a_node_as_models_do_and_send_null_for_absence() -> None:
    second = ', { "id": "desk_2", "provider": "desk", "config": {}, "control": [{ "classType": "tool", "from": "webhook_1" }] }'
    call = 'rrext tool desk_2__write {"text": "a", "copies": null}'
    analysis = look(outside=f"{second} // {call}")
    assert (only(analysis).tool, only(analysis).sound, told(analysis)) == ("desk_2__write", True, [])
    wrong = look(outside=f'{second} // rrext tool desk_2__write {{"text": null}}')
    assert told(wrong) == [("invalid_call", "null", "write: expected string, got null")]
    assert [code for code, *_ in told(look("// rrext tool desk_2__write", outside=second))] == ["unknown_tool"]


@pytest.mark.parametrize(
    "comment",
    [
        '// rrext tool write {"text": "a", "copies": 2}',
        '//rrext tool write {"text": "a", "copies": 2,}',
        '// rrext tool write {"text": "a", // the text\n//   "copies": 2}',
        '// rrext tool write {\r\n   //"text": "a",\r\n// "copies":\r\n//2}',
        '/* rrext tool write {"text": "a",\n   "copies": 2} */',
        '// rrext   tool\twrite{"text": "a", "copies": 2}',
    ],
)
def test_input_may_be_written_in_several_ways_and_over_several_lines(comment: str) -> None:
    line = only(look(comment))
    assert (line.input, line.sound) == ({"text": "a", "copies": 2}, True)


def test_what_follows_a_whole_input_on_the_next_line_is_not_part_of_it() -> None:
    analysis = look('// rrext tool write {"text": "a"}\n// {"copies": 7}\n// rrext tool wait\n// {"x": 1}')
    assert [(line.tool, line.input) for line in analysis.calls.lines] == [("write", {"text": "a"}), ("wait", None)]
    assert not told(analysis)


def test_an_input_without_end_does_not_swallow_the_next_call() -> None:
    analysis = look('// rrext tool write {"text": "a",\n// rrext tool wait')
    assert [(line.tool, line.sound) for line in analysis.calls.lines] == [("write", False), ("wait", True)]
    assert [code for code, *_ in told(analysis)] == ["invalid_call"]


def test_a_line_of_code_ends_a_call() -> None:
    analysis = look('// rrext tool write {"text":\n"name": "x",\n// "a"}')
    assert [line.sound for line in analysis.calls.lines] == [False]


@pytest.mark.parametrize(
    "text",
    [
        '"description": "// rrext tool wait",',
        '"description": "\\"/* rrext tool wait */",',
        "// use rrext tool wait",
        "// rrext tools wait",
        "// rrext toolwait",
        "/* rrext tool wait",
        '"rrext tool wait": 1,',
    ],
)
def test_texts_and_other_comments_hold_no_calls(text: str) -> None:
    assert look(text).calls.lines == ()


@pytest.mark.parametrize(
    "pipeline",
    [
        "// rrext tool write %s %s",
        "{} // rrext tool write %s %s",
        '{"components": // rrext tool write %s %s\n []}',
        '{"components": [ // rrext tool write %s %s\n',
        '{"components": [{]} // rrext tool write %s %s',
        '"a": 1, // rrext tool write %s %s\n "b": 2',
        "\ufeff// rrext tool write %s %s",
        "{'a: // rrext tool no %s %s\n // rrext tool write",
    ],
)
def test_calls_are_found_in_broken_texts(pipeline: str) -> None:
    assert only(look(pipeline=pipeline)).tool == "write"


def test_files_to_send_and_questions_are_read() -> None:
    analysis = look(outside="// rrext send data/*.txt 'two words.md' --mime text/plain\n")
    line = only(analysis)
    assert (line.kind, line.paths, line.mime_type) == ("send", ("data/*.txt", "two words.md"), "text/plain")
    assert line.sound
    chat = analyse('{"components": [{"id": "c", "provider": "chat", "config": {}}] /* rrext chat What is\n open? */}', AROUND)
    assert (only(chat).kind, only(chat).question, only(chat).sound) == ("chat", "What is\n open?", True)


@pytest.mark.parametrize(
    ("comment", "code", "marked", "words"),
    [
        ("rrext tool wirte", "unknown_tool", "wirte", '"desk_1" has no tool "wirte". Did you mean "write"'),
        ("rrext tool open_drawer", "unknown_tool", "open_drawer", '"desk_1" has no tool'),
        ("rrext tool", "invalid_call", "rrext tool", "name of a tool is missing"),
        ("rrext tool write", "invalid_call", "write", "required property missing: text"),
        ("rrext tool write {}", "invalid_call", "{", "required property missing: text"),
        ('rrext tool write {"text": 7}', "invalid_call", "7", "expected string, got integer"),
        ('rrext tool write {"text": "", "cpies": 1}', "invalid_call", '"cpies"', 'did you mean "copies"?'),
        ('rrext tool write {"text" "a"}', "invalid_call", '"text"', "colon is missing"),
        ('rrext tool write {"text": "a"} twice', "invalid_call", "twice", "ended before this"),
        ("rrext tool write [1]", "invalid_call", "[1]", "is an object"),
        ("rrext tool write text", "invalid_call", "text", "double quotes"),
        ("rrext tool write --nod x {}", "invalid_call", "--nod", 'Did you mean "--node"'),
        ("rrext tool write --node", "invalid_call", "--node", "needs a value"),
        ("rrext tool write --node desk_2 {}", "invalid_call", "desk_2", 'Did you mean "desk_1"'),
        ("rrext send", "invalid_call", "rrext send", "A file is missing"),
        ("rrext send a.txt --jobs 3", "invalid_call", "--jobs", "there is --mime"),
        ("rrext chat", "invalid_call", "rrext chat", "A question is missing"),
        ("rrext chat Who?", "invalid_call", "rrext chat Who?", '"webhook_1", which takes files'),
    ],
)
def test_what_is_wrong_is_told_at_its_place(comment: str, code: str, marked: str, words: str) -> None:
    analysis = look(f"// {comment}")
    found = told(analysis)
    assert (found[0][0], found[0][1]) == (code, marked)
    assert words in found[0][2]
    assert not only(analysis).sound
    assert {problem.severity for problem in analysis.calls.problems} == {"warning"}


def test_a_problem_on_a_later_line_is_marked_there() -> None:
    analysis = look('// rrext tool write {"text": "a",\n//    "copies": "many"}')
    assert told(analysis) == [("invalid_call", '"many"', "write: expected integer, got string")]


def test_a_pipeline_without_tools_says_so() -> None:
    analysis = analyse('{"components": [{"id": "w", "provider": "webhook", "config": {}}]} // rrext tool x', AROUND)
    assert told(analysis) == [("unknown_tool", "x", "This pipeline has no tools.")]


def test_a_node_that_is_not_known_here_may_have_any_tool() -> None:
    for call in (
        '{"id": "a", "provider": "strange", "config": {}, // rrext tool x\n}',
        '{"provider": "strange"} // rrext tool x\n',
    ):
        analysis = analyse(f'{{"components": [{call}]}}', AROUND)
        assert told(analysis) == []
        assert only(analysis).sound


def test_a_whole_pipeline_with_a_node_that_is_not_known_here_is_looked_at() -> None:
    strange = AnalysisSettings(Catalog(installed=False), Environment())  # where trust is missing, that is no error
    analysis = analyse(PIPELINE % ("// rrext tool anything", ""), strange)
    assert only(analysis).sound
    assert {problem.code for problem in analysis.problems if problem.severity != "warning"} == {"unknown_provider"}


def test_of_two_components_with_one_id_a_call_means_the_first() -> None:
    twice = [{"id": "a", "provider": "webhook", "config": {}}, {"id": "a", "provider": "desk", "config": {}}]
    analysis = analyse(f"// rrext tool write --node a {{}}\n{json.dumps({'components': twice})}", AROUND)
    assert [problem.code for problem in analysis.problems] == ["duplicate_id", "unknown_tool"]


def test_a_schema_that_depends_on_settings_is_left_to_the_call() -> None:
    assert only(look('// rrext tool paint {"size": 3}')).sound


def test_of_very_many_calls_only_the_first_are_looked_at_and_that_is_told() -> None:
    analysis = look("// rrext tool wait\n" * (MAX_CALL_LINES + 5))
    assert len(analysis.calls.lines) == MAX_CALL_LINES
    assert [(code, marked) for code, marked, _ in told(analysis)] == [("invalid_call", "rrext tool wait")]


PIECES = 'rrext tool |// |/* | */|{|}|[|,|:|"|\'|"a"|write|--node |7|rrext send x|rrext chat |null|\\|/|😀|\u2028|\ufeff'
WORDS = st.sampled_from([*PIECES.split("|"), "\n", "\r\n", "\ud800"])


@given(st.lists(WORDS, max_size=40).map("".join), st.lists(WORDS, max_size=20).map("".join))
@example('// rrext tool write {"a', "")
@example("/* rrext tool write {\n// rrext tool", "")
def test_any_text_is_survived_and_every_place_is_inside_of_it(inside: str, outside: str) -> None:
    analysis = look(inside, outside)
    for line in analysis.calls.lines:
        assert analysis.text.startswith("rrext", line.span[0])
        assert line.span[0] < line.span[1] <= len(analysis.text)
    for problem in analysis.calls.problems:
        start, end = analysis.map.span_of(problem)
        assert 0 <= start <= end <= len(analysis.text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(string.printable + "äß😀", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(string.ascii_letters, max_size=5), JSON, max_size=4), st.booleans(), st.sampled_from(["\n", "\r\n"])
)
def test_every_object_that_json_can_hold_is_read_back_from_comments(value: Any, many: bool, end: str) -> None:
    written = json.dumps(value, indent=2 if many else None).replace("*/", "*\\/")
    comment = f"// rrext tool paint {written}".replace("\n", f"{end}//")
    assert only(look(comment + end)).input == value
    assert only(look(f"/* rrext tool paint {written} */")).input == value
