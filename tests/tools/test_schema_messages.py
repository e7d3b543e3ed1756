"""Every keyword of JSON Schema has a sentence of ours, which never repeats the value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext.tools.validation import InvalidSchema, SchemaValidator, pointer

SECRET = "s3cret"
TAGGED = {
    "anyOf": [
        {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"], "type": "object"},
        {"properties": {"kind": {"enum": ["b", "c"]}, "s": {"type": "string"}}, "required": ["kind", "s"], "type": "object"},
        {"type": "null"},
    ]
}


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({"type": ["string", "null"]}, 1, [((), "expected null or string, got integer")]),
        ({"const": {"a": 1}}, SECRET, [((), 'expected {"a":1}')]),
        ({"enum": list(range(30))}, SECRET, [((), f"expected one of {', '.join(map(str, range(20)))} or 10 more")]),
        ({"not": {"type": "string"}}, SECRET, [((), "is what is not allowed here")]),
        (False, SECRET, [((), "nothing is allowed here")]),
        ({"uniqueItems": True}, [SECRET, SECRET], [((), "has equal items")]),
        ({"contains": {"type": "integer"}}, [SECRET], [((), "holds no item of the kind that is needed")]),
        (
            {"oneOf": [{"type": "string"}, {"minLength": 1}]},
            SECRET,
            [((), "fits several alternatives, and only one is allowed")],
        ),
        ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, SECRET, [((), "expected integer or boolean, got string")]),
        ({"items": False}, [SECRET], [((0,), "nothing is allowed here")]),
        (
            {"propertyNames": {"maxLength": 2}},
            {SECRET: 1},
            [((), "a property has a name that is not allowed: expected at most 2 characters")],
        ),
        ({"dependentRequired": {"a": ["b"]}}, {"a": SECRET}, [(("b",), "required property missing: b")]),
        (
            {"properties": {"near": {}}, "unevaluatedProperties": False},
            {"neer": SECRET},
            [(("neer",), 'unexpected property "neer": did you mean "near"?')],
        ),
        ({"minProperties": 2}, {"a": SECRET}, [((), "expected at least 2 properties")]),
        ({"format": "email"}, SECRET, [((), "expected email")]),
        ({"format": "date"}, SECRET, [((), "expected date, like 2026-11-21")]),
        ({"contentEncoding": "base64"}, "?" + SECRET, [((), "expected base64 (RFC 4648, with padding)")]),
        ({"if": {"type": "string"}, "then": {"maxLength": 1}}, SECRET, [((), "expected at most 1 character")]),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 1, [((), "expected at least 3")]),
        (
            {"$defs": {"n": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/n"}}},
            {"x": SECRET},
            [(("x",), "expected integer, got string")],
        ),
        (TAGGED, {"kind": "a", "n": SECRET}, [(("n",), "expected integer, got string")]),
        (TAGGED, {"kind": SECRET}, [(("kind",), 'expected "a", "b" or "c"')]),
        (TAGGED, {"n": 1, "s": "x"}, [(("kind",), "required property missing: kind")]),
        (TAGGED, 5, [((), "expected object or null, got integer")]),
        (
            {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^x"}]},
            SECRET,
            [((), "fits none of the 2 alternatives")],
        ),
    ],
    ids=str,
)
def test_a_keyword_has_its_sentence(schema: Any, value: Any, found: list[Any]) -> None:
    validator = SchemaValidator(schema if isinstance(schema, dict) else {"allOf": [schema]})
    assert not validator.fits(value)
    assert validator.problems(value, 100) == found
    assert validator.problems(value, 1) == found[:1]


keywords = st.sampled_from(
    [
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"minimum": 1},
        {"maxLength": 1},
        {"pattern": "^a"},
        {"enum": [1, "a"]},
        {"const": None},
        {"required": ["a", "b"]},
        {"properties": {"a": {"type": "string"}}},
        {"additionalProperties": False},
        {"items": {"type": "null"}},
        {"prefixItems": [{"type": "null"}], "items": False},
        {"uniqueItems": True},
        {"minItems": 1},
        {"contains": {"const": 1}},
        {"propertyNames": {"const": "a"}},
        {"format": "uuid"},
        {"multipleOf": 2},
        {"maxProperties": 0},
        {"dependentRequired": {"a": ["c"]}},
        {"unevaluatedProperties": False},
        {"unevaluatedItems": False},
        {"not": {}},
        {"contentEncoding": "base64"},
        {"minContains": 2, "contains": {}},
        {"exclusiveMaximum": 0},
    ]
)
schemas = st.recursive(
    keywords,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: {**pair[0], **pair[1]}),
        st.lists(inner, min_size=1, max_size=3).flatmap(
            lambda parts: st.sampled_from(["anyOf", "oneOf", "allOf"]).map(lambda word: {word: parts})
        ),
        inner.map(lambda schema: {"not": schema}),
        inner.map(lambda schema: {"properties": {"a": schema}}),
        inner.map(lambda schema: {"items": schema}),
        st.tuples(inner, inner).map(lambda pair: {"if": pair[0], "then": pair[1], "else": pair[1]}),
    ),
    max_leaves=6,
)
values = st.recursive(
    st.sampled_from([None, True, 1, 1.5, -1, "a", SECRET, "AAAA"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=5,
)


@given(schemas, values)
def test_whatever_does_not_fit_has_a_problem_and_whatever_fits_has_none(schema: dict[str, Any], value: Any) -> None:
    validator = SchemaValidator(schema)
    problems = validator.problems(value, 100)
    assert bool(problems) != validator.fits(value)
    assert all(message and SECRET not in message for _, message in problems)
    assert len(validator.problems(value, 1)) == min(1, len(problems))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/x.json"},
        {"properties": {"a": {"$ref": "file:///x.json"}}},
        {"$schema": "https://example.com/meta.json"},
        {"pattern": "("},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_and_nothing_is_fetched(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchema):
        SchemaValidator(schema).compile()


@given(st.lists(st.text(max_size=5) | st.integers(0, 99)))
def test_a_pointer_can_be_followed(path: list[str | int]) -> None:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer("/input", path).split("/")[2:]]
    assert steps == [str(step) for step in path]


def test_a_pattern_that_takes_too_long_is_said_to() -> None:
    problems = SchemaValidator({"pattern": "(a+)+(?=b)$"}).problems("a" * 5000 + "c", 5)
    assert problems == [((), "cannot be compared with its pattern in due time")]
