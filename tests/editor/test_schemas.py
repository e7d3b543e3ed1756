"""Schemas in words: types, bounds and the parameters of tools, also of schemas that somebody wrote by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.editor.page import json_text
from rrext.editor.schemas import (
    bounds_text,
    example_of,
    field_at,
    parameters_of,
    schema_at,
    schemas_at,
    signature_of,
    type_text,
)

DEEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "list": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "either": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"x": {"type": "boolean"}}}]},
        "any": {},
        "closed": {"type": "object", "properties": {}, "additionalProperties": False},
    },
    "$defs": {"Item": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Item"}, "n": {"enum": [1, 2]}}}},
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "date"}, "text (date)"),
        ({"type": "boolean"}, "true or false"),
        ({"enum": ["a", "b", None]}, '"a" or "b" or null'),
        ({"enum": list(range(14))}, "0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 9 or 10 or 11 or 2 more"),
        ({"const": 3}, "3"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}, {"type": "integer"}]}, "integer or null"),
        ({"type": "array", "items": {"type": "number"}}, "list of number"),
        ({"type": "array"}, "list"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of text"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"$ref": "#/$defs/Item"}, "Item"),
        ({}, "any JSON"),
        (True, "any JSON"),
    ],
)
def test_types_are_told_in_words(schema: Any, text: str) -> None:
    assert type_text(schema, {}) == text


def test_bounds_are_told_in_words() -> None:
    assert bounds_text({"minimum": 1, "maximum": 2, "multipleOf": 1}) == "at least 1, at most 2, a multiple of 1"
    assert bounds_text({"minLength": 1, "pattern": "^a"}) == "at least 1 characters, matching ^a"
    assert bounds_text({}) == ""


def test_a_signature_shows_what_may_be_left_out() -> None:
    schema = {
        "properties": {"a": {}, "b": {"default": None}, "c": {"default": "x" * 99}, "d": {"default": [1]}, "e": True},
        "required": ["a"],
    }
    assert signature_of("tool", schema) == "tool(a, b=null, c?, d=[1], e?)"
    assert [parameter.required for parameter in parameters_of(schema)] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ((), "object"),
        (("list", "3", "next", "next", "n"), "1 or 2"),
        (("map", "whatever"), "integer"),
        (("either", "x"), "true or false"),
        (("any", "a", "b"), "any JSON"),
        (("closed", "a"), None),
        (("list", "key"), None),
        (("map", "a", "b"), None),
    ],
)
def test_the_schema_of_an_inner_value_is_found(parts: tuple[str, ...], kind: str | None) -> None:
    found = schema_at(DEEP, parts)
    assert (None if found is None else type_text(found, DEEP)) == kind


words = st.sampled_from(["type", "properties", "items", "anyOf", "enum", "required", "$ref", "$defs", "default", "object", "a"])
wild = st.recursive(
    st.none() | st.booleans() | st.integers() | words | st.just("#/$defs/a"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(words, wild, max_size=5), st.lists(words, max_size=4))
def test_whatever_stands_in_a_schema_gives_words(schema: dict[str, Any], parts: list[str]) -> None:
    assert signature_of("t", schema).startswith("t(")
    assert type_text(schema, schema)
    found = schema_at(schema, parts)
    assert found is None or type_text(found, schema)
    assert (found is not None) >= bool(schemas_at(schema, parts))
    assert field_at(schema, parts) is None or found is not None
    example_of(schema, schemas_at(schema, parts))


@given(wild)
def test_json_in_lines_is_the_same_json(value: Any) -> None:
    import json

    assert json.loads(json_text(value)) == value
    assert json.loads(json_text([value, "x" * 120])) == [value, "x" * 120]
