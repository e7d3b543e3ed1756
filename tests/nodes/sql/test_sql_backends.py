"""SQLite and DuckDB keep the contract of all SQL backends, on files and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sql_contract import Desk, Kind, SqlContract, opened

from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.nodes.sql.sqlite import SqliteNode

pytestmark = pytest.mark.usefixtures("forked_children")

SQLITE_ENDLESS = (
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000000000) SELECT n FROM c WHERE n < 0"
)
SQLITE_NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count}) SELECT n FROM c"
DUCKDB_ENDLESS = "SELECT a.range FROM range(100000) a, range(100000) b, range(100000) c WHERE a.range * b.range * c.range = -1"
DUCKDB_NUMBERS = "SELECT range AS n FROM range(1, {count} + 1)"


def sqlite(config: dict[str, object]) -> Kind:
    return Kind(SqliteNode, config, "sqlite", SQLITE_ENDLESS, SQLITE_NUMBERS, item_types=("INTEGER", "TEXT"))


def duckdb(config: dict[str, object]) -> Kind:
    config = {"memory_limit": "200MB", "threads": 1, **config}
    return Kind(DuckdbNode, config, "duckdb", DUCKDB_ENDLESS, DUCKDB_NUMBERS, item_types=("INTEGER", "VARCHAR"))


class TestSqliteFile(SqlContract):
    @pytest.fixture
    def kind(self, tmp_path: Path) -> Kind:
        return sqlite({"path": str(tmp_path / "a.db"), "create": True})


class TestSqliteMemory(SqlContract):
    @pytest.fixture
    def kind(self) -> Kind:
        return sqlite({})


def new_file(folder: Path) -> Kind:
    import duckdb as driver

    path = folder / "a.duckdb"
    driver.connect(str(path)).close()
    return duckdb({"path": str(path)})


class OneProcess(SqlContract):
    """The tests that ask for `db` share the process of one, with an empty table for each."""

    @pytest.fixture
    async def db(self, desk: Desk) -> Desk:
        for kind in ("view", "table"):
            found = await desk(
                "query", sql=f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE NOT internal ORDER BY {kind}_oid DESC"
            )
            for row in found["rows"]:
                await desk("execute", sql=f'DROP {kind} "{row[f"{kind}_name"]}"')
        await desk("execute", sql="CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
        await desk("refresh_schema")
        return desk


class TestDuckdbFile(OneProcess):
    @pytest.fixture
    def kind(self, tmp_path: Path) -> Kind:
        return new_file(tmp_path)

    @pytest.fixture(scope="class")
    async def desk(self, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
        kind = new_file(tmp_path_factory.mktemp("shared"))
        async with opened(kind.node, {**kind.config, "allow_execute": True}) as desk:
            yield desk


class TestDuckdbMemory(OneProcess):
    @pytest.fixture
    def kind(self) -> Kind:
        return duckdb({})

    @pytest.fixture(scope="class")
    async def desk(self) -> AsyncIterator[Desk]:
        kind = duckdb({})
        async with opened(kind.node, {**kind.config, "allow_execute": True}) as desk:
            yield desk
