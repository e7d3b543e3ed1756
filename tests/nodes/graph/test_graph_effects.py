"""`affected_rows` counts nodes and relationships, each once, and the same on both kinds of graph."""

from __future__ import annotations

from typing import Any

import pytest
from graph_world import GraphWorld, Tools

from rrext.nodes.graph.effects import effects_of

pytestmark = pytest.mark.usefixtures("forked_children")

COUNTED = [
    ("MATCH (p:Person) RETURN p.name", 0),
    ("CREATE (:City {name: 'Paris'})", 1),
    ("CREATE (:Person {name: 'A', born: 1, height: 1.5})-[:KNOWS {since: 1}]->(:Person {name: 'B'})", 3),
    ("CREATE (c:City {name: 'Paris'}) RETURN c.name, c", 1),
    ("UNWIND range(1, 5) AS x CREATE (p:Person {born: x, name: CAST(x AS STRING)}) RETURN p.born", 5),
    ("UNWIND $names AS name CREATE (:City {name: name})", 3),
    ("MERGE (:City {name: 'London'})", 0),
    ("MERGE (:City {name: 'Paris'})", 1),
    ("UNWIND ['Paris', 'Paris', 'London'] AS name MERGE (c:City {name: name}) RETURN c.name", 1),
    ("MERGE (p:Person {name: 'Ada'}) ON MATCH SET p.born = 1 RETURN p.born", 1),
    ("MERGE (p:Person {name: 'Eve'}) ON MATCH SET p.born = 1", 1),
    ("MERGE (p:Person {name: 'Ada'}) ON CREATE SET p.born = 1", 0),
    ("MERGE (p:Person {name: 'Ada'}) ON CREATE SET p.born = 1 ON MATCH SET p.born = 2", 1),
    ("UNWIND $rows AS row MERGE (p:Person {name: row.name}) SET p.born = row.born", 3),
    ("MATCH (a:Person {name: 'Ada'}), (m:Person {name: 'Mary'}) MERGE (a)-[k:KNOWS]->(m) ON CREATE SET k.since = 1", 1),
    ("MATCH (a:Person {name: 'Ada'}), (m:Person {name: 'Charles'}) MERGE (a)-[k:KNOWS]->(m) ON CREATE SET k.since = 1", 0),
    ("MATCH (p:Person) SET p.born = 1", 3),
    ("MATCH (p:Person) SET p.born = 1, p.height = 2.0", 3),
    ("MATCH (p:Person) SET p.born = 1 RETURN p.name, p.born", 3),
    ("MATCH (p:Person {name: $name}) SET p.born = $born RETURN p", 1),
    ("MATCH (p:Person) WHERE p.name STARTS WITH 'A' SET p.born = 1 // one\n RETURN 1", 1),
    ("MATCH (p:Person {name: 'Nobody'}) SET p.born = 1", 0),
    ("MATCH (a:Person)-[k:KNOWS]->(b:Person) SET a.born = 1, b.born = 1, k.since = 1", 3),
    ("MATCH (a:Person)-[:KNOWS]-(b:Person) SET a.born = 1, b.born = 2", 2),
    ("MATCH (a:Person), (b:Person) SET a.born = 1", 3),
    ("MATCH (a:Person) OPTIONAL MATCH (a)-[k:KNOWS]->(b:Person) SET k.since = 1", 1),
    ("MATCH (p:Person {name: 'Ada'}) CREATE (p)-[:LIVES_IN]->(c:City {name: 'Paris'}) SET p.born = 1", 3),
    ("CREATE (p:Person {name: 'Eve'}) SET p.born = 1", 1),
    ("MATCH (p:Person) WITH p, p.born AS born WHERE born > 1792 SET p.height = 1.0", 2),
    ("MATCH (p:Person) REMOVE p.height", 3),
    ("MATCH (a)-[k:KNOWS]->(b) DELETE k", 1),
    ("MATCH (p:Person {name: 'Mary'}) DELETE p", 1),
    ("MATCH (p:Person {name: 'Ada'}) DETACH DELETE p", 3),
    ("MATCH (n) DETACH DELETE n", 6),
    ("MATCH (p:Person {name: 'Mary'}) DELETE p RETURN 'gone' AS x", 1),
]
PARAMS = {
    "names": ["Oslo", "Bergen", "Rome"],
    "rows": [{"name": "Ada", "born": 1}, {"name": "Eve", "born": 2}, {"name": "Mary", "born": 3}],
    "name": "Ada",
    "born": 7,
}
ONLY_ELSEWHERE = {"ladybug": ("REMOVE p.height",), "neo4j": ("CAST(",)}
"""What one of the languages does not have."""


