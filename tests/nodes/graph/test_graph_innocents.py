"""A statement that holds up or ends the embedded engine takes no call of others with it, and is answered in its time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest
from graph_world import GraphWorld, Tools

from rrext.errors import RrextError
from rrext.nodes.graph import ladybug_rules as embedded_calls
from rrext.nodes.graph.ladybug import LadybugNode

CITY = "CREATE NODE TABLE City(name STRING PRIMARY KEY)"
OSLO = "CREATE (:City {name: 'Oslo'})"
CITIES = "MATCH (c:City) RETURN c.name AS name ORDER BY name"
NEVER_STOPS = "RETURN levenshtein(repeat('ab', 1000000), repeat('ba', 1000000)) AS n"
"""Some hours of work, during which the engine does not look whether anybody still wants it."""
ENDS = "RETURN id(null) AS x"
SLOW = "UNWIND range(1, 3000000) AS x RETURN count(x % 7) AS n"
BUSY = 30.0
"""Seconds that a busy machine may take on top of a time limit: what never stops takes hours."""


def world(path: Path | None = None, **settings: Any) -> GraphWorld:
    config = {"allow_execute": True, "path": str(path or ""), "statement_timeout": 3.0, "threads": 1, **settings}
    return GraphWorld("ladybug", LadybugNode, config)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not stop is ended soon, so that others are at work then."""
    monkeypatch.setattr(embedded_calls.GraphRun, "patience", 0.2)


class Outcomes:
    """How calls beside each other ended, and how long each took."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.codes: list[str] = []
        self.seconds: list[float] = []
        self.answers: list[Any] = []

    async def of(self, tool: str, statement: str, **input: Any) -> None:
        since = monotonic()
        try:
            self.answers.append((await self.tools(tool, query=statement, **input))["rows"])
            self.codes.append("answered")
        except RrextError as error:
            self.codes.append(error.code)
        self.seconds.append(monotonic() - since)


async def killed(tools: Tools) -> None:
    """Have the process be killed for a statement that does not stop."""
    assert (await tools.fails("query", query=NEVER_STOPS)).code == "statement_timeout"


@pytest.mark.promise("graph:engine:stuck-alone")
@pytest.mark.usefixtures("impatient")
async def test_eight_statements_that_never_stop_are_answered_in_time_and_hold_nobody_up(tmp_path: Path) -> None:
    async with world(tmp_path / "graph", statement_timeout=5.0).open() as tools:
        await tools("execute", query=CITY)
        await tools("execute", query=OSLO)
        stuck, others = Outcomes(tools), Outcomes(tools)
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(stuck.of, "query", NEVER_STOPS)
            while not stuck.codes:  # others are at work all the time, also when the process ends
                await others.of("query", CITIES)
                assert await tools("dialect") == {"dialect": "ladybug"}
                group.start_soon(others.of, "query", SLOW.replace("3000000", "200000"))
                await anyio.sleep(0.1)
            for _ in range(10):
                await others.of("query", CITIES)
                await anyio.sleep(0.05)
        assert stuck.codes == ["statement_timeout"] * 8
        assert max(stuck.seconds) < 5.0 + BUSY
        assert set(others.codes) == {"answered"}
        assert max(others.seconds) < 5.0 + BUSY
        assert [{"name": "Oslo"}] in others.answers


@pytest.mark.parametrize("number", [1, 3])
async def test_queries_that_end_the_engine_fail_alone_and_those_beside_them_are_answered(number: int, tmp_path: Path) -> None:
    async with world(tmp_path / "graph", statement_timeout=20.0).open() as tools:
        await tools("execute", query=CITY)
        await tools("execute", query=OSLO)
        guilty, others = Outcomes(tools), Outcomes(tools)
        async with anyio.create_task_group() as group:
            for _ in range(4):  # each runs alone at first, for a second: on a slow machine too it is done by then
                group.start_soon(others.of, "query", SLOW.replace("3000000", "300000"))
            for _ in range(number):
                group.start_soon(guilty.of, "query", ENDS)
        assert guilty.codes == ["graph_crashed"] * number
        assert others.codes == ["answered"] * 4
        assert others.answers == [[{"n": 300_000}]] * 4
        assert await tools.rows(CITIES) == [["Oslo"]]


@pytest.mark.usefixtures("impatient")
async def test_a_session_that_was_lost_says_that_nothing_of_it_was_kept(tmp_path: Path) -> None:
    async with world(tmp_path / "graph", statement_timeout=2.0).open() as tools:
        await tools("execute", query=CITY)
        session = (await tools("begin"))["session_id"]
        await tools("execute", query=OSLO, session_id=session)
        await killed(tools)
        await gone(tools)
        error = await tools.fails("commit", session_id=session)
        assert error.code == "graph_crashed"
        assert error.data["committed"] is False
        assert "Nothing of this transaction was kept" in (error.hint or "")
        assert await tools.rows(CITIES) == []


async def gone(tools: Tools) -> None:
    """Return when the process that was stuck is gone: one that begins to write then has another one."""
    while (await outcome_of(tools, OSLO)) != "answered":
        await anyio.sleep(0.05)
    await tools("execute", query="MATCH (c:City) DELETE c")


async def outcome_of(tools: Tools, statement: str) -> str:
    outcomes = Outcomes(tools)
    await outcomes.of("execute", statement)
    return outcomes.codes[0]


@pytest.mark.usefixtures("impatient")
async def test_a_statement_that_waits_to_write_is_done_after_the_one_that_never_stops(tmp_path: Path) -> None:
    async with world(tmp_path / "graph").open() as tools:
        await tools("execute", query=CITY)
        stuck, waiting = Outcomes(tools), Outcomes(tools)
        async with anyio.create_task_group() as group:
            group.start_soon(stuck.of, "execute", NEVER_STOPS)
            await anyio.sleep(1.0)  # so that its time is not over when that of the other one is
            group.start_soon(waiting.of, "execute", OSLO)
        assert stuck.codes == ["statement_timeout"]
        assert waiting.codes == ["answered"]
        assert await tools.rows(CITIES) == [["Oslo"]]


@pytest.mark.usefixtures("impatient")
async def test_a_stream_goes_on_as_it_was_or_says_that_it_was_cut(tmp_path: Path) -> None:
    async with world(tmp_path / "graph").open() as tools:
        rows: list[Any] = []
        async with anyio.create_task_group() as group:
            group.start_soon(Outcomes(tools).of, "query", NEVER_STOPS)
            answer = await tools.client.tool(
                tool="query_stream",
                input={"query": "UNWIND range(1, 2000) AS x RETURN x", "row_mode": "array"},
                on_chunk=rows.extend,
            )
        assert answer["row_count"] == len(rows) == 2000
        assert rows == [[number] for number in range(1, 2001)]


@pytest.mark.parametrize("loss", [lambda tools: tools.fails("query", query=ENDS), killed])
@pytest.mark.usefixtures("impatient")
async def test_a_database_in_memory_says_that_its_data_is_lost(loss: Callable[[Tools], Any]) -> None:
    async with world(statement_timeout=2.0).open() as tools:
        await tools("execute", query=CITY)
        await tools("execute", query=OSLO)
        await loss(tools)
        codes: list[str] = []
        while "database_lost" not in codes:
            outcomes = Outcomes(tools)
            await outcomes.of("query", CITIES)
            codes += outcomes.codes
            assert outcomes.answers in ([], [[{"name": "Oslo"}]])  # never an empty database as if it were this one
        assert (await tools.fails("query", query=CITIES)).code == "cypher_failed"  # told once; there is no such table
        await tools("execute", query=CITY)
        assert await tools.rows(CITIES) == []
