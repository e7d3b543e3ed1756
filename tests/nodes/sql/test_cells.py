"""Values of a database become JSON without becoming other values."""

from __future__ import annotations

import math
from base64 import b64decode
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysql.constants import FIELD_TYPE

from rrext.nodes.databases.cells import json_cell, json_document, json_rows, size_of, unique_names
from rrext.nodes.sql.mysql import MysqlBackend

UUID_TEXT = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**53 + 1, 2**53 + 1),
        (-(2**200), -(2**200)),
        ("é", "é"),
        (1.5, 1.5),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (Decimal("12.50"), "12.50"),
        (Decimal("0.12345678901234567890"), "0.12345678901234567890"),
        (Decimal("1E+40"), f"1{'0' * 40}"),
        (Decimal("0.00000000012"), "0.00000000012"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4, 5), "03:04:05"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02T03:04:05.000006+00:00"),
        (timedelta(days=1, hours=2), "P1DT7200S"),
        (b"text", {"base64": "dGV4dA=="}),
        (b"\xff\x00", {"base64": "/wA="}),
        (b"a\0", {"base64": "YQA="}),
        (bytearray(b"a"), {"base64": "YQ=="}),
        (memoryview(b"\x80"), {"base64": "gA=="}),
        (UUID(UUID_TEXT), UUID_TEXT),
        ([1, [Decimal("0.5"), None]], [1, ["0.5", None]]),
        ({"a": math.nan, 1: date(2026, 1, 2)}, {"a": "NaN", "1": "2026-01-02"}),
    ],
)
def test_a_cell_keeps_its_value(value: Any, expected: Any) -> None:
    cell = json_cell(value)
    assert cell == expected
    assert type(cell) is type(expected)
    assert msgspec.json.decode(msgspec.json.encode(cell)) == expected or isinstance(expected, int)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, 2.50, null]}', {"a": [1, 2.5, None]}),
        ("[]", []),
        ("7", 7),
        ("true", True),
        ("1.5", 1.5),
        ('"a"', '"a"'),
        ("null", "null"),
        ('{"n": 12345678901234567890.5}', '{"n": 12345678901234567890.5}'),
        ("[1e400]", "[1e400]"),
        ("[1e-400]", "[1e-400]"),
        ('["\\ud800"]', '["\\ud800"]'),
        ('["\\u0000"]', ["\0"]),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("[" * 100_000 + "]" * 100_000, "[" * 100_000 + "]" * 100_000),
        ("9" * 5000, "9" * 5000),
        ("1" + "0" * 308, 10**308),
        ("[-1" + "0" * 309 + "]", "[-1" + "0" * 309 + "]"),
    ],
)
def test_json_is_nested_or_its_own_text(text: str, expected: Any) -> None:
    cell = json_cell(json_document(text, may_repeat=True))
    assert cell == expected
    assert type(cell) is type(expected)


def test_nested_json_is_json_text_in_execute() -> None:
    assert json_rows([(json_document('{"a":1}'), json_document("7"))], nested_as_text=True) == [['{"a":1}', 7]]


def test_a_json_document_of_mysql_that_would_mean_bytes_stays_text() -> None:
    options = {"host": "localhost", "port": 3306, "user": "a", "database": None}
    decode = MysqlBackend(options, statement_timeout=1)._options["conv"][FIELD_TYPE.JSON]
    assert decode('{"base64": "AA=="}') == '{"base64": "AA=="}'
    assert json_cell(decode('{"base64": "AA==", "a": 1}')) == {"base64": "AA==", "a": 1}


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_digit_of_a_decimal_is_lost(value: Decimal) -> None:
    cell = json_cell(value)
    assert Decimal(cell) == value


@given(st.binary())
def test_no_byte_is_lost(value: bytes) -> None:
    cell = json_cell(value)
    assert b64decode(cell["base64"]) == value


CELLS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals() | st.timedeltas(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2)), st.booleans())
def test_every_row_is_strict_json_and_only_null_is_null(rows: list[list[Any]], nested_as_text: bool) -> None:
    made = json_rows(rows, nested_as_text=nested_as_text)
    decoded = msgspec.json.decode(msgspec.json.encode(made), strict=True)
    for row, before in zip(decoded, rows, strict=True):
        assert [cell is None for cell in row] == [cell is None for cell in before]
        if nested_as_text:
            for cell, was in zip(row, before, strict=True):
                assert not isinstance(cell, list)
                assert not isinstance(cell, dict) or isinstance(was, bytes)


def test_nested_values_are_json_text_where_rocketride_has_them_so() -> None:
    assert json_rows([({"a": [1, math.nan]},)], nested_as_text=True) == [['{"a":[1,"NaN"]}']]


@given(st.lists(st.sampled_from(["a", "a_2", "a_2_2", "b", ""])))
def test_names_of_columns_are_unique_and_the_first_of_each_stays(names: list[str]) -> None:
    unique = unique_names(names)
    assert len(set(unique)) == len(names)
    assert {names.index(name) for name in set(names)} <= {n for n, name in enumerate(unique) if name == names[n]}


@given(st.lists(st.lists(st.none() | st.integers() | st.text(st.characters(max_codepoint=127)) | st.lists(st.integers()))))
def test_the_size_never_exceeds_what_is_sent(rows: list[list[Any]]) -> None:
    assert size_of(rows) <= len(msgspec.json.encode(rows))
