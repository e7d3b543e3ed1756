"""SQLite and DuckDB keep the contract of all SQL backends, on files and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_contract import Kind, SqlContract

from rrext.nodes.sql.duckdb.node import DuckdbNode
from rrext.nodes.sql.sqlite.node import SqliteNode

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


class TestDuckdbFile(SqlContract):
    @pytest.fixture
    def kind(self, tmp_path: Path) -> Kind:
        import duckdb as driver

        path = tmp_path / "a.duckdb"
        driver.connect(str(path)).close()
        return duckdb({"path": str(path)})


class TestDuckdbMemory(SqlContract):
    @pytest.fixture
    def kind(self) -> Kind:
        return duckdb({})