async def affected(tools: Tools, statement: str, **input: Any) -> int | None:
    params = {name: value for name, value in PARAMS.items() if f"${name}" in statement}
    return (await tools("execute", query=statement, params=params, **input))["affected_rows"]


async def test_elements_are_counted_each_once(graph: GraphWorld) -> None:
    found: dict[str, int | None] = {}
    expected: dict[str, int | None] = {}
    async with graph.open() as tools:
        for statement, count in COUNTED:
            if any(part in statement for part in ONLY_ELSEWHERE[graph.kind]):
                continue
            session = (await tools("begin"))["session_id"]
            found[statement] = await affected(tools, statement, session_id=session)
            expected[statement] = count
            await tools("rollback", session_id=session)
    assert found == expected
    assert len(found) >= 30


@pytest.mark.parametrize(
    "statement",
    [
        "MATCH (p:Person) WITH p LIMIT 2 SET p.born = 1",
        "MATCH (p:Person) SET p.born = 1 WITH p MATCH (q:Person) SET q.born = 2",
    ],
)
async def test_what_cannot_be_told_is_null_and_done_all_the_same(graph: GraphWorld, statement: str) -> None:
    async with graph.open() as tools:
        assert await affected(tools, statement) is None
        assert await tools.value("MATCH (p:Person) WHERE p.born < 3 RETURN count(p) AS n") >= 2


async def test_statements_about_the_schema_affect_nothing(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        statement = {"neo4j": "CREATE INDEX FOR (p:Person) ON (p.born)", "ladybug": "CREATE NODE TABLE T(id INT64 PRIMARY KEY)"}
        assert await affected(tools, statement[graph.kind]) == 0


async def test_without_a_session_it_is_counted_and_kept(graph: GraphWorld) -> None:
    async with graph.open() as tools:
        assert await affected(tools, "MATCH (p:Person) SET p.born = 1") == 3
        assert await tools.rows("MATCH (p:Person) RETURN DISTINCT p.born") == [[1]]
        answer = await tools("execute", query="MATCH (n) DETACH DELETE n")
        assert answer["affected_rows"] == 6
        assert answer["counters"] == {"nodes_deleted": 4, "relationships_deleted": 2}


async def test_loading_is_counted_on_a_server(graph: GraphWorld, tmp_path: Any) -> None:
    if graph.kind == "ladybug":
        return  # no statement of a caller reads files there
    (tmp_path / "cities.csv").write_text("Oslo\nBergen\n")
    statement = f"LOAD CSV FROM 'file://{tmp_path}/cities.csv' AS line CREATE (:City {{name: line[0]}})"
    async with graph.open() as tools:
        assert await affected(tools, statement) == 2


@pytest.mark.parametrize(
    ("statement", "targets"),
    [
        ("MATCH (n) SET n.x = 1", ("n",)),
        ("MATCH (`a b`) SET `a b`.x = 1, `a b`:L", ("a b",)),
        ("match (n) set n += {set: 1} remove n.y", ("n",)),
        ("MATCH (n {set: 1}) WHERE n.set = 2 RETURN n AS SET", ()),
        ("MATCH (n:SET)-[:REMOVE]->() RETURN n", ()),
        ("EXPLAIN MATCH (n) SET n.x = 1", ()),
    ],
)
def test_what_is_set_is_found_in_the_text(statement: str, targets: tuple[str, ...]) -> None:
    effects = effects_of(statement)
    assert effects.targets == targets
    assert effects.sets is bool(targets)


@pytest.mark.parametrize(
    "statement",
    [
        "MATCH (n) FOREACH (x IN [n] | SET x.y = 1)",
        "MATCH (n) CALL { WITH n SET n.x = 1 }",
        "MATCH (n) SET (CASE WHEN true THEN n END).x = 1",
        "MATCH (n) SET n.x = 1 DELETE n",
        "MATCH (n) WITH n, rand() AS r WHERE r > 0.5 SET n.x = 1",
        "MATCH (a) MERGE (a)-[r:K]->(b) ON MATCH SET a.x = 1",
    ],
)
def test_what_is_not_clear_is_not_counted(statement: str) -> None:
    assert not effects_of(statement).are_countable
