"""Every attack through the tool `query` against real databases: whatever is answered, nothing has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bolt_server import BoltServer
from cypher_attacks import (
    ALIASES,
    BEYOND_THE_GRAPH,
    CHANGES,
    NESTED,
    OF_LADYBUG,
    OF_SERVERS,
    OPTIONS_BY_NAME_ALONE,
    nested,
)
from graph_world import GraphWorld, Tools

from rrext.errors import InvalidArguments, RrextError, ToolError
from rrext.nodes.graph.ladybug import LadybugNode
from rrext.nodes.graph.ladybug_rules import EmbeddedSettings, failure_of
from rrext.nodes.graph.ladybug_worker import EmbeddedBackend
from rrext.nodes.graph.neo4j import Neo4jNode

pytestmark = pytest.mark.usefixtures("forked_children")

Traces = dict[str, Any]


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix not in (".lbug", ".lock", ".wal"))


async def traces(tools: Tools, folder: Path) -> Traces:
    """Everything that an attack could leave: elements, properties, labels, types, and files."""
    schema = await tools("refresh_schema")
    return {
        "nodes": sorted(map(str, await tools.rows("MATCH (n) RETURN labels(n) AS l, n.name AS n, n.born AS b"))),
        "relationships": await tools.value("MATCH ()-[r]->() RETURN count(*) AS n"),
        "schema": {key: schema[key] for key in ("nodes", "relationships")},
        "files": files_of(folder),
    }


def attacks_on(kind: str, folder: Path) -> list[str]:
    own = OF_SERVERS if kind == "neo4j" else tuple(attack.replace("{folder}", str(folder)) for attack in OF_LADYBUG)
    return [*CHANGES, *own]


async def outcome(tools: Tools, attack: str) -> tuple[str, str]:
    """The code of the error, or "answered", and all that the caller gets to read."""
    try:
        return "answered", str(await tools("query", query=attack))
    except RrextError as error:
        return error.code, f"{error.message} {error.hint} {error.data}"


@pytest.mark.promise("data:read-only:twice")
async def test_no_attack_leaves_a_trace_or_learns_of_a_file(graph: GraphWorld, tmp_path: Path) -> None:
    async with graph.open() as tools:
        before = await traces(tools, tmp_path)
        for attack in attacks_on(graph.kind, tmp_path):
            code, text = await outcome(tools, attack)
            assert code in ("not_read_only", "invalid_arguments"), attack
            assert "root:x" not in text, attack
        assert await traces(tools, tmp_path) == before


@pytest.mark.parametrize(
    "attack", [*[attack for attack in CHANGES if "p.born" in attack or "Paris" in attack][:24:3], *ALIASES[:4:2], ALIASES[-1]]
)
async def test_the_traces_would_have_been_seen(graph: GraphWorld, tmp_path: Path, attack: str) -> None:
    """A check that cannot fail proves nothing: where a database takes an attack, its traces are found."""
    async with graph.open() as tools:
        before = await traces(tools, tmp_path)
        try:
            await tools("execute", query=attack)
        except (ToolError, InvalidArguments):
            assert await traces(tools, tmp_path) == before  # not in this database's language
            assert not attack.startswith(("CREATE (", "MATCH (p:Person) SET p.born", "create", "MERGE (:"))
        else:
            assert await traces(tools, tmp_path) != before


async def test_a_server_reads_files_for_who_may_execute(bolt_server: BoltServer) -> None:
    """So the gate is all that stands between `query` and the files of the test server."""
    attack = "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line LIMIT 1"
    async with GraphWorld("neo4j", Neo4jNode, bolt_server.config(allow_execute=True)).open() as tools:
        assert "root" in str((await tools("execute", query=attack))["rows"])
        assert (await tools.fails("query", query=attack)).code == "not_read_only"


async def test_files_are_out_of_reach_for_who_may_execute_in_this_process(tmp_path: Path) -> None:
    attacks = [attack for attack in OF_LADYBUG if attack.split()[0] in ("COPY", "LOAD", "EXPORT", "CALL")][:12]
    async with GraphWorld("ladybug", LadybugNode, {"allow_execute": True}).open() as tools:
        for attack in attacks:
            for statement in (attack, f"PROFILE {attack}"):
                error = await tools.fails("execute", query=statement.replace("{folder}", str(tmp_path)))
                assert error.code in ("statement_refused", "invalid_arguments"), statement
    assert not files_of(tmp_path)


async def test_what_reaches_beyond_the_graph_is_refused_however_it_begins(tmp_path: Path) -> None:
    async with GraphWorld("ladybug", LadybugNode, {"allow_execute": True}).open() as tools:
        for attack in BEYOND_THE_GRAPH:
            error = await tools.fails("execute", query=attack.replace("{folder}", str(tmp_path)))
            assert error.code == "statement_refused", attack


async def test_the_engine_reads_what_is_nested_as_deeply_as_the_gate_lets_through() -> None:
    async with GraphWorld("ladybug", LadybugNode, {}).open() as tools:
        for before, after, depth in NESTED:
            await tools("query", query=nested(before, after, depth))


async def test_properties_may_be_called_as_the_options_of_a_table() -> None:
    async with GraphWorld("ladybug", LadybugNode, {"allow_execute": True}).open() as tools:
        for statement in OPTIONS_BY_NAME_ALONE:
            await tools("execute", query=statement)
        assert await tools.rows("MATCH (d:Disk) RETURN d.storage, d.format") == [["a", "c"]]


def nobody_minds() -> None:
    return


@pytest.mark.parametrize(
    ("statement", "is_stopped"),
    [
        ("MATCH (p:Person) SET p.born = 1", True),
        ("CREATE NODE TABLE T(id INT64 PRIMARY KEY)", True),
        ("MATCH (p:Person) DETACH DELETE p", True),
        ("COPY (MATCH (p:Person) RETURN p.name) TO '{folder}/stolen.csv'", False),  # the gate alone stops this one
    ],
)
def test_behind_the_gate_the_engine_refuses_writes_too(statement: str, is_stopped: bool, tmp_path: Path) -> None:
    backend = EmbeddedBackend(EmbeddedSettings("", False, 64, 1, 1.0))
    try:
        for read_only, cypher in (
            (False, "CREATE NODE TABLE Person(name STRING PRIMARY KEY, born INT64)"),
            (True, statement.replace("{folder}", str(tmp_path))),
        ):
            transaction = backend.transaction(read_only=read_only, timeout=10.0, check=nobody_minds)
            transaction.start()
            try:
                transaction.run(cypher, {}).close()
                transaction.commit()
            except Exception as error:
                failure = failure_of(error)
                assert is_stopped
                assert failure is not None
                assert failure.kind == "read_only"
            else:
                assert not (read_only and is_stopped)
            finally:
                transaction.end()
    finally:
        backend.close()
    assert (tmp_path / "stolen.csv").exists() is not is_stopped
