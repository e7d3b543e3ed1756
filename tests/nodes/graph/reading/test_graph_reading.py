"""What analysts ask passes the gate, and gives what the driver alone gives: values, names, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ladybug
import neo4j
import pytest
from bolt_server import DATABASE, PASSWORD, USER, BoltServer
from cypher_dialects import DIALECTS
from graph_world import PEOPLE, SCHEMA, GraphWorld, Tools
from own_queries import OF_LADYBUG, OF_NEO4J
from shared_queries import PARAMETERS, SHARED

from rrext.errors import RrextError
from rrext.nodes.databases.cells import unique_names
from rrext.nodes.graph.backend import BoltValues, EmbeddedValues
from rrext.nodes.graph.gate import read_only
from rrext.nodes.graph.ladybug import LadybugNode
from rrext.nodes.graph.neo4j import Neo4jNode

pytestmark = pytest.mark.usefixtures("forked_children")

Answer = tuple[list[str], list[list[Any]]]
CHANGING = ("rand()", "TotalTime", "PROFILE ", "bm_info", "datetime()", "hash(")
"""What is another value each time."""


def test_there_are_a_hundred_for_each_kind() -> None:
    assert len({*SHARED, *OF_NEO4J}) >= 200
    assert len({*SHARED, *OF_LADYBUG}) >= 180


@pytest.mark.parametrize(("dialect", "own"), [("neo4j", OF_NEO4J), ("ladybug", OF_LADYBUG)])
def test_what_analysts_ask_passes_the_gate_as_it_is(dialect: str, own: tuple[str, ...]) -> None:
    refused: dict[str, RrextError] = {}
    for cypher in (*SHARED, *own):
        try:
            assert read_only(cypher, DIALECTS[dialect]).text is cypher
        except RrextError as error:
            refused[cypher] = error
    assert refused == {}


def parameters_of(cypher: str) -> dict[str, Any]:
    return {name: value for name, value in PARAMETERS.items() if f"${name}" in cypher}


def sorted_rows(cypher: str, rows: list[list[Any]]) -> list[list[Any]]:
    return rows if "ORDER BY" in cypher.upper() else sorted(rows, key=str)


async def compared(tools: Tools, cypher: str, alone: Answer | Exception) -> str:
    """Ask through the tool as well; "same", or how the answers differ."""
    try:
        found = await tools("query", query=cypher, params=parameters_of(cypher), row_mode="array")
    except RrextError as error:
        return "same" if isinstance(alone, Exception) and error.code in ("cypher_failed", "invalid_arguments") else f"{error!r}"
    if isinstance(alone, Exception):
        return f"answered, where the driver raised {alone!r}"
    columns, rows = alone
    if found["columns"] != unique_names(columns):
        return f"{found['columns']} for {columns}"
    if any(part in cypher for part in CHANGING):
        return "same" if len(found["rows"]) == len(rows) else "another number of rows"
    if sorted_rows(cypher, found["rows"]) != sorted_rows(cypher, rows):
        return f"{found['rows']} for {rows}"
    return "same"


@pytest.fixture
def bolt_driver(bolt_server: BoltServer) -> Iterator[neo4j.Driver]:
    with neo4j.GraphDatabase.driver(bolt_server.uri, auth=(USER, PASSWORD)) as driver:
        yield driver


def bolt_alone(driver: neo4j.Driver, cypher: str) -> Answer | Exception:
    values = BoltValues()
    text: Any = cypher
    try:
        with driver.session(database=DATABASE, default_access_mode=neo4j.READ_ACCESS) as session:
            result = session.run(text, parameters_of(cypher))
            return list(result.keys()), [[values.json(value) for value in record.values()] for record in result]
    except Exception as error:
        return error


async def test_a_bolt_server_is_asked_what_the_caller_wrote(bolt_server: BoltServer, bolt_driver: neo4j.Driver) -> None:
    differences: dict[str, str] = {}
    answered = 0
    content = ("MATCH (n) DETACH DELETE n", *PEOPLE)
    async with GraphWorld("neo4j", Neo4jNode, bolt_server.config(allow_execute=True), content).open() as tools:
        for cypher in (*SHARED, *OF_NEO4J):
            alone = bolt_alone(bolt_driver, cypher)
            answered += not isinstance(alone, Exception)
            if (outcome := await compared(tools, cypher, alone)) != "same":
                differences[cypher] = outcome
    assert not differences
    assert answered >= 100


def ladybug_alone(connection: ladybug.Connection, cypher: str) -> Answer | Exception:
    values = EmbeddedValues()
    try:
        result: Any = connection.execute(cypher, parameters_of(cypher))
        rows: list[list[Any]] = []
        while result.has_next():
            rows.append([values.json(value) for value in result.get_next()])
        return list(result.get_column_names()), rows
    except (RuntimeError, ValueError, TypeError) as error:
        return error


async def test_the_embedded_engine_is_asked_what_the_caller_wrote(tmp_path: Path) -> None:
    path = str(tmp_path / "graph.lbug")
    alone: dict[str, Answer | Exception] = {}
    database = ladybug.Database(path)
    connection = ladybug.Connection(database)
    for statement in (*SCHEMA, *PEOPLE):
        connection.execute(statement)
    for cypher in (*SHARED, *OF_LADYBUG):
        alone[cypher] = ladybug_alone(ladybug.Connection(database), cypher)
    connection.close()
    database.close()
    async with GraphWorld("ladybug", LadybugNode, {"path": path, "allow_execute": False}).open() as tools:
        differences = {
            cypher: outcome for cypher, answer in alone.items() if (outcome := await compared(tools, cypher, answer)) != "same"
        }
    assert not differences
    assert sum(not isinstance(answer, Exception) for answer in alone.values()) >= 130
