"""Results are strict JSON or failures that say where; `null` is written for None alone."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import math
import threading
import uuid
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rrext import ToolError, tool_function
from rrext.errors import ResultTooLarge
from rrext.limits import DEFAULTS, Limits
from rrext.tools.results import LARGE_TEXT, LARGE_VALUES, JsonText, NotJson, encode_json, plain_json, table_json
from rrext.tools.spec import ToolRegistry, ToolSpec


def tool(function: Any, **options: Any) -> ToolSpec:
    return ToolRegistry().add(tool_function(**options)(function) if options else tool_function(function))


def give():
    return None


GIVE = tool(give)
NAN, INF = math.nan, math.inf


class Colour(enum.Enum):
    RED = "red"


class Broken(enum.Enum):
    NAN = math.nan


@dataclasses.dataclass
class Row:
    cells: Any
    note: str = ""


@attrs.define
class Box:
    content: Any


class Item(msgspec.Struct, rename="camel"):
    first_part: Any
    rest: Any = msgspec.UNSET


class Pair(NamedTuple):
    left: Any
    right: Any


def cycle() -> list[Any]:
    loop: list[Any] = []
    loop.append({"again": loop})
    return loop


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.promise("result:never-null")
@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (NAN, "", "NaN"),
        (-INF, "", "Infinity"),
        ({"a": NAN}, "/a", "NaN"),
        ({"a": None, "b": [1.0, None, INF]}, "/b/2", "Infinity"),
        ([{"x": 1.5}, {"x": NAN}], "/1/x", "NaN"),
        ({"a/b": {"~": [NAN]}}, "/a~1b/~0/0", "NaN"),
        ((1.0, [2.0, (NAN,)]), "/1/1/0", "NaN"),
        ("\ud800", "", "a lone surrogate"),
        ({"a": ["x", "\udfff"]}, "/a/1", "a lone surrogate"),
        ({"\ud800": 1}, "", "a key has a lone surrogate"),
        (cycle(), "/0/again", "contains itself"),
        ({1: "a"}, "", "a key is no string but int"),
        ({"a": {"b": {None: 1}}}, "/a/b", "a key is no string but NoneType"),
        ({"a": {True: 1}}, "/a", "a key is no string but bool"),
        ({"a": {1.5: 1}}, "/a", "a key is no string but float"),
        ({"a": [object()]}, "/a/0", "an object of type object"),
        ({"a": range(3)}, "/a", "an object of type range"),
        (Row({"k": {2: 1}}), "/cells/k", "a key is no string but int"),
        ([Box([NAN])], "/0/content/0", "NaN"),
        (Item({"x": object()}), "/firstPart/x", "an object of type object"),
        (Pair(1, NAN), "/1", "NaN"),
        ({"a": Broken.NAN}, "/a", "NaN"),
        ({"a": decimal.Decimal("NaN")}, "/a", "a decimal that is no number"),
        ({"a": msgspec.Raw(b"NaN")}, "/a", "an object of type Raw"),
        (collections.OrderedDict(a=collections.Counter({3: 1})), "/a", "a key is no string but int"),
        ({"a": {1, "b", b"c", (NAN,)}}, "/a/", "NaN"),
    ],
)
def test_what_json_cannot_hold_fails_with_its_place(value: Any, path: str, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        GIVE.encode(None, value, DEFAULTS)
    assert caught.value.code == "tool_failed"
    assert caught.value.data["path"].startswith(path)
    assert caught.value.data["path"] == path or path.endswith("/")
    assert f"{reason} at {path or 'its root'}" in caught.value.message
    assert '"give"' in caught.value.message


@pytest.mark.promise("result:never-null")
def test_nesting_beyond_all_measure_fails() -> None:
    with pytest.raises(ToolError, match="nested too deeply"):
        GIVE.encode(None, deep(1_000_000), DEFAULTS)  # since Python 3.14, 100,000 levels are none too many for the stack


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ({"a": None, "b": 1.5}, '{"a":null,"b":1.5}'),
        ({"text": "null", "x": [0.5]}, '{"text":"null","x":[0.5]}'),
        (True, "true"),
        (10**30, str(10**30)),
        ("é\n", '"é\\n"'),
        (b"A", '"QQ=="'),
        ({"data": bytearray(b"A")}, '{"data":"QQ=="}'),
        ((1, [2]), "[1,[2]]"),
        ({3}, "[3]"),
        (Colour.RED, '"red"'),
        ({Colour.RED.value: Colour.RED}, '{"red":"red"}'),
        (Row([1]), '{"cells":[1],"note":""}'),
        (Box(Row(None)), '{"content":{"cells":null,"note":""}}'),
        (Item(1), '{"firstPart":1}'),
        (Pair(1, 2), "[1,2]"),
        (datetime.date(2026, 11, 21), '"2026-11-21"'),
        ({"at": datetime.datetime(2026, 11, 21, 9, 30, tzinfo=datetime.UTC)}, '{"at":"2026-11-21T09:30:00Z"}'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (decimal.Decimal("12.50"), '"12.50"'),
        (collections.OrderedDict(a=1), '{"a":1}'),
    ],
    ids=repr,
)
def test_what_json_can_hold_is_written(value: Any, text: str) -> None:
    assert GIVE.encode(None, value, DEFAULTS) == text.encode()
    assert plain_json(value) == msgspec.json.decode(text)


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters()), st.binary(max_size=3),
        st.sampled_from([Colour.RED, object(), 3j, NAN, "\ud800", range(2)]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers(0, 3), st.none()), inner, max_size=4),
        inner.map(Row),
        inner.map(Box),
        inner.map(Item),
    ),
    max_leaves=12,
)  # fmt: skip


def is_json(value: Any) -> bool:
    """What may be written, said once more and simply."""
    if isinstance(value, Row | Box):
        return all(is_json(getattr(value, name)) for name in value.__match_args__)
    if isinstance(value, Item):
        return is_json(value.first_part)
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(key) and is_json(entry) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_json, value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() == value
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | bytes | Colour)


def written(value: Any) -> Any:
    """The JSON value of a good result: msgspec says what classes become, and tuples are arrays."""
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return {key: written(entry) for key, entry in plain.items()}
    if isinstance(plain, list | tuple):
        return [written(entry) for entry in plain]
    return plain


@pytest.mark.promise("result:never-null")
@given(anything)
def test_a_value_is_written_as_it_is_or_not_at_all(value: Any) -> None:
    if is_json(value):
        assert msgspec.json.decode(encode_json(value)) == written(value)
    else:
        with pytest.raises(NotJson):
            encode_json(value)


def test_the_limit_counts_encoded_bytes_and_names_itself() -> None:
    limits = Limits(max_result=10)
    assert GIVE.encode(None, "x" * 8, limits) == b'"xxxxxxxx"'
    with pytest.raises(ResultTooLarge, match=r"give.* 11 bytes: max_result is 10") as caught:
        GIVE.encode(None, "x" * 9, limits)
    assert caught.value.data == {"limit": "max_result", "maximum": 10, "size": 11}


OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}, "at": {"format": "date-time"}}, "required": ["n"]}


def test_results_are_checked_against_the_output_schema() -> None:
    spec = tool(give, output_schema=OUTPUT)
    assert spec.describe(None)["outputSchema"] == OUTPUT
    assert spec.encode(None, {"n": 1.0}, DEFAULTS) == b'{"n":1.0}'
    with pytest.raises(ToolError) as caught:
        spec.encode(None, {"n": "secret", "at": "never"}, DEFAULTS)
    assert caught.value.code == "tool_failed"
    assert caught.value.data["path"] == "/n"
    assert caught.value.data["errors"] == [
        {"path": "/n", "message": "expected integer, got string"},
        {"path": "/at", "message": "expected date-time, like 2026-11-21T09:30:00Z"},
    ]
    assert "secret" not in caught.value.message


def test_the_output_schema_sees_what_the_caller_gets() -> None:
    @dataclasses.dataclass
    class Found:
        n: int

    assert tool(give, output_schema=OUTPUT).encode(None, Found(1), DEFAULTS) == b'{"n":1}'


def test_a_checked_text_is_handed_on_beside_values_that_are_checked() -> None:
    assert encode_json(JsonText(b"[1]")) == b"[1]"
    assert encode_json({"a": [JsonText(b"[1]"), (2,)], "b": 1}) == b'{"a":[[1],[2]],"b":1}'
    with pytest.raises(NotJson, match="/b: NaN"):
        encode_json({"a": JsonText(b"[1]"), "b": NAN})
    with pytest.raises(NotJson, match="/b: an object of type object"):
        encode_json({"a": JsonText(b"[1]"), "b": object()})


def test_one_thread_at_a_time_has_the_value_of_a_large_result_to_check_it() -> None:
    spec, large = tool(give, output_schema={"type": "array", "items": {"type": "integer"}}), [1] * LARGE_TEXT
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(spec.encode(None, large, DEFAULTS)), daemon=True)

    async def on_loop() -> bytes:
        return spec.encode(None, large, DEFAULTS)

    with LARGE_VALUES:
        thread.start()
        assert spec.encode(None, [1], DEFAULTS) == b"[1]"
        assert len(asyncio.run(on_loop())) > LARGE_TEXT, "the loop waits for threads"
        assert not found
    thread.join()
    assert len(found[0]) > LARGE_TEXT


def test_an_unusable_output_schema_is_the_authors_error() -> None:
    with pytest.raises(ToolError, match="give"):
        tool(give, output_schema={"type": "strin"}).encode(None, 1, DEFAULTS)


# generators


def chunks_only():
    yield 1


def chunks_and_value():
    yield "a"
    return 1


def annotated_value() -> Generator[str, None, int]:
    yield "a"
    return 1


def annotated_chunks() -> Iterator[int]:
    yield 1


async def async_chunks():
    yield 1


def bare_return():
    yield 1
    return


def delegating():
    yield from chunks_and_value()


@pytest.mark.parametrize(
    ("function", "described"),
    [
        (chunks_only, True),
        (chunks_and_value, False),
        (annotated_value, False),
        (annotated_chunks, True),
        (async_chunks, True),
        (bare_return, True),
        (delegating, True),
        (give, False),
    ],
)
def test_the_output_schema_describes_the_value_or_the_chunk_of_a_generator_without_one(function: Any, described: bool) -> None:
    spec = tool(function, output_schema={"type": "integer"})
    assert spec.chunks_described is described
    if described:
        assert spec.encode(None, ["list", "of", "chunks"], DEFAULTS)
    else:
        with pytest.raises(ToolError, match="result of tool"):
            spec.encode(None, "x", DEFAULTS)
    with pytest.raises(ToolError, match="chunk of tool"):
        spec.encode_chunk(None, "x", DEFAULTS, checked=True)
    assert spec.encode_chunk(None, "x", DEFAULTS, checked=False) == b'"x"'


def test_a_chunk_is_strict_json_and_bounded_too() -> None:
    spec = tool(chunks_only)
    with pytest.raises(ToolError, match=r"chunk of tool .* NaN at /0"):
        spec.encode_chunk(None, [NAN], DEFAULTS, checked=False)
    with pytest.raises(ResultTooLarge, match="chunk"):
        spec.encode_chunk(None, "xxx", Limits(max_result=4), checked=False)


@pytest.mark.parametrize("size", [0, 1, 16, 17, 1000])
def test_dicts_of_every_size_are_checked(size: int) -> None:
    plain = {f"k{n}": n for n in range(size)}
    assert encode_json(plain) == msgspec.json.encode(plain)
    for bad in ({**plain, "x": NAN}, {**plain, 5: 1}, {**plain, "x": {"y": [NAN]}}):
        with pytest.raises(NotJson):
            encode_json(bad)


CELLS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.data(), st.lists(st.text(st.characters(codec=None), max_size=5), unique=True, max_size=4))
def test_a_table_is_encoded_as_its_rows_are(data: st.DataObject, columns: list[str]) -> None:
    width = len(columns)
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=4))
    for keys, value in (columns, [dict(zip(columns, row, strict=True)) for row in rows]), (None, rows):
        try:
            text = table_json(rows, keys).text
        except NotJson:
            if all(name.isalnum() for name in columns):  # a name with a quote in it is refused here alone
                with pytest.raises(NotJson):
                    encode_json(value)
        else:
            assert text == encode_json(value)
