"""A statement of DuckDB that is a transaction of its own: it travels with its commit, and only what is answered is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest
from sql_contract import Desk, opened

from rrext.errors import RrextError
from rrext.nodes.sql.duckdb.instance import DuckdbInstance
from rrext.nodes.sql.duckdb.messages import Begin, DuckdbSettings, SqlCommit, SqlRollback, SqlRows, SqlRun
from rrext.nodes.sql.duckdb.node import DuckdbBackend, DuckdbConnection, DuckdbNode, DuckdbProcess
from rrext.nodes.sql.duckdb.worker import DuckdbSession

COUNT = "SELECT count(*)::INTEGER AS n FROM t"


async def count(db: Desk) -> int:
    return (await db("query", sql=COUNT))["rows"][0]["n"]


async def test_a_call_is_one_request_whatever_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    send = DuckdbConnection._send

    def told(link: DuckdbConnection, request: Any) -> bool:
        asked.append(type(request).__name__)
        return send(link, request)

    async with opened(DuckdbNode, {"allow_execute": True}) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT 1 AS n")
        await db("execute", sql="SELECT n FROM t")
        monkeypatch.setattr(DuckdbConnection, "_send", told)
        for tool, sql in (
            ("execute", "INSERT INTO t VALUES (2)"),
            ("execute", "INSERT INTO t VALUES (3) RETURNING n"),
            ("execute", "SELECT n FROM t"),
            ("query", "SELECT n FROM t"),
        ):
            asked.clear()
            await db(tool, sql=sql)
            assert asked == ["SqlRun"], sql
        assert await count(db) == 3


@pytest.mark.parametrize("cell", ["repeat('x', 17000000)", "repeat('\\xFF', 13000000)::BLOB"], ids=["text", "base64"])
async def test_a_statement_whose_rows_cannot_be_answered_is_not_kept(cell: str) -> None:
    async with opened(DuckdbNode, {"allow_execute": True}) as db:
        await db("execute", sql="CREATE TABLE t (n INTEGER)")
        assert (await db.refusal("execute", sql=f"INSERT INTO t VALUES (1) RETURNING {cell} AS t")).code == "result_too_large"
        assert await count(db) == 0


def seat_of(path: Path) -> DuckdbSession:
    return DuckdbSession(
        DuckdbInstance(DuckdbSettings(str(path), path.name, create=True, writes=True, memory_limit="1GB", threads=1))
    )


def run(begin: Begin, sql: str) -> SqlRun:
    return SqlRun(begin, sql, [], nested_as_text=True, size=64)


def test_a_statement_that_is_stopped_at_its_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seat = seat_of(tmp_path / "a.duckdb")
    for number, request in enumerate((run("write", "CREATE TABLE t (n INTEGER)"), SqlCommit()), 1):
        seat.do(number, request)
    done = DuckdbSession._run

    def then_stopped(seat: DuckdbSession, connection: duckdb.DuckDBPyConnection, request: SqlRun) -> SqlRows:
        answer = done(seat, connection, request)
        seat.interrupt(3)
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(DuckdbSession, "_run", then_stopped)
        with pytest.raises(duckdb.InterruptException):
            seat.do(3, run("once", "INSERT INTO t VALUES (1)"))
    seat.do(4, SqlRollback(is_answered=True))
    assert cast(SqlRows, seat.do(5, run("read", COUNT))).rows == [(0,)]
    seat.close()


def killed_in_commit(process: DuckdbProcess, is_over: threading.Event) -> None:
    while not process.has_commits:
        if is_over.is_set():
            return
    os.kill(process.id, signal.SIGKILL)


async def test_a_statement_whose_process_ends_in_the_commit_reads_that_it_may_be_kept(tmp_path: Path) -> None:
    async with opened(DuckdbNode, {"allow_execute": True, "path": str(tmp_path / "a.duckdb"), "create": True}) as db:
        await db("execute", sql="CREATE TABLE t AS SELECT n FROM range(300000) r(n)")
        lost: object = None
        for _ in range(20):  # a commit may be over before it is seen, or before the kill: that hits the next statement then
            process = cast(DuckdbProcess, cast(DuckdbBackend, db.database.backend)._supervisor.process())
            is_over = threading.Event()
            watching = asyncio.ensure_future(asyncio.to_thread(killed_in_commit, process, is_over))
            (lost,) = await asyncio.gather(db("execute", sql="UPDATE t SET n = n + 1"), return_exceptions=True)
            is_over.set()
            await watching
            if isinstance(lost, RrextError) and "committed" in lost.data:
                break
        assert isinstance(lost, RrextError)
        assert (lost.code, lost.data["committed"]) == ("connection_lost", None)
        assert "Whether it was kept is not known." in str(lost.hint)
        kept = await db("query", sql="SELECT max(n) - min(n) AS n FROM t")
        assert kept["rows"] == [{"n": 299_999}]  # all of it or nothing
