"""The SQL dialects by name, for tests that run over all of them."""

from __future__ import annotations

from rrext.cli.commands.calls.sql_database import sql_dialect
from rrext.nodes.sql.dialect import SqlDialect

DIALECTS: dict[str, SqlDialect] = {
    name: dialect for name in ("sqlite", "duckdb", "postgres", "mysql") if (dialect := sql_dialect(name)) is not None
}
