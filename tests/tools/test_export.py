"""Tools in the formats of vendors: every built-in tool, and one with awkward types, keeps each vendor's documented rules, and a
call accepts what its strict schema accepts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from enum import Enum
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vendor_rules import RULES, broken_rules, schemas_in

from rrext.errors import InvalidArguments
from rrext.limits import DEFAULTS
from rrext.nodes import BUILTIN
from rrext.tools.decorator import tool_function
from rrext.tools.export import ExportedTool, exporter, shortened
from rrext.tools.spec import ToolRegistry, ToolSpec

pytestmark = pytest.mark.promise("tool:formats:accepted")


class Tree(TypedDict):
    """A tree of names."""

    name: str
    children: NotRequired[list[Tree]]


class Circle(TypedDict):
    kind: Literal["circle"]
    radius: float
    label: NotRequired[str]


class Box(TypedDict):
    kind: Literal["box"]
    sides: tuple[float, float]


class Place(msgspec.Struct):
    city: str
    lines: list[str] = []
    zip: str = ""


class Span(NamedTuple):
    begin: int
    end: int = 9


FIRST = Span(1)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@tool_function
def awkward(
    anything: Any,
    named: dict[str, Any],
    counts: dict[str, int],
    things: list,
    pair: tuple[int, str],
    colour: Colour,
    raw: bytes,
    moment: datetime,
    tree: Tree,
    where: Place,
    shape: Circle | Box,
    either: str | dict[str, Any],
    number: int | float,
    many: tuple[Place, ...] = (),
    day: date | None = None,
    maybe: dict[str, Any] | None = None,
    span: Span = FIRST,
    depth: Annotated[int, msgspec.Meta(ge=1, le=5, description="How deep.")] = 3,
    mode: Literal["fast", "slow", 3, None] = "fast",
    flag: bool = True,
    name: str | None = None,
) -> None:
    """Do much."""


def spec_of(function: Any) -> ToolSpec:
    return ToolRegistry().add(function)


def exported(spec: ToolSpec, format: str) -> dict[str, Any]:
    described = spec.describe(None)
    return exporter(format)(ExportedTool(spec.name, "node_1", described, spec.chunks_described))


def builtin_tools() -> Iterator[tuple[str, ToolSpec]]:
    for provider, place in BUILTIN.items():
        module, _, name = place.partition(":")
        for tool in getattr(import_module(module), name).tools.values():
            yield f"{provider}.{tool.name}", tool


@pytest.mark.parametrize("format", RULES)
def test_every_builtin_tool_keeps_the_rules_of_every_vendor(format: str) -> None:
    problems = {name: broken_rules(format, exported(tool, format)) for name, tool in builtin_tools()}
    assert len(problems) > 100
    assert {name: found for name, found in problems.items() if found} == {}


def test_every_published_array_has_items_and_every_object_is_closed_or_typed() -> None:
    for name, tool in builtin_tools():
        for path, schema in schemas_in(tool.describe(None)["inputSchema"]):
            assert schema.get("type") != "array" or "items" in schema, (name, path)
            assert schema.get("type") != "object" or "additionalProperties" in schema, (name, path)


@pytest.mark.parametrize("format", RULES)
def test_a_tool_with_awkward_types_keeps_the_rules_of_every_vendor(format: str) -> None:
    assert broken_rules(format, exported(spec_of(awkward), format)) == []


def test_no_builtin_description_is_cut() -> None:
    for name, tool in builtin_tools():
        description = tool.describe(None)["description"]
        assert exported(tool, "openai")["function"].get("description", "") == description, name


class StrictValues:
    """Values that a strict schema accepts."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._definitions: dict[str, st.SearchStrategy[Any]] = {}

    def of(self, schema: Any) -> st.SearchStrategy[Any]:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in self._definitions:
                self._definitions[name] = st.deferred(lambda: self._definitions[f"{name} itself"])
                self._definitions[f"{name} itself"] = self.of(self._root["$defs"][name])
            return self._definitions[name]
        if "anyOf" in schema:
            return st.one_of([self.of(member) for member in schema["anyOf"]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return st.one_of([self._of_kind(kind, schema) for kind in kinds])

    def _of_kind(self, kind: str, schema: Any) -> st.SearchStrategy[Any]:
        match kind:
            case "object":
                return st.fixed_dictionaries({name: self.of(part) for name, part in schema["properties"].items()})
            case "array":
                return st.lists(
                    self.of(schema["items"]), min_size=schema.get("minItems", 0), max_size=schema.get("maxItems", 2)
                )
            case "integer":
                return st.integers(schema.get("minimum", -9), schema.get("maximum", 9))
            case "number":
                return st.floats(allow_nan=False, allow_infinity=False)
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
        if schema.get("format") == "date":
            return st.dates().map(str)
        if schema.get("format") == "date-time":
            return st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='seconds')}Z")
        if "In base64." in schema.get("description", ""):
            return st.sampled_from(["", "AAEC"])
        if "A JSON object, as text." in schema.get("description", ""):
            return st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2).map(
                lambda found: msgspec.json.encode(found).decode()
            )
        return st.text(max_size=5)


