"""Call lines to begin with: they stand in their component, and nothing but values is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse
from rrext.editor.edits import applied
from rrext.editor.new_call_line import example_input, tool_words, written_line
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.tools.validation import SchemaValidator

AROUND = AnalysisSettings(Catalog(installed=False), Environment())
SCHEMA = {
    "type": "object",
    "required": ["path"],
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
}
FILES = {
    "components": [
        {"id": "webhook_1", "provider": "webhook", "config": {}},
        {
            "id": "files_1",
            "provider": "tool_filesystem",
            "config": {"root": "."},
            "control": [{"classType": "tool", "from": "webhook_1"}],
        },
    ]
}


def look(text: str) -> Analysis:
    return analyse(text, AROUND)


@pytest.mark.parametrize("indent", [None, 2, 4, "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_stands_in_its_component_and_leaves_the_pipeline_as_it_is(indent: Any, end: str) -> None:
    before = look(json.dumps(FILES, indent=indent).replace("\n", end))
    edit = written_line(before, before.by_id["files_1"], tool_words("read_file", SCHEMA))
    after = look(applied(before.text, [edit]))
    (line,) = after.calls.lines
    assert (line.node, line.tool, line.input, line.sound) == ("files_1", "read_file", {"path": ""}, True)
    assert after.loaded.unresolved == before.loaded.unresolved
    assert after.text.count("\n") - before.text.count("\n") == (indent is not None and end != "\r")


def test_the_line_is_indented_like_the_first_key() -> None:
    before = look(json.dumps(FILES, indent=2))
    edit = written_line(before, before.by_id["files_1"], "rrext tool x")
    assert edit.text == "      // rrext tool x\n"
    assert before.text[edit.start :].startswith('      "id": "files_1"')


@pytest.mark.parametrize(
    "component", ['{ "id": "a", "provider": "webhook", "config": {} }', '{ // the first\n"id": "a", "provider": "webhook"}']
)
def test_comments_and_short_objects_are_no_obstacle(component: str) -> None:
    before = look(f'{{"components": [{component}]}}')
    after = look(applied(before.text, [written_line(before, before.drafts[0], "rrext send a.txt")]))
    assert [(line.kind, line.node) for line in after.calls.lines] == [("send", "a")]


def test_without_a_component_the_line_stands_at_the_top() -> None:
    for text in ("\ufeff{}", "{}", "", "[1"):
        before = look(text)
        after = applied(before.text, [written_line(before, None, "rrext chat Who?")])
        assert after.lstrip("\ufeff").startswith("// rrext chat Who?\n")
        assert look(after).calls.lines[0].question == "Who?"


def test_an_example_cannot_end_its_comment_or_hold_half_a_character() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"default": "*/ \ud800"}}}
    before = look('{"components": [{"id": "a"}]}')
    after = look(applied(before.text, [written_line(before, before.drafts[0], tool_words("x", schema))]))
    assert [line.input for line in after.calls.lines] == [{"a": "*/ ?"}]


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {"type": "object"},
        {"type": "object", "required": ["a"], "properties": {"a": {"enum": ["x", "y"]}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"const": 7}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 3}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": ["null", "array"]}}},
        {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "examples": ["e"]}}},
        {"type": "object", "required": ["a"], "properties": {"a": {**SCHEMA}}},
    ],
)
def test_an_example_fits_its_schema(schema: dict[str, Any]) -> None:
    assert SchemaValidator(schema).fits(example_input(schema))


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"properties": 7}, {"type": "object", "required": 3}])
def test_a_schema_of_another_kind_gives_no_example(schema: Any) -> None:
    assert example_input(schema) == {}
