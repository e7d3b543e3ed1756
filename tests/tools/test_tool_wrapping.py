"""A wrapped tool: other name, fixed arguments, narrower parameters, another predicate. The tool itself stays as it is."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext import Node, ToolContext, tool_function
from rrext.errors import InvalidArguments
from rrext.limits import DEFAULTS
from rrext.tools.decorator import ToolOptions
from rrext.tools.narrowed_spec import narrowed_schema, narrowing_problems, why_nothing_fits
from rrext.tools.spec import ToolSpec
from rrext.tools.validation import SchemaValidator

pytestmark = pytest.mark.promise("tools:wrapped:both-hold")


class Store(Node):
    @tool_function(available=lambda ctx: ctx.user_id is not None, timeout=5)
    def query(self, sql: str, rows: int = 10, order: Literal["up", "down"] = "up") -> dict[str, Any]:
        """Ask the store.

        Args:
            rows: How many.
        """
        return {"sql": sql, "rows": rows, "order": order}

    @tool_function(
        input_schema={
            "type": "object",
            "properties": {"sql": {"type": "string", "pattern": "^SELECT"}, "rows": {"type": "integer", "maximum": 100}},
            "required": ["sql"],
        }
    )
    def whole(self, request: dict[str, Any]) -> dict[str, Any]:
        return request

    @tool_function(input_schema=lambda node: {"type": "object", "properties": {"k": {"enum": list(node.kinds)}}})
    def dynamic(self, k: str = "a") -> str:
        return k

    kinds = "ab"


QUERY, WHOLE, DYNAMIC = (Store.tools[name] for name in ("query", "whole", "dynamic"))


def call(spec: ToolSpec, input: Any) -> Any:
    node = Store()
    return spec.call(node, spec.structure(node, input, DEFAULTS), None)


def paths(spec: ToolSpec, input: Any) -> list[str]:
    with pytest.raises(InvalidArguments) as caught:
        spec.structure(Store(), input, DEFAULTS)
    return [error["path"] for error in caught.value.data["errors"]]


def test_fixed_arguments_leave_the_schema_and_reach_the_tool() -> None:
    wrapped = QUERY.replace(name="sales", description="Sales.", arguments={"sql": "SELECT 1"})
    described = wrapped.describe(None)
    assert (described["name"], described["description"]) == ("sales", "Sales.")
    assert list(described["inputSchema"]["properties"]) == ["rows", "order"]
    assert "required" not in described["inputSchema"]
    assert call(wrapped, {"rows": 2}) == {"sql": "SELECT 1", "rows": 2, "order": "up"}
    assert call(wrapped, None) == {"sql": "SELECT 1", "rows": 10, "order": "up"}
    assert list(QUERY.describe(None)["inputSchema"]["properties"]) == ["sql", "rows", "order"]
    assert call(QUERY, {"sql": "x"})["sql"] == "x"


@pytest.mark.parametrize("spec", [QUERY, WHOLE])
def test_a_fixed_argument_cannot_be_given(spec: ToolSpec) -> None:
    assert paths(spec.replace(arguments={"sql": "SELECT 1"}), {"sql": "SELECT 1"}) == ["/input/sql"]


def test_a_narrower_parameter_holds_besides_the_original_one() -> None:
    wrapped = WHOLE.replace(parameters={"sql": {"pattern": "sales", "description": "Only sales."}, "rows": {"minimum": 5}})
    assert call(wrapped, {"sql": "SELECT sales", "rows": 7}) == {"sql": "SELECT sales", "rows": 7}
    assert paths(wrapped, {"sql": "SELECT x"}) == ["/input/sql"]
    assert paths(wrapped, {"sql": "sales"}) == ["/input/sql"]
    assert paths(wrapped, {"sql": "SELECT sales", "rows": 4}) == ["/input/rows"]
    assert paths(wrapped, {"sql": "SELECT sales", "rows": 101}) == ["/input/rows"]
    shown = wrapped.describe(None)["inputSchema"]["properties"]
    assert shown["rows"] == {"type": "integer", "maximum": 100, "minimum": 5}
    assert shown["sql"]["description"] == "Only sales."


@pytest.mark.parametrize("form", [True, {}, {"type": ["integer", "null"]}, {"enum": [1, 2]}, {"type": "number"}])
def test_a_parameter_of_any_form_can_be_fixed_beside_others(form: Any) -> None:
    schema = {"type": "object", "properties": {"a": form, "b": form}, "additionalProperties": False}
    options = ToolOptions(name="outside", description="Of a server.", input_schema=schema, takes_input=True)
    tool = ToolSpec(lambda input: input, options, owner=None, bound=False)
    wrapped = tool.replace(arguments={"a": 1})
    assert narrowing_problems(tool.plan(None), {"a": 1}, {}, DEFAULTS) == []
    assert call(wrapped, {"b": 2}) == {"a": 1, "b": 2}
    assert paths(wrapped, {"c": 2}) == ["/input/c"]


def test_a_wrapper_of_a_wrapper_keeps_both() -> None:
    twice = WHOLE.replace(arguments={"rows": 9}).replace(name="again", parameters={"sql": {"maxLength": 9}})
    assert call(twice, {"sql": "SELECT 1"}) == {"sql": "SELECT 1", "rows": 9}
    assert paths(twice, {"sql": "SELECT 1234"}) == ["/input/sql"]
    assert paths(twice, {"sql": "SELECT 1", "rows": 9}) == ["/input/rows"]


def test_a_schema_of_the_node_is_narrowed_as_the_node_has_it() -> None:
    wrapped, node = DYNAMIC.replace(parameters={"k": {"enum": ["b", "c"]}}), Store()
    assert wrapped.structure(node, {"k": "b"}, DEFAULTS) == {"k": "b"}
    node.kinds = "ac"
    with pytest.raises(InvalidArguments):
        wrapped.structure(node, {"k": "b"}, DEFAULTS)
    assert wrapped.structure(node, {"k": "c"}, DEFAULTS) == {"k": "c"}


def test_nothing_fixed_and_nothing_narrowed_is_the_same_kind_of_tool() -> None:
    assert type(QUERY.replace(name="other", arguments={}, parameters={}, timeout=3)) is ToolSpec


def test_the_shorter_timeout_holds() -> None:
    assert QUERY.replace(timeout=3).timeout == 3
    assert QUERY.replace(timeout=30).timeout == 5
    assert WHOLE.replace(timeout=30).timeout == 30
    assert WHOLE.replace(name="other").timeout is None


def test_a_wrapper_never_shows_what_the_tool_hides() -> None:
    wrapped = QUERY.replace(available=lambda ctx: ctx.space_id == "s")
    seen = {(user, space): wrapped.is_available(Store(), ToolContext(user_id=user, space_id=space))
            for user in (None, "ada") for space in (None, "s")}  # fmt: skip
    assert [key for key, may in seen.items() if may] == [("ada", "s")]
    assert QUERY.is_available(Store(), ToolContext(user_id="ada"))


def test_what_cannot_be_fixed_or_narrowed_is_told() -> None:
    found = narrowing_problems(
        QUERY.plan(None), {"sqll": 1, "rows": "many"}, {"ordr": {}, "order": {"type": "strin"}}, DEFAULTS
    )
    assert [(path, list(near)) for path, _, near in found] == [
        (("arguments", "sqll"), ["sql"]),
        (("parameters", "ordr"), ["order"]),
        (("arguments", "rows"), []),
        (("parameters", "order"), []),
    ]


def test_the_schema_of_a_tool_is_compiled_once_however_often_it_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[SchemaValidator] = []
    really = SchemaValidator._compiled
    monkeypatch.setattr(
        SchemaValidator, "_compiled", lambda self, *, content: compiled.append(self) or really(self, content=content)
    )
    tool = QUERY.replace()
    for _ in range(5):
        narrowing_problems(tool.plan(None), {"order": "wrong"}, {}, DEFAULTS)
    assert len(set(compiled)) == 1
    assert tool.describe(None)["inputSchema"] is tool.plan(None).schema


def test_wrappers_of_a_tool_with_a_schema_share_its_plan_without_a_look_at_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = WHOLE.plan(None)
    monkeypatch.setattr("rrext.tools.spec.encode_json", None)
    assert WHOLE.replace(name="other").plan(None) is plan


@pytest.mark.parametrize(
    ("narrower", "beside", "path"),
    [
        (False, True, ()),
        ({"enum": []}, True, ("enum",)),
        ({"exclusiveMinimum": 3, "maximum": 3}, True, ("exclusiveMinimum",)),
        ({"maxItems": 1}, {"minItems": 2}, ("maxItems",)),
        ({"type": "string"}, {"$ref": "#/$defs/A"}, ("type",)),
        ({"const": "x", "type": "integer"}, True, ("const",)),
        ({"enum": [7, "x"]}, {"$ref": "#/$defs/A", "maximum": 5}, ("enum",)),
        ({"allOf": [{"minLength": 5}, {"maxLength": 2}]}, True, ("allOf", 0, "minLength")),
        ({"required": ["a", "b"]}, {"properties": {"a": {}}, "additionalProperties": False}, ("required", 1)),
        ({"additionalProperties": False}, {"required": ["b"]}, ("additionalProperties",)),
        ({"properties": {"a": {"minimum": 9}}}, {"required": ["a"], "properties": {"a": {"maximum": 5}}},
         ("properties", "a", "minimum")),
    ],
)  # fmt: skip
def test_a_schema_that_admits_nothing_says_where(narrower: Any, beside: Any, path: Any) -> None:
    assert next(iter(why_nothing_fits(narrower, beside, {"A": {"type": ["integer", "null"]}})))[0] == path


@pytest.mark.parametrize(
    ("narrower", "beside"),
    [
        ({}, True),
        ({"minimum": 3, "maximum": 3}, True),
        ({"type": "number"}, {"type": "integer"}),
        ({"enum": [1, "x"]}, {"type": "integer"}),
        ({"required": ["b"], "patternProperties": {"^b": {}}, "additionalProperties": False}, True),
        ({"properties": {"a": False}}, True),
        ({"type": ["integer", "null"], "minimum": 5, "maximum": 3}, True),
        ({"maxLength": 1}, {"type": ["string", "integer"], "minLength": 2}),
        ({"enum": [1, "x"], "minimum": 2, "maximum": 0}, True),
        ({"required": ["a"], "additionalProperties": False}, {"type": ["object", "array"]}),
        ({"properties": {"a": False}, "const": 0}, {"type": "number", "required": ["a"]}),
        ({"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}),
        ({"enum": [[]], "type": 5, "required": 7, "properties": [], "allOf": {}, "minimum": "x"}, True),
        ({"const": 1, "pattern": "["}, True),
    ],
)
def test_a_schema_that_may_admit_something_is_left_alone(narrower: Any, beside: Any) -> None:
    assert list(why_nothing_fits(narrower, beside, {"A": {"$ref": "#/$defs/A"}})) == []


keyword = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["integer", "string", ["integer", "string"], "array"]),
        "minimum": st.integers(0, 5),
        "maximum": st.integers(3, 9),
        "enum": st.lists(st.sampled_from([1, 4, 7, "a", "bcd"]), min_size=1, unique=True),
        "minLength": st.integers(0, 3),
        "items": st.sampled_from([{"type": "integer"}, {"type": "string"}]),
        "prefixItems": st.just([{"type": "string"}]),
        "description": st.text(max_size=3),
        "not": st.just({"const": 4}),
    },
)


@given(keyword, keyword, st.sampled_from([0, 1, 4, 7, 9, "", "a", "bcd", [], ["x"], ["x", 1], [1]]))
def test_the_published_schema_accepts_exactly_what_both_accept(one: Any, other: Any, value: Any) -> None:
    original = {"type": "object", "properties": {"x": one}}
    published = narrowed_schema(original, {}, {"x": other})
    fits = [SchemaValidator(schema).fits({"x": value}) for schema in (original, {"properties": {"x": other}}, published)]
    assert fits[2] is (fits[0] and fits[1])
