"""PostgreSQL 18 and 15 and MariaDB keep the contract of all SQL backends."""

from __future__ import annotations

import pytest
from served import Served
from sql_contract import Kind, SqlContract

from rrext.nodes.sql.mysql import MysqlNode

POSTGRES_ENDLESS = "SELECT a.n FROM generate_series(1, 1000000000) AS a (n) WHERE a.n < 0"
POSTGRES_NUMBERS = "SELECT n FROM generate_series(1, {count}) AS s (n)"
MARIADB_ENDLESS = "SELECT a.seq FROM seq_1_to_1000000 a, seq_1_to_1000000 b WHERE a.seq * b.seq = 0"
MARIADB_NUMBERS = "SELECT seq AS n FROM seq_1_to_1000000 LIMIT {count}"


class TestServers(SqlContract):
    @pytest.fixture
    def kind(self, served: Served) -> Kind:
        config = served.database.settings
        if served.node is MysqlNode:
            text, types = "varchar(200) CHARACTER SET utf8mb4", ("int(11)", "varchar(200)")
            return Kind(MysqlNode, config, "mysql", MARIADB_ENDLESS, MARIADB_NUMBERS, text=text, item_types=types)
        return Kind(served.node, config, "postgres", POSTGRES_ENDLESS, POSTGRES_NUMBERS, item_types=("integer", "text"))
