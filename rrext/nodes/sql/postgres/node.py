"""`db_postgres`: the SQL tools over PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from rrext.nodes.base.setup import SetupContext
from rrext.nodes.databases.postgres import PostgresSettings, machine_files
from rrext.nodes.sql.backend import Backend
from rrext.nodes.sql.node import SqlNode
from rrext.nodes.sql.postgres.dialect import POSTGRES


class PostgresNode(SqlNode):
    """A PostgreSQL database. Reading needs no permission; `allow_execute` adds statements of any kind.

    Give it a role of the database that may not do more than its callers: no superuser, above all.
    """

    provider = "db_postgres"
    title = "PostgreSQL"
    sql_dialect = POSTGRES

    class Config(SqlNode.Config, PostgresSettings):
        pass

    extra: ClassVar[str] = "postgres"
    packages: ClassVar[tuple[str, ...]] = ("psycopg",)

    @classmethod
    def machine_files(cls, config: Any) -> Iterable[str]:
        return machine_files(config)

    @classmethod
    def backend(cls, config: Any, ctx: SetupContext) -> Backend:
        ctx.require_local_pipeline()
        from rrext.nodes.sql.postgres.backend import PostgresBackend

        return PostgresBackend(config, statement_timeout=config.statement_timeout, path=ctx.path, confined=ctx.confined)
