"""The schema of a tool's output follows from a return type that names its fields, and results are held against it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import msgspec
import pytest

from rrext import Content, ToolError
from rrext.limits import DEFAULTS
from rrext.tools.decorator import tool_function
from rrext.tools.spec import collect_tools


@dataclass
class Point:
    x: Annotated[int, msgspec.Meta(ge=0, description="East.")]
    label: str = "none"


@dataclass
class Marked(Point):
    mark: str = "!"


class Moment(msgspec.Struct, rename="camel"):
    begun_at: datetime.datetime
    price: Decimal
    kind: Literal["a", "b"] = "a"


class Row(TypedDict):
    id: int
    inner: NotRequired[list[Point]]


class Tree(TypedDict):
    children: list[Tree]


@attrs.frozen
class Private:
    _hidden: int


class Pair(NamedTuple):
    a: int


class Owner:
    @tool_function
    def point(self) -> Point:
        return Marked(1)

    @tool_function
    async def moment(self) -> Moment:
        return Moment(datetime.datetime(2026, 1, 1), Decimal("1E+2"))

    @tool_function
    def rows(self) -> list[Row]:
        return [{"id": 1}]

    @tool_function
    def wrong(self) -> Row:
        return {"id": "one"}  # type: ignore[typeddict-item]

    @tool_function
    def tree(self) -> Tree:
        return {"children": [{"children": []}]}

    @tool_function
    def private(self) -> Private:
        return Private(1)

    @tool_function(output_schema={"type": "object"})
    def given(self) -> Point:
        return Point(1)

    @tool_function
    def text(self) -> str: ...
    @tool_function
    def table(self) -> dict[str, Any]: ...
    @tool_function
    def numbers(self) -> list[dict[str, int]]: ...
    @tool_function
    def perhaps(self) -> Point | None: ...
    @tool_function
    def blocks(self) -> Content: ...
    @tool_function
    def either(self) -> Point | Content: ...
    @tool_function
    def unknown(self) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821
    @tool_function
    def foreign(self) -> pytest.Item: ...
    @tool_function
    def pair(self) -> Pair: ...
    @tool_function
    def free(self): ...


SPECS = collect_tools(Owner)
POINT = {"type": "object", "properties": {"x": {"type": "integer", "description": "East."}, "label": {"type": "string"}}}


def test_a_class_with_fields_is_the_schema_of_the_output() -> None:
    assert SPECS["point"].describe(Owner())["outputSchema"] == {**POINT, "required": ["x"]}
    moment = SPECS["moment"].describe(Owner())["outputSchema"]
    assert moment["properties"]["begunAt"] == moment["properties"]["price"] == {"type": "string"}
    assert moment["properties"]["kind"]["enum"] == ["a", "b"]
    rows = SPECS["rows"].describe(Owner())["outputSchema"]
    assert rows["items"]["properties"]["inner"] == {"type": "array", "items": {**POINT, "required": ["x"]}}
    assert SPECS["given"].describe(Owner())["outputSchema"] == {"type": "object"}


@pytest.mark.parametrize("name", ["point", "moment", "rows", "tree", "private"])
async def test_what_fits_the_type_fits_the_schema(name: str) -> None:
    spec = SPECS[name]
    value = spec.call(Owner(), {}, None)
    assert spec.encode(Owner(), await value if spec.kind == "async" else value, DEFAULTS)


def test_a_result_that_breaks_its_type_is_a_failure() -> None:
    with pytest.raises(ToolError, match="output_schema: /id"):
        SPECS["wrong"].encode(Owner(), Owner().wrong(), DEFAULTS)


@pytest.mark.parametrize(
    "name",
    ["text", "table", "numbers", "perhaps", "blocks", "either", "unknown", "foreign", "pair", "free", "private"],
)
def test_any_other_type_says_no_schema(name: str) -> None:
    assert "outputSchema" not in SPECS[name].describe(Owner())