@tool_function
def takes_all(
    anything: Any,
    named: dict[str, Any],
    counts: dict[str, int],
    things: list,
    colour: Colour,
    raw: bytes,
    moment: datetime,
    tree: Tree,
    where: Place,
    shape: Circle | Box,
    either: str | dict[str, Any],
    pairs: list[tuple[int, int]],
    many: tuple[Place, ...] = (),
    day: date | None = None,
    maybe: dict[str, Any] | None = None,
    depth: Annotated[int, msgspec.Meta(ge=1, le=5)] = 3,
    flag: bool = True,
    name: str | None = None,
) -> None:
    """Take it."""


@given(st.data())
def test_a_call_accepts_every_value_that_its_strict_schema_accepts(data: st.DataObject) -> None:
    spec = spec_of(takes_all)
    function = exported(spec, "openai-strict")["function"]
    assert function["strict"]
    value = data.draw(StrictValues(function["parameters"]).of(function["parameters"]))
    got = spec.structure(None, value, DEFAULTS)
    assert isinstance(got["named"], dict)
    assert isinstance(got["raw"], bytes)
    assert got.get("depth") is not None or "depth" not in got, "null is absence"
    assert isinstance(got["where"].zip, str)


def test_a_strict_schema_shows_defaults_and_requires_nullable_properties() -> None:
    @tool_function
    def find(query: str, limit: int = 10, options: dict[str, Any] | None = None) -> None:
        """Find.

        Args:
            query: What.
            limit: How many.
            options: How.
        """

    assert exported(spec_of(find), "openai-strict") == {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find.",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What."},
                    "limit": {"type": ["integer", "null"], "description": "How many. Default: 10."},
                    "options": {
                        "anyOf": [{"type": "string", "description": "A JSON object, as text."}, {"type": "null"}],
                        "description": "How.",
                    },
                },
                "required": ["query", "limit", "options"],
                "additionalProperties": False,
            },
        },
    }


def test_a_schema_without_strict_form_is_exported_as_not_strict() -> None:
    schema = {"properties": {"x": {"allOf": [{"type": "integer"}, {"minimum": 2}]}}}

    @tool_function(input_schema=schema)
    def take(x: int) -> None:
        """Take."""

    function = exported(spec_of(take), "openai-strict")["function"]
    assert function["strict"] is False
    assert function["parameters"]["properties"] == schema["properties"]


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [f"{n:060}" for n in range(260)]},
        {"enum": list(range(1001))},
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5001)}},
        {"enum": ["x" * 120_001]},
        {"$ref": "#/$defs/nobody"},
    ],
)
def test_a_schema_beyond_the_limits_of_strict_calling_is_exported_as_not_strict(schema: dict[str, Any]) -> None:
    @tool_function(input_schema={"type": "object", "properties": {"x": schema}})
    def take(x: Any = None) -> None:
        """Take."""

    if "$ref" not in schema:
        assert exported(spec_of(take), "openai-strict")["function"]["strict"] is False
        return
    described = {"name": "take", "description": "Take.", "inputSchema": {"type": "object", "properties": {"x": schema}}}
    assert exporter("openai-strict")(ExportedTool("take", "n", described))["function"]["strict"] is False


def test_deep_nesting_is_not_strict_and_ten_levels_are() -> None:
    def nested(levels: int) -> dict[str, Any]:
        inner = {"type": "string"} if levels == 0 else nested(levels - 1)
        return {"type": "object", "properties": {"x": inner}, "required": ["x"], "additionalProperties": False}

    for levels, is_strict in ((8, True), (10, False)):
        described = {"name": "take", "description": "", "inputSchema": nested(levels)}
        assert exporter("openai-strict")(ExportedTool("take", "n", described))["function"]["strict"] is is_strict


def test_an_author_s_schema_is_exported_without_keywords_that_vendors_refuse_at_the_root() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array"}, "b": {}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }

    @tool_function(input_schema=schema)
    def take(a: Any = None, b: Any = None) -> None:
        """Take."""

    spec = spec_of(take)
    for format in RULES:
        assert broken_rules(format, exported(spec, format)) == []
    with pytest.raises(InvalidArguments):
        spec.structure(None, {}, DEFAULTS)


def test_mcp_entries_have_a_title_known_annotations_and_an_output_schema_of_an_object() -> None:
    @tool_function(
        annotations={"readOnlyHint": True, "cost": 3, "title": 4},
        output_schema={"type": "array", "items": {"$ref": "#/$defs/row"}, "$defs": {"row": {"type": "integer"}}},
    )
    def list_rows() -> list[int]:
        """List rows."""
        return []

    entry = exported(spec_of(list_rows), "mcp")
    assert broken_rules("mcp", entry) == []
    assert entry["title"] == "List rows"
    assert entry["annotations"] == {"readOnlyHint": True}
    assert entry["_meta"] == {"rrext/wrapsResult": True}
    from jsonschema_rs import validator_for

    output = validator_for(entry["outputSchema"])
    assert output.is_valid({"result": [1, 2]})
    assert not output.is_valid({"result": ["1"]})
    assert not output.is_valid([1])


def test_an_unknown_format_names_the_near_one() -> None:
    with pytest.raises(
        InvalidArguments, match='/format: unknown format "openai_strict"; did you mean "openai-strict"'
    ) as caught:
        exporter("openai_strict")
    assert caught.value.hint == "one of openai, openai-strict, anthropic, mcp"


@given(st.text(), st.integers(2, 60))
def test_a_shortened_text_is_within_its_limit_and_says_that_it_is_cut(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert short == text or (short.endswith("…") and text.startswith(short[:-2].rstrip()))


def test_a_text_is_cut_between_words() -> None:
    assert shortened("one two three four", 12) == "one two …"
