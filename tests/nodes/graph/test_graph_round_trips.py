"""What `query` answers can be given back as a parameter, and is the same value then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bolt_server import BoltServer
from graph_world import GraphWorld, Tools

from rrext.nodes.graph.ladybug import LadybugNode
from rrext.nodes.graph.neo4j import Neo4jNode

pytestmark = pytest.mark.usefixtures("forked_children")

OF_LADYBUG = [
    ("BOOL", "true"),
    *((kind, "100") for kind in ("INT8", "INT16", "INT32", "INT64", "INT128", "UINT8", "UINT16", "UINT32", "UINT64")),
    ("INT64", "-9223372036854775807"),
    ("UINT64", "18446744073709551615"),
    ("INT128", "CAST('170141183460469231731687303715884105727' AS INT128)"),
    ("DOUBLE", "1.5"),
    ("DOUBLE", "CAST('nan' AS DOUBLE)"),
    ("DOUBLE", "CAST('inf' AS DOUBLE)"),
    ("FLOAT", "CAST(1.5 AS FLOAT)"),
    ("DECIMAL(10,2)", "CAST(12.34 AS DECIMAL(10,2))"),
    ("DECIMAL(38,10)", "CAST('1234567890123456789012345678.0123456789' AS DECIMAL(38,10))"),
    ("STRING", "'h\u00e9 \U0001f600'"),
    ("STRING", "'P1D'"),
    ("BLOB", "blob('\\\\xAA\\\\x00')"),
    ("BLOB", "blob('abc')"),
    ("DATE", "date('1815-12-10')"),
    ("TIMESTAMP", "timestamp('2020-01-01 00:00:00.123456')"),
    ("TIMESTAMP_NS", "CAST('2020-01-01 00:00:00.123456' AS TIMESTAMP_NS)"),
    ("TIMESTAMP_MS", "CAST('2020-01-01 00:00:00.123' AS TIMESTAMP_MS)"),
    ("TIMESTAMP_SEC", "CAST('2020-01-01 00:00:00' AS TIMESTAMP_SEC)"),
    ("TIMESTAMP_TZ", "CAST('2020-01-01 00:00:00+02:00' AS TIMESTAMP_TZ)"),
    ("UUID", "uuid('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')"),
    ("INT64[]", "[1, 2, 3]"),
    ("INT64[3]", "CAST([1, 2, 3] AS INT64[3])"),
    ("STRING[]", "['a', null]"),
    ("FLOAT[2]", "CAST([1.0, 2.0] AS FLOAT[2])"),
    ("INT64[][]", "[[1], [2, 3]]"),
    ("DATE[]", "[date('2020-01-01')]"),
    ("STRUCT(a INT64, b STRING)", "{a: 1, b: 'x'}"),
    ("STRUCT(a INT64[])[]", "[{a: [1]}]"),
    ("UNION(num INT64, str STRING)", "union_value(num := 1)"),
]
OF_SERVERS = [
    ("true", "$v"),
    ("9223372036854775807", "$v"),
    ("1.5", "$v"),
    ("0.0 / 0.0", "toFloat($v)"),
    ("'P1D'", "$v"),
    ("[1, 2]", "$v"),
    ("['a', 'b']", "$v"),
    ("date('1815-12-10')", "date($v)"),
    ("time('12:00:00.5+01:00')", "time($v)"),
    ("localtime('12:00')", "localtime($v)"),
    ("datetime('2020-01-01T00:00:00+01:00')", "datetime($v)"),
    ("localdatetime('2020-01-01T00:00:00')", "localdatetime($v)"),
    ("duration('P1Y2M3DT4H')", "duration($v)"),
    ("point({x: 1, y: 2})", "point($v)"),
    ("point({longitude: 1, latitude: 2})", "point($v)"),
]


@pytest.fixture(scope="module")
async def ladybug() -> AsyncIterator[Tools]:
    """An embedded graph for all types, each of which has a table and drops it."""
    async with GraphWorld("ladybug", LadybugNode, {"allow_execute": True}).open() as tools:
        yield tools


@pytest.mark.parametrize(("kind", "value"), OF_LADYBUG)
async def test_a_property_of_each_type_of_ladybug_is_written_back(ladybug: Tools, kind: str, value: str) -> None:
    tools = ladybug
    try:
        await tools("execute", query=f"CREATE NODE TABLE T(id INT64 PRIMARY KEY, v {kind})")
        await tools("execute", query=f"CREATE (:T {{id: 1, v: {value}}})")
        found = await tools.value("MATCH (t:T) RETURN t.v AS v")
        await tools("execute", query="CREATE (:T {id: 2, v: $v})", params={"v": found})
        rows = await tools("execute", query="UNWIND $rows AS row CREATE (t:T {id: 3}) RETURN t.id", params={"rows": [1]})
        assert rows["affected_rows"] == 1
        assert await tools.value("MATCH (t:T {id: 2}) RETURN t.v AS v") == found
        if "nan" not in value:
            assert await tools.value("MATCH (a:T {id: 1}), (b:T {id: 2}) RETURN a.v = b.v") is True
    finally:
        await tools("execute", query="DROP TABLE T")


async def test_intervals_and_maps_are_made_in_the_statement_and_texts_stay_texts() -> None:
    async with GraphWorld("ladybug", LadybugNode, {"allow_execute": True}).open() as tools:
        columns = "id INT64 PRIMARY KEY, i INTERVAL, s STRING, t STRUCT(a INT64), m MAP(STRING, INT64)"
        await tools("execute", query=f"CREATE NODE TABLE T({columns})")
        statement = "CREATE (:T {id: 1, i: interval($i), s: $s, t: $t, m: map($keys, $values)})"
        given = {"i": "1 day 2 hours", "s": "P1D", "t": {"a": 1}, "keys": ["k"], "values": [2]}
        await tools("execute", query=statement, params=given)
        found = await tools("query", query="MATCH (t:T) RETURN t.i AS i, t.s AS s, t.t AS t, t.m AS m")
        assert found["rows"] == [{"i": "P1DT7200S", "s": "P1D", "t": {"a": 1}, "m": {"k": 2}}]
        error = await tools.fails("execute", query="CREATE (:T {id: 2, i: $i})", params={"i": "P1D"})
        assert error.code == "cypher_failed"


@pytest.mark.parametrize(("value", "written"), OF_SERVERS)
async def test_a_property_of_each_type_of_a_server_is_written_back(bolt_server: BoltServer, value: str, written: str) -> None:
    async with GraphWorld("neo4j", Neo4jNode, bolt_server.config(allow_execute=True)).open() as tools:
        await tools("execute", query="MATCH (n) DETACH DELETE n")
        found = await tools.value(f"RETURN {value} AS v")
        await tools("execute", query=f"CREATE (:T {{v: {written}}})", params={"v": found})
        assert await tools.value("MATCH (t:T) RETURN t.v AS v") == found


async def test_bytes_are_given_back_as_they_came(bolt_server: BoltServer, tmp_path: Path) -> None:
    async with GraphWorld("neo4j", Neo4jNode, bolt_server.config(allow_execute=True)).open() as tools:
        found = await of_bytes(tools)
    assert found == {"base64": "qgA="}


async def of_bytes(tools: Tools) -> Any:
    await tools("execute", query="MATCH (n) DETACH DELETE n")
    await tools("execute", query="CREATE (:T {v: $v})", params={"v": {"base64": "qgA="}})
    return await tools.value("MATCH (t:T) RETURN t.v AS v")
