"""What a call of a SQL tool costs beside the driver alone: the same statement on the same database, one after another."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_client import Dap, Server

ROWS = 1000
CREATE = "create table item (id integer primary key, name varchar(40), price integer)"
SELECT = "select id, name, price from item where id = {}"
LEAST = {"execute": 300.0, "query, seen": 500.0, "query, new": 1000.0}
"""Tool and case → microseconds that a call may add to the driver's own, at the median."""

Statement = Callable[[int], Any]


@dataclass(frozen=True)
class Engine:
    """A database: its node, its settings in a folder, and its driver by itself."""

    name: str
    provider: str
    prepare: Callable[[ExitStack, Path], tuple[dict[str, Any], Statement]]
    """Fills the table; the node's settings, and a function that runs the statement for one id by the driver alone."""


def filled(connection: Any, mark: str) -> None:
    """The table with its rows, by any DBAPI connection."""
    cursor = connection.cursor()
    cursor.execute(CREATE)
    rows = [(n, f"name {n}", n * 7) for n in range(ROWS)]
    cursor.executemany(f"insert into item values ({mark}, {mark}, {mark})", rows)
    connection.commit()


def sqlite(stack: ExitStack, folder: Path) -> tuple[dict[str, Any], Statement]:
    import sqlite3

    path = str(folder / "bench.db")
    connection = sqlite3.connect(path)
    stack.callback(connection.close)
    filled(connection, "?")
    sql = SELECT.format("?")
    return {"path": path}, lambda n: connection.execute(sql, (n,)).fetchall()


def duckdb(stack: ExitStack, folder: Path) -> tuple[dict[str, Any], Statement]:
    import duckdb

    path = str(folder / "bench.duckdb")
    connection = duckdb.connect(path)
    filled(connection, "?")
    connection.close()  # one process at a time may have the file: the driver alone gets a copy of the table
    alone = duckdb.connect()
    stack.callback(alone.close)
    filled(alone, "?")
    sql = SELECT.format("?")
    return {"path": path}, lambda n: alone.execute(sql, (n,)).fetchall()


def postgres(stack: ExitStack, folder: Path) -> tuple[dict[str, Any], Statement]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where tests keep it
    from postgres_server import running_postgres

    database = stack.enter_context(running_postgres()).create_database("bench")
    connection = database.connect()
    stack.callback(connection.close)
    filled(connection, "%s")
    sql = SELECT.format("%s")
    return dict(database.settings), lambda n: connection.execute(sql, (n,)).fetchall()


ENGINES = (
    Engine("SQLite", "db_sqlite", sqlite),
    Engine("DuckDB", "db_duckdb", duckdb),
    Engine("PostgreSQL", "db_postgres", postgres),
)


def pipeline(provider: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A pipeline with one database, whose tools are called by the id that the benchmark's client uses."""
    return {
        "project_id": "5f0c6d6b-2d5c-4c44-9a3c-0d2f6f0b7d11",
        "source": "tools_1",
        "version": 1,
        "components": [
            {"id": "tools_1", "provider": "tools", "config": {"mode": "Source"}},
            {
                "id": "bench_1",
                "provider": provider,
                "config": settings,
                "control": [{"classType": "tool", "from": "tools_1"}],
            },
        ],
    }


@contextmanager
def serving(command: list[str], folder: Path, provider: str, settings: dict[str, Any], seconds: float) -> Iterator[Server]:
    """rrext on that pipeline."""
    file = folder / f"{provider}.pipe"
    file.write_text(json.dumps(pipeline(provider, settings)), encoding="utf-8")
    with Server([*command, "serve", str(file)], Dap(), seconds=seconds) as server:
        yield server


def request(case: str, number: int) -> dict[str, Any]:
    """The input for one call. A statement that is new has another text each time."""
    if case == "query, new":
        return {"sql": SELECT.format(number % ROWS) + f" and {number} = {number}"}
    return {"sql": SELECT.format("$1"), "params": [number % ROWS]}


def added(engine: Engine, command: list[str], count: int) -> Iterator[tuple[str, float, float]]:
    """(case, µs of the driver alone, µs of the call), medians. The two take turns in blocks."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings, alone = engine.prepare(stack, folder)
        settings = {**settings, "allow_execute": True}
        server = stack.enter_context(serving(command, folder, engine.provider, settings, 120))
        for case in LEAST:
            tool = case.partition(",")[0]
            taken: list[float] = []
            least: list[float] = []
            frames = [
                server.frame(server.dialect.request(1_000_000 + n, tool, json.dumps(request(case, n)).encode()))
                for n in range(count)
            ]
            server.latencies(frames[:50])
            first = server.call(tool, json.dumps(request(case, 7)).encode())
            if len(first["rows"]) != 1:
                raise RuntimeError(f"{engine.name} answered {first}")
            for block in range(50, count, 100):
                taken += server.latencies(frames[block : block + 100])
                least += list(timed(alone, range(block, min(block + 100, count))))
            yield case, statistics.median(least) * 1e6, statistics.median(taken) * 1e6


def timed(statement: Statement, numbers: range) -> Iterator[float]:
    """Seconds of each run."""
    for n in numbers:
        start = time.perf_counter()
        statement(n % ROWS)
        yield time.perf_counter() - start
