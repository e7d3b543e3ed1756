"""DuckDB's process: its limits, and the innocent calls that survive its end."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest
from sql_contract import Desk, opened, until

from rrext.errors import Cancelled, RrextError, ToolTimeout
from rrext.nodes.sql.duckdb import node as duckdb_process
from rrext.nodes.sql.duckdb.node import DuckdbBackend, DuckdbNode, DuckdbProcess

GIB = 1024**3
ENORMOUS = "SELECT length(repeat('x', 4000000000)) AS n"
NEVER_STOPS = "SELECT jaro_winkler_similarity(repeat('ab', 2000000), repeat('cd', 2000000)) AS n"
"""Minutes of work, during which DuckDB does not look whether anybody still wants it."""
SLOW = "SELECT count(*) AS n FROM range(60000000) t(x) WHERE hash(x) % 7 = 3"
BUSY = 30.0
"""Seconds that a busy machine may take on top of a time limit: what never stops takes minutes."""


def process_of(db: Desk) -> DuckdbProcess:
    return cast(DuckdbProcess, cast(DuckdbBackend, db.database.backend)._supervisor.process())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not stop is ended soon, so that others are at work then."""
    monkeypatch.setattr(duckdb_process, "STUCK_AFTER", 0.2)


@asynccontextmanager
async def on_file(tmp_path: Path, **settings: Any) -> AsyncIterator[Desk]:
    config = {"allow_execute": True, "path": str(tmp_path / "a.duckdb"), "create": True, "statement_timeout": 3.0}
    async with opened(DuckdbNode, {**config, **settings}) as db:
        await db("execute", sql="CREATE TABLE city AS SELECT 'Oslo' AS name")
        yield db


async def killed(db: Desk) -> None:
    """Kill the process from outside, as the system does when memory is short."""
    process = process_of(db)
    os.kill(process.id, signal.SIGKILL)

    async def is_over() -> bool:
        return process.is_over

    await until(is_over)


async def outcome(call: Any) -> str:
    try:
        await call
    except RrextError as error:
        return error.code
    return "answered"


