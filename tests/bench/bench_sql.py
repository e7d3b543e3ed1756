"""What a call of a SQL tool costs beside the driver alone: the same work on the same database, one after another."""

from __future__ import annotations

import asyncio
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

import rrext

ROWS = 1000
CREATE = "create table item (id integer primary key, name varchar(40), price integer)"
SELECT = "select id, name, price from item where id = {}"
LEAST = {"execute": 300.0, "query, seen": 500.0, "query, new": 1000.0}
"""Tool and case → microseconds that a call may add to the driver's own, at the median."""

MANY = 10_000
INSERTED = 5_000
MANY_TIMES = {f"{MANY:,} rows, query": 4.0, f"{INSERTED:,} rows, insert": 3.0}
"""Case of `client.database.query` → times that a call may take as long as the driver alone, at the median."""


@dataclass(frozen=True)
class Engine:
    """A database: its node, its settings in a folder, and its driver by itself."""

    name: str
    provider: str
    mark: str
    """What stands for a value in a statement of the driver."""
    prepare: Callable[[ExitStack, Path, int], tuple[dict[str, Any], Any]]
    """Fills the table with that many rows; the node's settings, and a connection of the driver."""


def filled(connection: Any, mark: str, rows: int) -> None:
    """The table with its rows, by any DBAPI connection."""
    cursor = connection.cursor()
    cursor.execute(CREATE)
    cursor.executemany(f"insert into item values ({mark}, {mark}, {mark})", [(n, f"name {n}", n * 7) for n in range(rows)])
    connection.commit()


def sqlite(stack: ExitStack, folder: Path, rows: int) -> tuple[dict[str, Any], Any]:
    import sqlite3

    path = str(folder / "bench.db")
    connection = sqlite3.connect(path)
    stack.callback(connection.close)
    filled(connection, "?", rows)
    return {"path": path}, connection


def duckdb(stack: ExitStack, folder: Path, rows: int) -> tuple[dict[str, Any], Any]:
    import duckdb

    path = str(folder / "bench.duckdb")
    connection = duckdb.connect(path)
    filled(connection, "?", rows)
    connection.close()  # one process at a time may have the file: the driver alone gets a copy of the table
    alone = duckdb.connect()
    stack.callback(alone.close)
    filled(alone, "?", rows)
    return {"path": path}, alone


def postgres(stack: ExitStack, folder: Path, rows: int) -> tuple[dict[str, Any], Any]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where tests keep it
    from postgres_server import running_postgres

    database = stack.enter_context(running_postgres()).create_database("bench")
    connection = database.connect()
    stack.callback(connection.close)
    filled(connection, "%s", rows)
    return dict(database.settings), connection


ENGINES = (
    Engine("SQLite", "db_sqlite", "?", sqlite),
    Engine("DuckDB", "db_duckdb", "?", duckdb),
    Engine("PostgreSQL", "db_postgres", "%s", postgres),
)
OF_MANY = (ENGINES[0], ENGINES[2])
"""DuckDB's driver takes seconds for the same rows, a row at a time."""


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
        settings, connection = engine.prepare(stack, folder, ROWS)
        sql = SELECT.format(engine.mark)
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
                least += list(timed(connection, sql, range(block, min(block + 100, count))))
            yield case, statistics.median(least) * 1e6, statistics.median(taken) * 1e6


def timed(connection: Any, sql: str, numbers: range) -> Iterator[float]:
    """Seconds of each run of a statement by the driver."""
    for n in numbers:
        start = time.perf_counter()
        connection.execute(sql, (n % ROWS,)).fetchall()
        yield time.perf_counter() - start


def many_times(engine: Engine, command: list[str], turns: int) -> Iterator[tuple[str, float, float]]:
    """(case, ms of the driver alone, ms of `client.database.query`), medians of turns, for as many rows as `MANY_TIMES` says.

    The driver reads all rows as tuples, and inserts them by `executemany`; the client does each by one statement.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings, connection = engine.prepare(stack, folder, MANY)
        file = folder / "many.pipe"
        file.write_text(json.dumps(pipeline(engine.provider, {**settings, "allow_execute": True, "max_execute_rows": MANY})))
        yield from asyncio.run(_many_times(engine, connection, file, [*command, "serve"], turns))


async def _many_times(
    engine: Engine, connection: Any, file: Path, command: list[str], turns: int
) -> list[tuple[str, float, float]]:
    mark = engine.mark
    numbers = range(MANY, MANY + INSERTED)
    rows = [(n, f"name {n}", n * 7) for n in numbers]
    places = ", ".join(f"(${3 * n + 1}, ${3 * n + 2}, ${3 * n + 3})" for n in range(INSERTED))
    params = [cell for row in rows for cell in row]
    sql, insert = f"select id, name, price from item where id < {MANY}", f"insert into item values {places}"
    taken: dict[str, list[tuple[float, float]]] = {case: [] for case in MANY_TIMES}
    query, inserting = MANY_TIMES

    def clear() -> None:
        connection.execute(f"delete from item where id >= {MANY}")
        connection.commit()

    async with rrext.Client.spawn(file, command=command) as client:
        for _ in range(turns):
            start = time.perf_counter()
            found = connection.execute(sql).fetchall()
            connection.commit()
            between = time.perf_counter()
            answer = await client.database.query(sql)
            taken[query].append((between - start, time.perf_counter() - between))
            if [tuple(row.values()) for row in answer["rows"]] != sorted(found):
                raise RuntimeError(f"{engine.name} answered other rows than its driver")
            clear()
            start = time.perf_counter()
            connection.cursor().executemany(f"insert into item values ({mark}, {mark}, {mark})", rows)
            connection.commit()
            between = time.perf_counter()
            clear()
            again = time.perf_counter()
            answer = await client.database.query(insert, params=params)
            taken[inserting].append((between - start, time.perf_counter() - again))
            if answer["affected_rows"] != INSERTED:
                raise RuntimeError(f"{engine.name} answered {answer}")
    medians = {case: [statistics.median(side) * 1e3 for side in zip(*pairs, strict=True)] for case, pairs in taken.items()}
    return [(case, alone, through) for case, (alone, through) in medians.items()]
