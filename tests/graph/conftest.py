"""A Bolt server for the whole session, and graphs of both kinds with the same people in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bolt_server import BoltServer
from graph_world import GraphWorld

from rrext.nodes.graph.ladybug import LadybugNode
from rrext.nodes.graph.neo4j import Neo4jNode

SCHEMA = (
    "CREATE NODE TABLE Person(name STRING PRIMARY KEY, born INT64, height DOUBLE)",
    "CREATE NODE TABLE City(name STRING PRIMARY KEY)",
    "CREATE REL TABLE KNOWS(FROM Person TO Person, since INT64)",
    "CREATE REL TABLE LIVES_IN(FROM Person TO City)",
)
PEOPLE = (
    "CREATE (:Person {name: 'Charles', born: 1791})",
    "MATCH (c:Person) CREATE (:Person {name: 'Ada', born: 1815, height: 1.65})-[:KNOWS {since: 1833}]->(c)",
    "CREATE (:Person {name: 'Mary', born: 1797})",
    "MATCH (a:Person {name: 'Ada'}) CREATE (a)-[:LIVES_IN]->(:City {name: 'London'})",
)


@pytest.fixture(scope="session")
def bolt_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoltServer]:
    server = BoltServer(tmp_path_factory.mktemp("bolt"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["neo4j", "ladybug"])
def graph_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def graph(graph_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> GraphWorld:
    """A graph of one kind, with three people and a city."""
    if graph_kind == "neo4j":
        server: BoltServer = request.getfixturevalue("bolt_server")
        return GraphWorld("neo4j", Neo4jNode, server.config(allow_execute=True), ("MATCH (n) DETACH DELETE n", *PEOPLE))
    return GraphWorld("ladybug", LadybugNode, {"path": str(tmp_path / "graph.lbug"), "allow_execute": True}, (*SCHEMA, *PEOPLE))
