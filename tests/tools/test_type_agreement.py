"""Published schema, structurer and an oracle of the tests' own agree on which inputs a tool takes, and on what it gets."""

from __future__ import annotations

import math
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from type_oracle import Refused, expected, hints, values_of

from rrext.errors import InvalidArguments
from rrext.limits import DEFAULTS
from rrext.tools.decorator import tool_function
from rrext.tools.spec import ToolRegistry, ToolSpec

pytestmark = pytest.mark.promise("tool:schema:agrees")


def tool_taking(hint: Any) -> ToolSpec:
    def take(x):
        return x

    take.__annotations__ = {"x": hint}
    return ToolRegistry().add(tool_function(take))


class Base64:
    """`contentEncoding`, asserted as protocol.md says, for a validator that is not ours."""

    def __init__(self, parent_schema: Any, value: Any, schema_path: Any) -> None:
        self.value = value

    def validate(self, instance: Any) -> None:
        if isinstance(instance, str):
            expected(bytes, instance)


def accepts(schema: dict[str, Any], value: Any) -> bool:
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True, keywords={"contentEncoding": Base64})
    return validator.is_valid(value)


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if hasattr(left, "__dict__") or hasattr(left, "__slots__") or isinstance(left, msgspec.Struct):
        names = [name for name in dir(left) if name[:1] in "fg" and len(name) <= 2]
        return left == right and all(same(getattr(left, name), getattr(right, name)) for name in names)
    return left == right


def is_in_strict_form(value: Any) -> bool:
    """Whether a value has a null in an object, or JSON text of an object: strict function calling sends them, so calls accept
    them where the schema does not."""
    if isinstance(value, dict):
        return None in value.values() or any(map(is_in_strict_form, value.values()))
    if isinstance(value, list):
        return any(map(is_in_strict_form, value))
    return isinstance(value, str) and value.strip().startswith("{")


@given(st.data())
def test_schema_structurer_and_oracle_agree(data: st.DataObject) -> None:
    hint = data.draw(hints)
    spec = tool_taking(hint)
    schema = spec.describe(None)["inputSchema"]
    for _ in range(4):
        value = data.draw(values_of(hint))
        try:
            wanted = expected(hint, value)
        except Refused:
            assert not accepts(schema, {"x": value}), "the schema takes what the type does not"
            if is_in_strict_form(value):
                continue
            with pytest.raises(InvalidArguments) as caught:
                spec.structure(None, {"x": value}, DEFAULTS)
            paths = [problem["path"] for problem in caught.value.data["errors"]]
            assert paths, "a refusal says where"
            assert all(path.startswith("/input/x") for path in paths)
        except OverflowError:
            assert accepts(schema, {"x": value})
        else:
            assert accepts(schema, {"x": value}), "the type takes what the schema does not"
            assert same(spec.structure(None, {"x": value}, DEFAULTS)["x"], wanted)


@given(hints)
def test_a_schema_is_closed_at_its_root_and_free_of_references(hint: Any) -> None:
    schema = tool_taking(hint).describe(None)["inputSchema"]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["x"]
    assert b'"$ref"' not in msgspec.json.encode(schema)
    jsonschema_rs.meta.validate(schema)


@given(st.integers(min_value=10**309, max_value=10**320))
def test_an_integer_beyond_every_float_is_still_a_number(huge: int) -> None:
    assert tool_taking(float).structure(None, {"x": huge}, DEFAULTS) == {"x": huge}


@pytest.mark.parametrize(("sent", "got"), [(1.0, 1), (1e3, 1000), (-0.0, 0), (2**70, 2**70)])
def test_a_number_without_fraction_is_an_integer_at_any_depth(sent: Any, got: int) -> None:
    for hint, wrap in (
        (int, lambda v: v),
        (list[int], lambda v: [1, v]),
        (dict[str, list[int]], lambda v: {"k": [v]}),
        (tuple[str, int], lambda v: ["a", v]),
        (int | None, lambda v: v),
        (int | str, lambda v: v),
    ):
        found = tool_taking(hint).structure(None, {"x": wrap(sent)}, DEFAULTS)["x"]
        assert repr(found) == repr(type(found)(wrap(got)) if isinstance(found, tuple) else wrap(got))


@pytest.mark.parametrize("value", [True, False, 1.5, "1", None, math.pi, [1]])
def test_nothing_else_is_an_integer(value: Any) -> None:
    with pytest.raises(InvalidArguments):
        tool_taking(int).structure(None, {"x": value}, DEFAULTS)


@pytest.mark.parametrize("text", ["2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z"])
def test_a_moment_that_python_cannot_hold_is_refused_by_schema_and_structurer_alike(text: str) -> None:
    from datetime import datetime

    from rrext.tools.validation import SchemaValidator

    spec = tool_taking(datetime)
    assert not SchemaValidator(spec.describe(None)["inputSchema"]).fits({"x": text})
    with pytest.raises(InvalidArguments, match="date-time"):
        spec.structure(None, {"x": text}, DEFAULTS)
