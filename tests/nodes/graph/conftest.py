"""A Bolt server for the whole session, and graphs of both kinds with the same people in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bolt_server import BoltServer
from graph_world import PEOPLE, SCHEMA, GraphWorld

from rrext.nodes.graph.ladybug import LadybugNode
from rrext.nodes.graph.neo4j import Neo4jNode


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Embedded databases are in memory."""
    return memory_path


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
    config = {
        "path": str(tmp_path / "graph.lbug"),
        "allow_execute": True,
        "threads": 1,
    }  # a slow statement keeps one processor busy
    return GraphWorld("ladybug", LadybugNode, config, (*SCHEMA, *PEOPLE))
