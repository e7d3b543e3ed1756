"""`null` for what may be left out is absence, everywhere in an input; JSON text stands for an open object."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext import InvalidArguments, tool_function
from rrext.limits import DEFAULTS
from rrext.tools.spec import ToolRegistry, ToolSpec
from rrext.tools.validation import SchemaValidator

pytestmark = pytest.mark.promise("tool:null:absent")


def tool(function: Any, **options: Any) -> ToolSpec:
    return ToolRegistry().add(tool_function(**options)(function) if options else tool_function(function))


def got(spec: ToolSpec, input: Any) -> dict[str, Any]:
    return spec.structure(None, input, DEFAULTS)


class Filter(TypedDict):
    name: str
    limit: NotRequired[int]
    below: NotRequired[list[Filter]]
    note: NotRequired[str | None]


@dataclasses.dataclass
class Page:
    number: int
    size: int = 10


class Sun(msgspec.Struct, tag="sun"):
    heat: int = 1


class Rain(msgspec.Struct, tag="rain"):
    depth: int = 2
    where: str | None = "here"


def test_null_for_an_optional_parameter_is_its_absence_and_the_caller_s_input_stays() -> None:
    def take(text: str, limit: int = 3, flag: bool = False, name: str = "x"):
        raise NotImplementedError

    sent = {"text": "a", "limit": None, "flag": None, "name": "n"}
    assert got(tool(take), sent) == {"text": "a", "name": "n"}
    assert sent == {"text": "a", "limit": None, "flag": None, "name": "n"}


def test_null_stays_null_for_a_parameter_whose_type_takes_it() -> None:
    def take(a: int | None = 3, b: Any = 4, c: Literal["x", None] = "x"):
        raise NotImplementedError

    assert got(tool(take), {"a": None, "b": None, "c": None}) == {"a": None, "b": None, "c": None}


def test_null_for_a_required_parameter_is_refused_with_its_path() -> None:
    def take(text: str, limit: int = 3):
        raise NotImplementedError

    with pytest.raises(InvalidArguments, match="/input/text: expected string, got null"):
        got(tool(take), {"text": None, "limit": None})


def test_null_is_absence_in_objects_inside_lists_unions_and_recursive_types_too() -> None:
    def take(filters: list[Filter], page: Page, weather: Sun | Rain | None = None, by_name: dict[str, Page] | None = None):
        raise NotImplementedError

    below = {"name": "b", "limit": None, "below": None, "note": None}
    found = got(
        tool(take),
        {
            "filters": [{"name": "a", "limit": None, "below": [below], "note": "n"}],
            "page": {"number": 1, "size": None},
            "weather": {"type": "rain", "depth": None, "where": None},
            "by_name": {"k": {"number": 2, "size": None}},
        },
    )
    assert found == {
        "filters": [{"name": "a", "below": [{"name": "b", "note": None}], "note": "n"}],
        "page": Page(1, 10),
        "weather": Rain(2, None),
        "by_name": {"k": Page(2, 10)},
    }


def test_the_schema_of_an_author_and_the_annotations_beside_it_have_the_same_rule() -> None:
    schema = {"type": "object", "properties": {"a": {"type": ["integer", "null"]}, "b": {"type": "string"}}}

    def take(a: int = 5, b: str = "x"):
        raise NotImplementedError

    assert got(tool(take, input_schema=schema), {"a": None, "b": None}) == {}


def test_null_in_a_free_object_or_list_is_data() -> None:
    def take(options: dict[str, Any], things: list, limit: int = 3):
        raise NotImplementedError

    assert got(tool(take), {"options": {"a": None}, "things": [None], "limit": None}) == {
        "options": {"a": None},
        "things": [None],
    }


def test_json_text_stands_for_an_open_object() -> None:
    def take(options: dict[str, Any], maybe: dict[str, int] | None = None):
        raise NotImplementedError

    assert got(tool(take), {"options": '{"a": [1, null]}', "maybe": '{"n": 1}'}) == {
        "options": {"a": [1, None]},
        "maybe": {"n": 1},
    }
    for text in ("", "[1]", "{", "null", "\ud800"):
        with pytest.raises(InvalidArguments, match="/input/options: expected object, got string|expected JSON"):
            got(tool(take), {"options": text})
    with pytest.raises(InvalidArguments, match="/input/maybe/n: expected integer, got string"):
        got(tool(take), {"options": {}, "maybe": '{"n": "1"}'})


def test_text_stays_text_where_a_text_is_accepted() -> None:
    def take(either: str | dict[str, Any], page: str = ""):
        raise NotImplementedError

    assert got(tool(take), {"either": '{"a": 1}', "page": None}) == {"either": '{"a": 1}'}


def test_input_that_fits_is_not_read_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(filters: list[Filter], limit: int = 3):
        raise NotImplementedError

    def refuse(self: SchemaValidator, value: Any) -> Any:
        raise AssertionError("read again")

    monkeypatch.setattr(SchemaValidator, "meant", refuse)
    spec = tool(take)
    assert got(spec, {"filters": [{"name": "a", "note": None}], "limit": 2})["limit"] == 2


def test_a_reference_that_leads_nowhere_or_to_itself_is_read_as_it_is() -> None:
    for schema in ({"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"$ref": "other.json"}, {"anyOf": [{"$ref": "#"}]}):
        root = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"x": schema}}
        assert SchemaValidator(root).meant({"x": {"y": None}}) == {"x": {"y": None}}


@given(
    st.recursive(
        st.none() | st.text(max_size=3) | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    )
)
def test_a_value_without_meaning_of_its_own_is_the_same_object(value: Any) -> None:
    assert SchemaValidator({"properties": {"x": {}, "y": {"type": "array", "items": {}}}}).meant({"x": value}) == {"x": value}
