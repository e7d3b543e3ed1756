"""What `query` answers goes back in through `execute` as it came out, for every type that DuckDB has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_contract import opened

from rrext.nodes.sql.duckdb.node import DuckdbNode

pytestmark = pytest.mark.usefixtures("forked_children")

WRITER = {"allow_execute": True, "memory_limit": "200MB", "threads": 1}

VALUES: list[tuple[str, str, Any]] = [
    ("BOOLEAN", "true", True),
    ("TINYINT", "'-128'", -128),
    ("UBIGINT", "18446744073709551615", 2**64 - 1),
    ("HUGEINT", "-170141183460469231731687303715884105727", -(2**127) + 1),
    ("UHUGEINT", "340282366920938463463374607431768211455", 2**128 - 1),
    ("BIGNUM", "'-123456789012345678901234567890123456789012345678901234567890'", "-" + "1234567890" * 6),
    ("FLOAT", "1.5", 1.5),
    ("DOUBLE", "'-inf'", "-Infinity"),
    ("DOUBLE", "'nan'", "NaN"),
    ("DOUBLE", "0.1", 0.1),
    ("DECIMAL(15, 3)", "1.5", 1.5),
    ("DECIMAL(16, 3)", "1.5", "1.500"),
    ("DECIMAL(18, 3)", "123456789012345.678", "123456789012345.678"),
    ("DECIMAL(38, 19)", "0.1234567890123456789", "0.1234567890123456789"),
    ("DECIMAL(38, 12)", "0.000000000120", "0.000000000120"),
    ("VARCHAR", "'P1DT2H'", "P1DT2H"),
    ("VARCHAR", "'[1, 2'", "[1, 2"),
    ("VARCHAR", "'é\U0001f986'", "é\U0001f986"),
    ("BLOB", "'\\xFF\\x00'", {"base64": "/wA="}),
    ("BLOB", "'\\xC3\\xA9'", {"base64": "w6k="}),
    ("BIT", "'0101'", "0101"),
    ("UUID", "'12345678-1234-5678-1234-567812345678'", "12345678-1234-5678-1234-567812345678"),
    ("DATE", "'2026-01-02'", "2026-01-02"),
    ("DATE", "'0044-03-15 (BC)'", "-0043-03-15"),
    ("DATE", "'10000-01-01'", "+10000-01-01"),
    ("TIMESTAMP", "'0001-12-31 (BC) 10:00:00.5'", "0000-12-31T10:00:00.500000"),
    ("TIMESTAMP_S", "'10000-01-01 00:00:00'", "+10000-01-01T00:00:00"),
    ("TIMESTAMP WITH TIME ZONE", "'10000-01-01 03:04:05+00'", "+10000-01-01T03:04:05+00:00"),
    ("DATE[]", "['0044-03-15 (BC)'::DATE]", ["-0043-03-15"]),
    ("TIME", "'03:04:05.006'", "03:04:05.006000"),
    ("TIME_NS", "'03:04:05.123456789'", "03:04:05.123456789"),
    ("TIME WITH TIME ZONE", "'03:04:05+02'", "03:04:05+02:00"),
    ("TIMESTAMP", "'2026-01-02 03:04:05.000006'", "2026-01-02T03:04:05.000006"),
    ("TIMESTAMP_S", "'2026-01-02 03:04:05'", "2026-01-02T03:04:05"),
    ("TIMESTAMP_MS", "'2026-01-02 03:04:05'", "2026-01-02T03:04:05"),
    ("TIMESTAMP_NS", "'2026-01-02 03:04:05.123456789'", "2026-01-02T03:04:05.123456789"),
    ("TIMESTAMP WITH TIME ZONE", "'2026-01-02 03:04:05+00'", "2026-01-02T03:04:05+00:00"),
    ("TIMESTAMPTZ_NS", "'2026-01-02 03:04:05.123456789+00'", "2026-01-02T03:04:05.123456789+00:00"),
    ("INTERVAL", "'1 day 02:00:00'", "P1DT2H"),
    ("INTERVAL", "'13 months -2 days 00:00:01.5'", "P1Y1M-2DT1.5S"),
    ("INTERVAL", "'-26:00:00.000001'", "PT-26H-0.000001S"),
    ("INTERVAL", "'0 days'", "PT0S"),
    ("JSON", "'[1,\"a\",null]'", [1, "a", None]),
    ("JSON", "'{\"a\":{\"b\":[1.5,true,{}]}}'", {"a": {"b": [1.5, True, {}]}}),
    ("JSON", "'[{\"a\":1},{\"b\":2}]'", [{"a": 1}, {"b": 2}]),
    ("JSON", "'\"text\"'", '"text"'),
    ("JSON", "'null'", "null"),
    ("JSON", "'{\"a\":1,\"a\":2}'", '{"a":1,"a":2}'),
    ("JSON", "'[0.12345678901234567890]'", "[0.12345678901234567890]"),
    ("JSON", "'12345678901234567890123'", 12345678901234567890123),
    ("JSON", "'[]'", []),
    ("GEOMETRY", "'POINT (1 2)'", "POINT (1 2)"),
    ("ENUM ('a', 'b')", "'b'", "b"),
    ("INTEGER[]", "[1, NULL, 3]", [1, None, 3]),
    ("INTEGER[]", "[]", []),
    ("VARCHAR[2]", "['x', NULL]", ["x", None]),
    ("BLOB[]", "['\\xFF'::BLOB, 'a'::BLOB]", [{"base64": "/w=="}, {"base64": "YQ=="}]),
    ("INTERVAL[]", "['2 months'::INTERVAL]", ["P2M"]),
    ("JSON[]", "['{\"a\":1}'::JSON, '\"x\"'::JSON]", [{"a": 1}, '"x"']),
    ("STRUCT(a INTEGER, \"B b\" VARCHAR[])", "{'a': 1, 'B b': ['x']}", {"a": 1, "B b": ["x"]}),
    ("STRUCT(i INTERVAL, b BLOB, j JSON)", "{'i': '1 month', 'b': '\\xFF'::BLOB, 'j': '[1]'}",
     {"i": "P1M", "b": {"base64": "/w=="}, "j": [1]}),
    ("MAP(INTEGER, VARCHAR)", "MAP {1: 'one', 2: NULL}", {"1": "one", "2": None}),
    ("MAP(VARCHAR, INTERVAL)", "MAP {'a': INTERVAL 1 MONTH}", {"a": "P1M"}),
    ("MAP(DATE, DECIMAL(5, 2))", "MAP {DATE '2026-01-02': 1.25}", {"2026-01-02": 1.25}),
    ("UNION(num INTEGER, str VARCHAR)", "union_value(num := 3)", 3),
    ("UNION(num INTEGER, str VARCHAR)", "'x'", "x"),
    ("STRUCT(a STRUCT(b INTEGER[])[])", "{'a': [{'b': [1]}, {'b': NULL}]}", {"a": [{"b": [1]}, {"b": None}]}),
    ("INTEGER", "NULL", None),
    ("JSON", "NULL", None),
    ("INTERVAL", "NULL", None),
]  # fmt: skip


async def test_every_type_goes_back_as_it_came() -> None:
    wrong: list[str] = []
    async with opened(DuckdbNode, WRITER) as db:
        for kind, value, expected in VALUES:
            await db("execute", sql=f"CREATE OR REPLACE TABLE t (id INTEGER, v {kind})")
            await db("execute", sql=f"INSERT INTO t VALUES (1, {value})")
            answer = await db("query", sql="SELECT v FROM t")
            (came,) = (row["v"] for row in answer["rows"])
            if came != expected:
                wrong.append(f"{kind} {value} is answered as {came!r}")
                continue
            await db("execute", sql="INSERT INTO t VALUES (2, $1)", params=[came])
            sql = "SELECT count(*) AS n, count(DISTINCT v) AS d, list(v::VARCHAR) AS t FROM t"
            (found,) = (await db("query", sql=sql))["rows"]
            if found["n"] != 2 or found["d"] > 1 or len({*found["t"]}) > 1:
                wrong.append(f"{kind} {came!r} is written back as {found['t']}")
    assert wrong == []


async def test_types_are_those_of_the_database() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        columns = ", ".join(f"{value}::{kind} AS c{number}" for number, (kind, value, _) in enumerate(VALUES))
        query = await db("query", sql=f"SELECT {columns}")
        assert query["types"][:4] == ["BOOLEAN", "TINYINT", "UBIGINT", "HUGEINT"]
        names = ", ".join(f"typeof(c{number})" for number in range(len(VALUES)))
        named = await db("query", sql=f"SELECT {names} FROM (SELECT {columns})", row_mode="array")
        assert query["types"] == named["rows"][0]
        assert (await db("execute", sql=f"SELECT {columns}"))["types"] == query["types"]


async def test_an_unknown_parameter_is_what_its_form_says() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        for value, kind in (
            ([1, 2], "BIGINT[]"),
            (["a", None], "VARCHAR[]"),
            ([1, "a"], "JSON"),
            ({"a": 1}, "STRUCT(a BIGINT)"),
            ({"a": [1, "x"]}, "JSON"),
            ({"a": 1, "A": 2}, "JSON"),
            ([{"a": 1}, {"b": 1}], "JSON"),
            ({}, "JSON"),
            ({"": 1}, "JSON"),
            ({"base64": "/w=="}, "BLOB"),
        ):
            answer = await db("query", sql="SELECT typeof($1) AS t, $1 AS v", params=[value])
            assert (answer["rows"][0]["t"].replace("INTEGER", "BIGINT"), answer["rows"][0]["v"]) == (kind, value)


async def test_execute_answers_nested_values_as_json_text() -> None:
    async with opened(DuckdbNode, WRITER) as db:
        sql = "SELECT [1, 2] AS l, {'a': INTERVAL 1 MONTH} AS s, '[1.50]'::JSON AS j, '5'::JSON AS n, '\\xFF'::BLOB AS b"
        (row,) = (await db("execute", sql=sql))["rows"]
        assert row == {"l": "[1,2]", "s": '{"a":"P1M"}', "j": "[1.5]", "n": 5, "b": {"base64": "/w=="}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def converted() -> Any:
    import duckdb

    from rrext.nodes.databases.cells import json_cell
    from rrext.nodes.sql.duckdb.values import converter, parameters

    connection = duckdb.connect()
    kind = duckdb.sqltype("JSON")
    convert = converter(kind)

    def back_and_forth(value: Any) -> Any:
        found = connection.execute("SELECT $1::JSON", parameters([value], {"1": kind})).fetchone()
        assert found is not None
        assert convert is not None
        return json_cell(convert(found[0]))

    yield back_and_forth
    connection.close()


@given(st.lists(JSON, max_size=4) | st.dictionaries(st.text(), JSON, max_size=4))
def test_any_json_is_kept_in_a_json_column(converted: Any, value: Any) -> None:
    if "\\u0000" not in json.dumps(value):  # DuckDB's JSON has no such character in names
        came = converted(value)
        assert (json.loads(came) if isinstance(came, str) else came) == value
