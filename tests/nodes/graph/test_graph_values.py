"""How values come out: in JSON, whole, and never as another value."""

from __future__ import annotations

from typing import Any

import pytest
from bolt_server import BoltServer
from graph_world import GraphWorld

from rrext.nodes.graph.ladybug import LadybugNode
from rrext.nodes.graph.neo4j import Neo4jNode

pytestmark = pytest.mark.usefixtures("forked_children")

BOLT = [
    ("date('1815-12-10')", "1815-12-10"),
    ("time('12:00:00.5+01:00')", "12:00:00.500000000+01:00"),
    ("localtime('12:00')", "12:00:00.000000000"),
    ("datetime('2020-01-01T00:00:00+01:00')", "2020-01-01T00:00:00.000000000+01:00"),
    ("localdatetime('2020-01-01T00:00:00')", "2020-01-01T00:00:00.000000000"),
    ("duration('P1Y2M3DT4H')", "P1Y2M3DT4H"),
    ("point({x: 1, y: 2})", {"srid": 7203, "x": 1.0, "y": 2.0}),
    ("point({longitude: 1, latitude: 2})", {"srid": 4326, "x": 1.0, "y": 2.0}),
]
EMBEDDED = [
    ("date('1815-12-10')", "1815-12-10"),
    ("timestamp('2020-01-01 00:00:00.123456')", "2020-01-01T00:00:00.123456"),
    ("CAST('2020-01-01 00:00:00+02:00' AS TIMESTAMP_TZ)", "2019-12-31T22:00:00+00:00"),
    ("interval('3 days 2 hours')", "P3DT7200S"),
    ("uuid('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("CAST(1.5 AS DECIMAL(5,2))", "1.50"),
    ("CAST('170141183460469231731687303715884105727' AS INT128)", "170141183460469231731687303715884105727"),
    ("18446744073709551615", 18446744073709551615),
    ("{a: 1, b: 'x'}", {"a": 1, "b": "x"}),
    ("map([1, 2], ['a', 'b'])", {"1": "a", "2": "b"}),
    ("blob('\\\\xAA\\\\xBB')", {"base64": "qrs="}),
    ("CAST([1.0, 2.0] AS FLOAT[2])", [1.0, 2.0]),
    ("CAST('nan' AS DOUBLE)", "NaN"),
    ("union_value(a := 1)", 1),
]
BOTH = [
    ("null", None),
    ("true", True),
    ("'h\u00e9llo \U0001f600 | \\\\ \\''", "h\u00e9llo \U0001f600 | \\ '"),
    ("9223372036854775807", 2**63 - 1),
    ("[1, 2, 3]", [1, 2, 3]),
    ("1.0 / 0.0", "Infinity"),
    ("-1.0 / 0.0", "-Infinity"),
    ("[[1], [2, 3]]", [[1], [2, 3]]),
]


@pytest.mark.parametrize(("expression", "value"), BOTH)
async def test_a_value_of_both_kinds(graph: GraphWorld, expression: str, value: Any) -> None:
    async with graph.open(is_filled=False) as tools:
        assert await tools.value(f"RETURN {expression} AS x") == value


async def test_values_of_a_bolt_server(bolt_server: BoltServer) -> None:
    async with GraphWorld("neo4j", Neo4jNode, bolt_server.config()).open() as tools:
        found = [await tools.value(f"RETURN {expression} AS x") for expression, _ in BOLT]
        assert found == [value for _, value in BOLT]
        assert await tools.value("RETURN 0.0 / 0.0 AS x") == "NaN"
        assert await tools.value("RETURN $x AS x", x={"a": [1, {"b": None}]}) == {"a": [1, {"b": None}]}


async def test_values_of_the_embedded_database() -> None:
    async with GraphWorld("ladybug", LadybugNode, {"allow_execute": True}).open() as tools:
        for expression, value in EMBEDDED:
            [row] = (await tools("execute", query=f"RETURN {expression} AS x"))["rows"]
            assert row == {"x": value}, expression


async def test_nodes_relationships_and_paths(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        [[start, knows, path]] = await tools.rows("MATCH p = (a:Person {name: 'Ada'})-[k:KNOWS]->(b) RETURN a, k, p")
    assert start.pop("id")
    born = start["properties"].pop("height", 1.65)
    assert born == 1.65
    assert start == {"labels": ["Person"], "properties": {"name": "Ada", "born": 1815}}
    assert knows["type"] == "KNOWS"
    assert knows["properties"] == {"since": 1833}
    assert path["length"] == 1
    assert path["relationships"] == [knows]
    assert [node["id"] for node in path["nodes"]] == [knows["start"], knows["end"]]


async def test_a_path_of_many_steps_has_them_all(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        await tools("execute", query="MATCH (a:Person {name: 'Charles'}), (b:Person {name: 'Mary'}) CREATE (a)-[:KNOWS]->(b)")
        paths = await tools.rows(
            "MATCH p = (a:Person {name: 'Ada'})-[:KNOWS*1..2]->(b:Person) RETURN p, length(p) AS n ORDER BY n"
        )
    assert [path["length"] for path, _ in paths] == [1, 2]
    assert [node["properties"]["name"] for node in paths[1][0]["nodes"]] == ["Ada", "Charles", "Mary"]


def test_a_named_zone_is_not_lost() -> None:
    import pytz
    from neo4j.time import DateTime

    from rrext.nodes.graph.backend import BoltValues

    berlin = pytz.timezone("Europe/Berlin")
    assert BoltValues().json(berlin.localize(DateTime(2020, 1, 1, 12))) == "2020-01-01T12:00:00.000000000+01:00[Europe/Berlin]"
    assert BoltValues().json([2**70, b"\xff", {"a": float("nan")}]) == [str(2**70), {"base64": "/w=="}, {"a": "NaN"}]


async def test_a_value_that_python_has_no_room_for_fails_its_statement() -> None:
    async with GraphWorld("ladybug", LadybugNode, {}).open() as tools:
        error = await tools.fails("query", query="RETURN to_years(9999999) AS x")
        assert error.code == "cypher_failed"
        assert await tools.value("RETURN 1 AS x") == 1