def memory(process: int, what: str) -> int:
    """Bytes, as the system counts them."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{what}:"))


@pytest.mark.promise("duckdb:memory:bounded")
async def test_values_of_any_size_stay_within_the_limit_and_hold_nobody_up(tmp_path: Path) -> None:
    async with on_file(tmp_path, memory_limit="1GB") as db:
        began = monotonic()
        calls = [asyncio.ensure_future(outcome(db("query", sql=ENORMOUS))) for _ in range(8)]
        while not all(call.done() for call in calls):
            assert await db("dialect") == {"dialect": "duckdb"}
            assert (await db("query", sql="SELECT name FROM city"))["rows"] == [{"name": "Oslo"}]
        assert {call.result() for call in calls} <= {"sql_failed", "statement_timeout"}
        assert monotonic() - began < 3.0 + BUSY
        assert memory(process_of(db).id, "VmHWM") < 4 * GIB


async def test_the_limit_is_enforced_by_the_system_and_counts_memory_limit(tmp_path: Path) -> None:
    async with on_file(tmp_path, memory_limit="100MB") as db:
        assert 1.2 * GIB < resource.prlimit(process_of(db).id, resource.RLIMIT_DATA)[0] < 1.4 * GIB
        sql = "SELECT length(repeat('x', 450000000) || repeat('y', 450000000)) AS n"
        assert await outcome(db("query", sql=sql)) in ("sql_failed", "statement_timeout")
        assert (await db("query", sql="SELECT name FROM city"))["rows"] == [{"name": "Oslo"}]


@pytest.mark.promise("duckdb:engine:stuck-alone")
@pytest.mark.usefixtures("impatient")
async def test_what_never_stops_is_ended_in_time_and_innocent_reads_are_answered(tmp_path: Path) -> None:
    async with on_file(tmp_path, pool_size=20, statement_timeout=5.0) as db:
        first = process_of(db).id
        began = monotonic()
        stuck = [asyncio.ensure_future(outcome(db("query", sql=NEVER_STOPS))) for _ in range(8)]
        others: list[asyncio.Future[Any]] = []
        while not all(call.done() for call in stuck):  # others are at work all the time, also when the process ends
            others.append(asyncio.ensure_future(db("query", sql=SLOW.replace("60000000", "2000000"))))
            assert (await db("query", sql="SELECT name FROM city"))["rows"] == [{"name": "Oslo"}]
            await asyncio.sleep(0.1)
        assert {call.result() for call in stuck} == {"statement_timeout"}
        assert monotonic() - began < 5.0 + BUSY
        answers = await asyncio.gather(*others)
        assert {answer["rows"][0]["n"] for answer in answers} == {answers[0]["rows"][0]["n"]}
        assert process_of(db).id != first


@pytest.mark.usefixtures("impatient")
async def test_innocent_writes_and_sessions_read_that_they_are_lost(tmp_path: Path) -> None:
    async with on_file(tmp_path, statement_timeout=5.0) as db:
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO city VALUES ('Bern')", session_id=session)
        stuck = asyncio.ensure_future(outcome(db("query", sql=NEVER_STOPS)))
        process = process_of(db)

        async def writes() -> RrextError | None:
            """One that is at work when the process is ended."""
            while not process.is_over:
                try:
                    await db("execute", sql=f"INSERT INTO city SELECT 'x' WHERE ({SLOW.replace('60', '20')}) < 0")
                except RrextError as error:
                    return error
            return None

        error = await writes()
        assert await stuck == "statement_timeout"
        if error is not None:
            assert error.code == "connection_lost"
            assert "Nothing that was not committed is kept." in str(error.hint)
        over = await db.refusal("execute", sql="SELECT 1", session_id=session)
        assert (over.code, over.data["session"]) == ("connection_lost", "over")
        assert "its session is over" in str(over.hint)
        assert (await db("query", sql="SELECT name FROM city"))["rows"] == [{"name": "Oslo"}]


async def test_a_process_that_is_killed_from_outside_is_replaced_and_reads_go_on(tmp_path: Path) -> None:
    async with on_file(tmp_path, statement_timeout=60.0) as db:
        await db("execute", sql="INSERT INTO city VALUES ('Bern')")
        for _ in range(3):
            await killed(db)  # while nobody uses it
            assert (await db("query", sql="SELECT count(*) AS n FROM city"))["rows"] == [{"n": 2}]
        calls = [asyncio.ensure_future(db("query", sql=SLOW)) for _ in range(2)]
        process = process_of(db)

        async def at_work() -> bool:
            return len(process.busy) == 2

        await until(at_work)
        os.kill(process.id, signal.SIGKILL)
        first, second = await asyncio.gather(*calls)
        assert first["rows"] == second["rows"]


async def test_a_database_in_memory_that_is_lost_is_told_and_never_answered_as_empty() -> None:
    async with opened(DuckdbNode, {"allow_execute": True}) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT 1 AS n")
        session = (await db("begin"))["session_id"]
        await db("execute", sql="INSERT INTO t VALUES (2)", session_id=session)
        await killed(db)
        lost = await db.refusal("execute", sql="SELECT 1", session_id=session)
        assert lost.code == "connection_lost"
        assert "What was written to this database in memory is lost." in str(lost.hint)
        lost = await db.refusal("query", sql="SELECT n FROM t")
        assert lost.code == "database_lost"
        assert 'Gone: "t"' in lost.message
        assert (await db.refusal("query", sql="SELECT n FROM t")).code == "sql_failed"  # there is no such table
        await db("execute", sql="CREATE TABLE t AS SELECT 3 AS n")
        assert (await db("query", sql="SELECT n FROM t"))["rows"] == [{"n": 3}]


@pytest.mark.usefixtures("impatient")
@pytest.mark.promise("duckdb:memory:kept")
async def test_a_read_that_never_stops_takes_no_database_in_memory_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_process, "MOST_LEFT", 1)
    async with opened(DuckdbNode, {"allow_execute": True, "statement_timeout": 4.0}) as db:
        await db("execute", sql="CREATE TABLE kept AS SELECT 1 AS n")
        process = process_of(db)
        assert await outcome(db("query", sql=NEVER_STOPS)) == "statement_timeout"
        assert (await db("query", sql="SELECT n FROM kept"))["rows"] == [{"n": 1}]
        assert process_of(db) is process
        assert await outcome(db("query", sql=NEVER_STOPS)) == "statement_timeout"  # one more than may be left running
        lost = await db.refusal("query", sql="SELECT n FROM kept")
        assert (lost.code, 'Gone: "kept"' in lost.message) == ("database_lost", True)
        assert (await db("query", sql="SELECT 1 AS n"))["rows"] == [{"n": 1}]  # without a call that may write


async def test_a_statement_that_was_left_and_ends_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_process, "STUCK_AFTER", 0.0)
    monkeypatch.setattr(duckdb_process, "MOST_LEFT", 1)
    async with opened(DuckdbNode, {"allow_execute": True, "statement_timeout": 0.5, "threads": 1}) as db:
        await db("execute", sql="CREATE TABLE kept AS SELECT 1 AS n")
        process = process_of(db)
        for _ in range(2):
            sql = "SELECT jaro_winkler_similarity(repeat('ab', 250000), repeat('cd', 250000)) AS n"
            assert await outcome(db("query", sql=sql)) == "statement_timeout"

            async def is_ended() -> bool:
                return all(duckdb_process._is_ended(link) for link in process._left)

            await until(is_ended)
        assert (await db("query", sql="SELECT n FROM kept"))["rows"] == [{"n": 1}]


async def test_tables_of_files_are_there_again_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    async with opened(DuckdbNode, {"files": {"t": "a.csv"}}, root=str(tmp_path)) as db:
        for _ in range(2):
            assert (await db("query", sql="SELECT n FROM t"))["rows"] == [{"n": 1}]
            await killed(db)


@pytest.mark.usefixtures("impatient")
async def test_a_cancelled_call_and_a_deadline_end_what_never_stops_too(tmp_path: Path) -> None:
    async with on_file(tmp_path, statement_timeout=0) as db:
        with pytest.raises(ToolTimeout):
            await db.client.tool(tool="query", node_id="db", input={"sql": NEVER_STOPS}, timeout=0.2)
        process = process_of(db)

        async def at_work() -> bool:
            return bool(process.busy) or process.is_over

        async def at_rest() -> bool:
            return not process.busy or process.is_over

        while not process.is_over:  # a cancel that comes before the work began ends the statement alone
            call = asyncio.ensure_future(db("query", sql=NEVER_STOPS))
            await until(at_work)
            call.cancel()
            with pytest.raises((asyncio.CancelledError, Cancelled)):
                await call
            await until(at_rest)
        assert (await db("query", sql="SELECT name FROM city"))["rows"] == [{"name": "Oslo"}]


async def test_rows_that_were_replaced_are_freed_and_the_log_becomes_part_of_the_file(tmp_path: Path) -> None:
    async with on_file(tmp_path, statement_timeout=60.0) as db:
        for _ in range(50):
            await db("execute", sql="UPDATE city SET name = name || '.'")
        held = await db("query", sql="SELECT memory_usage_bytes AS n FROM duckdb_memory() WHERE tag = 'TRANSACTION'")
        assert held["rows"][0]["n"] < 1024**2
        await db("execute", sql="CREATE TABLE large AS SELECT md5(n::VARCHAR) AS t FROM range(1000000) t(n)")
        await db("execute", sql="INSERT INTO large SELECT t || t FROM large")
        assert (tmp_path / "a.duckdb").stat().st_size > 16 * 1024**2


async def test_a_slow_reader_holds_the_process_back(tmp_path: Path) -> None:
    async with on_file(tmp_path, memory_limit="200MB", statement_timeout=60.0) as db:
        chunks: list[int] = []
        before = memory(os.getpid(), "VmHWM")
        sql = "SELECT repeat('x', 10000) AS t FROM range(50000)"  # half a gigabyte
        value = await db.client.tool(
            tool="query_stream", node_id="db", input={"sql": sql}, on_chunk=lambda chunk: chunks.append(len(chunk))
        )
        assert (value["row_count"], sum(chunks)) == (50_000, 50_000)
        assert memory(process_of(db).id, "VmHWM") < GIB // 2
        assert memory(os.getpid(), "VmHWM") - before < GIB // 4


async def test_the_process_ends_with_the_component(tmp_path: Path) -> None:
    async with on_file(tmp_path) as db:
        process = process_of(db)
        await db("begin")
    assert process.is_over
    assert not (tmp_path / "a.duckdb.wal").exists()  # it closed the database in order


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to processors")
async def test_the_database_has_a_thread_for_each_processor_that_it_may_use() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        async with opened(DuckdbNode, {}) as db:
            assert (await db("query", sql="SELECT current_setting('threads') AS n"))["rows"] == [{"n": 1}]
    finally:
        os.sched_setaffinity(0, allowed)
    async with opened(DuckdbNode, {"threads": 3}) as db:
        assert (await db("query", sql="SELECT current_setting('threads') AS n"))["rows"] == [{"n": 3}]


@pytest.mark.promise("data:session:as-it-is")
async def test_the_time_zone_is_that_of_the_driver_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    async with opened(DuckdbNode, {}) as db:
        answer = await db("query", sql="SELECT TIMESTAMPTZ '2026-01-01 10:00+00' AS z, current_setting('TimeZone') AS name")
        assert answer["rows"] == [{"z": "2026-01-01T19:00:00+09:00", "name": "Asia/Tokyo"}]


OTHERS = {
    *("allow_community_extensions", "autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"),
    *("lock_configuration", "max_memory", "memory_limit", "temp_directory", "write_buffer_row_group_memory_limit"),
    *("arrow_lossless_conversion", "python_enable_replacements", "secret_directory", "threads", "worker_threads"),
    *("allowed_configs", "enable_progress_bar", "enable_progress_bar_print"),  # so that progress can be asked for
}
"""Settings that confine the database, or say how Python reads and shows it."""


@pytest.mark.promise("data:session:as-it-is")
async def test_no_other_setting_is_set() -> None:
    import duckdb

    sql = "SELECT name, value FROM duckdb_settings()"
    with duckdb.connect() as driver:
        alone = {name: str(value) for name, value in driver.execute(sql).fetchall()}
    async with opened(DuckdbNode, {"allow_execute": True}) as db:
        for tool in ("query", "execute"):
            rows = (await db(tool, sql=sql, row_mode="array"))["rows"]
            assert {name for name, value in rows if alone[name] != str(value)} <= OTHERS
