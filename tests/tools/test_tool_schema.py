"""What is published of a tool: its schema and texts, golden and whole."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict
from uuid import UUID

import attrs
import msgspec
import pytest
from msgspec import Meta

from rrext import Node, ToolContext, ToolError, tool_function
from rrext.limits import DEFAULTS
from rrext.tools.decorator import ToolDefinitionError
from rrext.tools.spec import ToolRegistry, ToolSpec


def tool(function: Any) -> ToolSpec:
    return ToolRegistry().add(tool_function(function))


def schema_of(hint: Any) -> dict[str, Any]:
    def take(x):
        return x

    take.__annotations__ = {"x": hint}
    return tool(take).describe(None)["inputSchema"]["properties"]["x"]


class Unit(enum.Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@dataclasses.dataclass
class Place:
    """A place on a map.

    Attributes:
        name: What people call it.
    """

    name: str
    height: Annotated[float, Meta(ge=-500)] = 0.0
    labels: list[str] = dataclasses.field(default_factory=list)


@attrs.define
class Person:
    name: str
    _secret: int = 0
    made: int = attrs.field(init=False, default=1)


class Point(msgspec.Struct, rename="camel"):
    first_axis: int
    second_axis: int = 2


class Options(TypedDict, total=False):
    deep: bool


class Query(Options):
    text: str
    limit: NotRequired[Annotated[int, "How many."]]


class Pair(NamedTuple):
    left: int
    right: str = "r"


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)
    parent: Optional[Tree] = None  # noqa: UP045 - both spellings


@dataclasses.dataclass
class Both:
    op: Literal["and"]
    parts: list[Both | Leaf]


@dataclasses.dataclass
class Leaf:
    op: Literal["is", "not"]
    word: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Weather(Node):
    """Current weather."""

    @tool_function
    def forecast(self, city: str, days: int = 3, *, ctx: ToolContext) -> dict:
        """Forecast for a city.

        Args:
            city: Name of the city.
            days: How many days, 1 to 10.
        """
        return {"city": city, "days": days, "node": ctx.node_id}


def test_the_example_of_the_documentation_is_described_whole() -> None:
    assert Weather.tools["forecast"].describe(Weather()) == {
        "name": "forecast",
        "description": "Forecast for a city.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city."},
                "days": {"type": "integer", "description": "How many days, 1 to 10.", "default": 3},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }


def test_keys_come_in_the_order_of_the_signature_every_time() -> None:
    text = msgspec.json.encode(Weather.tools["forecast"].describe(Weather()))
    assert text.index(b'"city"') < text.index(b'"days"')
    assert text == msgspec.json.encode(Weather.tools["forecast"].describe(Weather()))


NAME = NewType("NAME", str)
HERE = Place("x")


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Any, {}),
        (None, {"type": "null"}),
        (bool, {"type": "boolean"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (str, {"type": "string"}),
        (NAME, {"type": "string"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Decimal, {"type": "string", "format": "decimal", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}),
        (list, {"type": "array", "items": {}}),
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (dict, {"type": "object", "additionalProperties": True}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (tuple[()], {"type": "array", "items": False, "minItems": 0, "maxItems": 0}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, "a", None], {"enum": [1, "a", None]}),
        (Unit, {"type": "string", "enum": ["metric", "imperial"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | float, {"type": "number"}),
        (str | int | float, {"anyOf": [{"type": "string"}, {"type": "number"}]}),
        (
            Annotated[int, Meta(ge=1, le=10, description="Days.")],
            {"type": "integer", "minimum": 1, "maximum": 10, "description": "Days."},
        ),
        (Annotated[str, "A name."], {"type": "string", "description": "A name."}),
        (
            Annotated[str, Meta(min_length=1, pattern="^a"), "Twice."],
            {"type": "string", "minLength": 1, "pattern": "^a", "description": "Twice."},
        ),
        (Annotated[list[int], Meta(max_length=3)], {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
        (
            Annotated[int | None, Meta(gt=0)],
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "exclusiveMinimum": 0},
        ),
        (
            Annotated[float, Meta(multiple_of=0.5, title="Half", examples=[1.5], extra_json_schema={"x-unit": "m"})],
            {"type": "number", "multipleOf": 0.5, "title": "Half", "examples": [1.5], "x-unit": "m"},
        ),
        (
            Place,
            {
                "description": "A place on a map.",
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "What people call it."},
                    "height": {"type": "number", "minimum": -500, "default": 0.0},
                    "labels": {"type": "array", "items": {"type": "string"}, "default": []},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        ),
        (
            Person,
            {
                "type": "object",
                "properties": {"name": {"type": "string"}, "secret": {"type": "integer", "default": 0}},
                "required": ["name"],
                "additionalProperties": False,
            },
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {"firstAxis": {"type": "integer"}, "secondAxis": {"type": "integer", "default": 2}},
                "required": ["firstAxis"],
                "additionalProperties": False,
            },
        ),
        (
            Query,
            {
                "type": "object",
                "properties": {
                    "deep": {"type": "boolean"},
                    "text": {"type": "string"},
                    "limit": {"type": "integer", "description": "How many."},
                },
                "required": ["text"],
                "additionalProperties": False,
            },
        ),
        (
            Pair,
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
                "minItems": 1,
                "maxItems": 2,
            },
        ),
    ],
    ids=str,
)
def test_each_type_of_the_grammar_has_its_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


def test_a_recursive_type_is_the_only_one_with_a_reference() -> None:
    def walk(tree: Tree, place: Place):
        return tree

    found = tool(walk).describe(None)["inputSchema"]
    assert found["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert list(found["$defs"]) == ["Tree"]
    assert found["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert "$ref" not in found["properties"]["place"]


def test_a_recursive_input_arrives_as_objects_all_the_way_down() -> None:
    def walk(tree: Tree):
        return tree

    sent = {"tree": {"value": 1, "children": [{"value": 2.0, "children": [{"value": 3}]}], "parent": None}}
    assert tool(walk).structure(None, sent, DEFAULTS) == {"tree": Tree(1, [Tree(2, [Tree(3)])])}


def test_alternatives_are_told_apart_by_a_literal_field_also_inside_themselves() -> None:
    def find(rule: Both | Leaf):
        return rule

    spec = tool(find)
    sent = {"op": "and", "parts": [{"op": "is", "word": "a"}, {"op": "and", "parts": [{"op": "not", "word": "b"}]}]}
    wanted = Both("and", [Leaf("is", "a"), Both("and", [Leaf("not", "b")])])
    assert spec.structure(None, {"rule": sent}, DEFAULTS) == {"rule": wanted}
    with pytest.raises(ToolDefinitionError, match="ambiguous"):
        schema_of(Place | Person)


def test_tagged_structs_are_told_apart_by_their_tag() -> None:
    def pet(animal: Cat | Dog):
        return animal

    spec = tool(pet)
    assert spec.structure(None, {"animal": {"type": "Dog", "tricks": ["sit"]}}, DEFAULTS) == {"animal": Dog(["sit"])}
    assert spec.structure(None, {"animal": {"type": "Cat", "lives": 9.0}}, DEFAULTS) == {"animal": Cat(9)}
    with pytest.raises(Exception, match="required property missing"):
        spec.structure(None, {"animal": {"lives": 9}}, DEFAULTS)


def test_the_annotation_wins_over_the_docstring() -> None:
    def find(a: Annotated[int, "From the annotation."], b: int):
        """Find.

        Args:
            a: From the docstring.
            b: Only here.
        """

    properties = tool(find).describe(None)["inputSchema"]["properties"]
    assert properties["a"]["description"] == "From the annotation."
    assert properties["b"]["description"] == "Only here."


def test_a_default_is_shown_if_a_caller_could_send_it() -> None:
    marker = object()

    def find(
        a: Unit = Unit.METRIC,
        b: int = None,  # type: ignore[assignment]  # noqa: RUF013
        c: str | None = None,
        d: Any = marker,
        e: Place = HERE,
        f: float = float("inf"),
    ):
        return a, b, c, d, e, f

    properties = tool(find).describe(None)["inputSchema"]["properties"]
    shown = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    assert shown == {"a": "metric", "c": None, "e": {"name": "x", "height": 0.0, "labels": []}}
    assert tool(find).structure(None, {}, DEFAULTS) == {}


class Custom:
    pass


@pytest.mark.parametrize(
    ("hint", "says"),
    [
        (set[int], "set"),
        (complex, "complex"),
        (Custom, "Custom"),
        (object, "object"),
        (dict[int, str], "keys that are no str"),
        (str | bytes, "ambiguous: two of its members are a JSON string"),
        (Literal["a"] | str, "ambiguous"),
        (list[int] | tuple[int], "ambiguous"),
        (Any | None, "contains Any"),
        (Literal[b"x"], "neither str, int, bool nor None"),
        (Literal[2**60], "beyond 2"),
        (Annotated[str, Meta(ge=1)], r"Meta\(ge=...\) does not apply to str"),
        (Annotated[bytes, Meta(max_length=3)], "Meta"),
        (Annotated[datetime, Meta(tz=False)], "Meta"),
        (type[int], "type"),
    ],
    ids=str,
)
def test_a_type_outside_of_the_grammar_names_tool_parameter_and_type(hint: Any, says: str) -> None:
    def take(x):
        return x

    take.__annotations__ = {"x": hint}
    spec = tool(take)
    for ask in (lambda: spec.describe(None), lambda: spec.structure(None, {"x": 1}, DEFAULTS)):
        with pytest.raises(ToolDefinitionError, match=says) as caught:
            ask()
        assert "take" in caught.value.message
        assert '"x"' in caught.value.message
        assert isinstance(caught.value, ToolError)


def test_a_field_outside_of_the_grammar_is_named_with_its_class() -> None:
    @dataclasses.dataclass
    class Bad:
        when: complex

    with pytest.raises(ToolDefinitionError, match=r"Bad\.when: complex"):
        schema_of(Bad)


def test_a_bad_pattern_is_the_authors_error_and_not_the_callers() -> None:
    def take(x: Annotated[str, Meta(pattern=r"\d(?a:x)")]):
        return x

    with pytest.raises(ToolDefinitionError, match="take"):
        tool(take).structure(None, {"x": "a"}, DEFAULTS)
