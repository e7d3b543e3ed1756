"""The SQL dialects by name, for tests that run over all of them."""

from __future__ import annotations

from rrext.nodes.sql.duckdb.dialect import DUCKDB
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.mysql.dialect import MYSQL
from rrext.nodes.sql.postgres.dialect import POSTGRES
from rrext.nodes.sql.sqlite.dialect import SQLITE

DIALECTS: dict[str, SqlDialect] = {dialect.name: dialect for dialect in (SQLITE, DUCKDB, POSTGRES, MYSQL)}
