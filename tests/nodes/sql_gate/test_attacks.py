"""Every attack, run twice: through the whole tool, and without the gate, so that the database itself has to hold."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from postgres_server import Database
from sql_attacks import SECRET, Attack, NoGate, World, attacks, broken_by
from sql_contract import Desk, opened

from rrext.nodes.databases.calls import collected
from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.nodes.sql.postgres.node import PostgresNode
from rrext.nodes.sql.sqlite import SqliteNode
from rrext.tools.context import ToolContext

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("forked_children")]

POSTGRES_SETTINGS = "transaction_read_only default_transaction_read_only statement_timeout search_path role work_mem"
SERIALIZED = "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT nextval(''counter'')'))"
GATE_ALONE = {
    "sqlite": {},
    "duckdb": {SERIALIZED: "DuckDB moves a sequence on in a read-only transaction, if SQL within SQL does it"},
    "postgres": {"ANALYZE victim": "PostgreSQL lets a table's owner gather statistics in a read-only transaction"},
}
"""SqlDialect → attacks that only the gate stops, with the reason why the database lets them through."""


class Board:
    """A database under attack: its node without and with the gate, and what can be seen of it."""

    def __init__(self, desk: Desk, world: World) -> None:
        self.desk = desk
        self.world = world
        world.prepare()

    async def query(self, sql: str) -> Any:
        return await self.desk("query", sql=sql)

    async def broken(self, wanted: tuple[Attack, ...]) -> dict[str, str]:
        """Attack → what it did."""
        found: dict[str, str] = {}
        for attack in wanted:
            done, _ = await broken_by(attack, self.world, self.query)
            if done:
                found[attack.sql] = done
        return found


@asynccontextmanager
async def sqlite_board(folder: Path) -> AsyncIterator[Board]:
    path = folder.parent / "attacked.db"
    with sqlite3.connect(path) as made:
        made.executescript(
            "CREATE TABLE victim (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO victim VALUES (1, 'a'), (2, 'b');"
            "CREATE INDEX victim_name ON victim (name); CREATE VIRTUAL TABLE note USING fts5(line)"
        )
    made.close()

    async def look() -> Mapping[str, Any]:
        seen: dict[str, Any] = {}
        with sqlite3.connect(path, timeout=0, isolation_level=None) as eye:
            seen["rows"] = eye.execute("SELECT * FROM victim").fetchall()
            seen["schema"] = eye.execute("SELECT name, sql FROM sqlite_master").fetchall()
            names = ("user_version", "application_id", "journal_mode")
            seen["settings"] = [eye.execute(f"PRAGMA {name}").fetchone() for name in names]
            try:
                eye.execute("BEGIN IMMEDIATE")
                eye.execute("ROLLBACK")
                seen["lock"] = False
            except sqlite3.OperationalError:
                seen["lock"] = True
        eye.close()
        return seen

    async with opened(SqliteNode, {"path": str(path), "statement_timeout": 2.0}) as desk:
        await desk("dialect")
        yield Board(desk, World(folder, look))


@asynccontextmanager
async def duckdb_board(folder: Path) -> AsyncIterator[Board]:
    config = {"memory_limit": "200MB", "threads": 1, "statement_timeout": 2.0, "allow_execute": True}
    async with opened(DuckdbNode, config) as desk:
        for sql in (
            "CREATE TABLE victim (id INTEGER PRIMARY KEY, name TEXT)",
            "INSERT INTO victim VALUES (1, 'a'), (2, 'b')",
            "CREATE SEQUENCE counter",
            "CREATE VIEW shown AS SELECT 1 AS one",
        ):
            await desk("execute", sql=sql)

        def run(sql: str) -> list[Any]:
            with (
                desk.database.transaction(ToolContext(), read_only=True) as transaction,
                transaction.statement(sql, (), ToolContext()) as result,
            ):
                return collected(result, 10_000)

        def macro() -> bool:
            try:
                run("SELECT made(1)")
            except Exception:
                return False
            return True

        def read() -> Mapping[str, Any]:
            return {
                "rows": run("SELECT * FROM victim"),
                "schema": run("SELECT schema_name, table_name, sql FROM duckdb_tables()")
                + run("SELECT view_name FROM duckdb_views() WHERE NOT internal")
                + run("SELECT schema_name, comment FROM duckdb_schemas() WHERE NOT internal")
                + run("SELECT database_name, comment FROM duckdb_databases()"),
                "sequence": run("SELECT sequence_name, last_value FROM duckdb_sequences()"),
                "settings": run("SELECT name, value FROM duckdb_settings()"),
            }

        async def look() -> Mapping[str, Any]:
            return {**await asyncio.to_thread(read), "macro": await asyncio.to_thread(macro)}

        yield Board(desk, World(folder, look))


POSTGRES_WORLD = (
    "CREATE TABLE victim (id int PRIMARY KEY, name text)",
    "INSERT INTO victim VALUES (1, 'a'), (2, 'b')",
    "CREATE SEQUENCE counter",
    "SELECT nextval('counter')",
    "CREATE MATERIALIZED VIEW shown AS SELECT 1 AS one",
    "CREATE FUNCTION destroy() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM victim; RETURN 1; END'",
    "CREATE FUNCTION destroy_row(v victim) RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM victim; RETURN 1; END'",
    "CREATE PROCEDURE destroyer() LANGUAGE plpgsql AS 'BEGIN DELETE FROM victim; END'",
)
POSTGRES_LOOK = {
    "rows": "SELECT id, name FROM victim ORDER BY id",
    "sequence": "SELECT last_value, is_called FROM counter",
    "schema": "SELECT oid::regclass::text, reltuples::int, relacl::text FROM pg_class "
    "WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
    "temporary": "SELECT relname FROM pg_class WHERE relpersistence = 't'",
    "comments": "SELECT description FROM pg_description WHERE objoid = 'victim'::regclass",
    "functions": "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
    "roles": "SELECT rolname, rolconfig FROM pg_roles ORDER BY 1",
    "extensions": "SELECT extname FROM pg_extension",
    "large objects": "SELECT oid FROM pg_largeobject_metadata",
    "slots": "SELECT slot_name FROM pg_replication_slots",
    "locks": "SELECT locktype, mode FROM pg_locks WHERE pid <> pg_backend_pid() AND locktype = 'advisory'",
    "configured": "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf'",
    "loaded at": "SELECT pg_conf_load_time()",
}


@asynccontextmanager
async def postgres_board(folder: Path, database: Database, **role: str) -> AsyncIterator[Board]:
    database.run(*POSTGRES_WORLD)
    config = {**database.settings, **role, "statement_timeout": 2.0, "pool_size": 1}
    with database.connect() as eye:
        async with opened(PostgresNode, config) as desk:
            await desk("dialect")

            def read() -> Mapping[str, Any]:
                # The only connection first: what an attack left in its session is undone when that gives it back.
                with desk.database.transaction(ToolContext(), read_only=True) as transaction:
                    names = POSTGRES_SETTINGS.split()
                    settings = [transaction.connection.execute(f"SHOW {name}").fetchone() for name in names]
                seen = {name: eye.execute(sql.encode()).fetchall() for name, sql in POSTGRES_LOOK.items()}
                return {**seen, "settings": settings}

            async def look() -> Mapping[str, Any]:
                return await asyncio.to_thread(read)

            yield Board(desk, World(folder, look))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


@pytest.fixture(params=["sqlite", "duckdb"])
async def embedded(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Board]:
    async with (sqlite_board if request.param == "sqlite" else duckdb_board)(folder) as board:
        yield board


@pytest.mark.promise("data:read-only:twice")
async def test_no_attack_gets_through_the_tool(embedded: Board) -> None:
    assert await embedded.broken(attacks((await embedded.desk("dialect"))["dialect"])) == {}


async def test_no_attack_gets_through_the_database_alone(embedded: Board) -> None:
    dialect = (await embedded.desk("dialect"))["dialect"]
    embedded.desk.database.gate = NoGate()  # pyright: ignore[reportAttributeAccessIssue]
    alone = GATE_ALONE[dialect]
    found = await embedded.broken(attacks(dialect))
    assert found.keys() == alone.keys(), found


async def test_no_attack_on_postgres_gets_through_the_tool_though_its_role_may_do_everything(
    postgres_database: Database, folder: Path
) -> None:
    async with postgres_board(folder, postgres_database) as board:
        assert await board.broken(attacks("postgres")) == {}


async def test_no_attack_on_postgres_gets_through_the_database_alone_with_a_role_that_only_owns_its_tables(
    postgres_database: Database, folder: Path
) -> None:
    postgres_database.run("CREATE ROLE plain LOGIN PASSWORD 'plain'", "GRANT ALL ON SCHEMA public TO plain")
    try:
        async with postgres_board(folder, postgres_database, user="plain", password="plain") as board:
            postgres_database.run("ALTER TABLE victim OWNER TO plain", "ALTER SEQUENCE counter OWNER TO plain")
            board.desk.database.gate = NoGate()  # pyright: ignore[reportAttributeAccessIssue]
            found = await board.broken(attacks("postgres"))
            assert found.keys() == GATE_ALONE["postgres"].keys(), found
    finally:
        postgres_database.run("DROP OWNED BY plain CASCADE", "DROP ROLE plain")


# canaries: the checks see what they are there for


async def changes(world: World, act: Callable[[], Awaitable[Any]]) -> set[str]:
    before = await world.seen()
    await act()
    after = await world.seen()
    return {name for name in before if before[name] != after[name]}


async def test_a_file_that_is_written_and_a_secret_that_is_told_are_seen(embedded: Board) -> None:
    async def write() -> None:
        (embedded.world.folder / "written").write_text("x")

    async def tell(sql: str) -> Any:
        return await embedded.query(f"SELECT '{SECRET}'")

    assert await changes(embedded.world, write) == {"files"}
    assert await broken_by(Attack("file_read", "SELECT 1"), embedded.world, tell) == ("told the secret", None)


async def test_what_is_done_to_sqlite_is_seen(folder: Path) -> None:
    async with sqlite_board(folder) as board:
        writer = sqlite3.connect(folder.parent / "attacked.db", isolation_level=None)

        def doing(sql: str) -> Callable[[], Awaitable[Any]]:
            return lambda: _done(writer, sql)

        assert await changes(board.world, doing("DELETE FROM victim")) == {"rows"}
        assert await changes(board.world, doing("CREATE TABLE made (a)")) == {"schema"}
        assert await changes(board.world, doing("PRAGMA user_version = 5")) == {"settings"}
        assert await changes(board.world, doing("BEGIN IMMEDIATE")) == {"lock"}
        writer.close()


async def _done(writer: sqlite3.Connection, sql: str) -> None:
    writer.execute(sql)


async def test_what_is_done_to_duckdb_is_seen(folder: Path) -> None:
    async with duckdb_board(folder) as board:

        def doing(sql: str) -> Callable[[], Awaitable[Any]]:
            return lambda: board.desk("execute", sql=sql)

        assert await changes(board.world, doing("DELETE FROM victim")) == {"rows"}
        assert await changes(board.world, doing("SELECT nextval('counter')")) == {"sequence"}
        for sql in ("CREATE TABLE made (a INTEGER)", "DROP VIEW shown"):
            assert await changes(board.world, doing(sql)) == {"schema"}
        assert await changes(board.world, doing("CREATE MACRO made(a) AS a")) == {"macro"}


async def test_what_is_done_to_postgres_is_seen(postgres_database: Database, folder: Path) -> None:
    async with postgres_board(folder, postgres_database) as board:

        def doing(*sql: str) -> Callable[[], Awaitable[Any]]:
            return lambda: asyncio.to_thread(postgres_database.run, *sql)

        def loading(*sql: str) -> Callable[[], Awaitable[Any]]:
            """Load the configuration after these statements, and return when the server has."""

            def load() -> None:
                before = postgres_database.run("SELECT pg_conf_load_time()")
                postgres_database.run(*sql, "SELECT pg_reload_conf()")
                while postgres_database.run("SELECT pg_conf_load_time()") == before:
                    pass

            return lambda: asyncio.to_thread(load)

        assert await changes(board.world, doing("UPDATE victim SET name = 'x'")) == {"rows"}
        assert await changes(board.world, doing("SELECT nextval('counter')")) == {"sequence"}
        assert "schema" in await changes(board.world, doing("CREATE TABLE made (a int)"))
        assert await changes(board.world, doing("COMMENT ON TABLE victim IS 'x'")) == {"comments"}
        assert await changes(board.world, doing("SELECT lo_create(4713)")) == {"large objects"}
        assert await changes(board.world, loading()) == {"loaded at"}
        with postgres_database.connect() as holder:

            async def hold() -> None:
                holder.execute("SELECT pg_advisory_lock(1)")

            assert await changes(board.world, hold) == {"locks"}

        configure = loading("ALTER SYSTEM SET work_mem = '1MB'")
        assert {"configured", "settings", "loaded at"} <= await changes(board.world, configure)
        await loading("ALTER SYSTEM RESET work_mem")()  # before another test looks
