"""A database server as a test sees it: what runs it, the node that uses it, and what differs between kinds of servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mariadb_server import MariaDatabase, MariadbServer
from postgres_server import Database, PostgresServer

from rrext import Client
from rrext.nodes.sql.node import SqlNode
from rrext.testing import open_node


@dataclass(frozen=True)
class Served:
    """One fresh database on a server, and the SQL that shows what the server does."""

    node: type[SqlNode]
    server: PostgresServer | MariadbServer
    database: Database | MariaDatabase
    sleep: str
    """A call that sleeps for a minute."""
    running: str
    """A query for how many sleeping statements run in the server."""
    many: str
    """A query for a million numbers."""
    boolean: str

    @asynccontextmanager
    async def open(self, **settings: Any) -> AsyncIterator[Client]:
        """The node, with statements of any kind allowed."""
        async with open_node(self.node, {**self.database.settings, "allow_execute": True, **settings}) as client:
            yield client

    def count(self, table: str) -> int:
        """The rows of a table, as another client of the server sees them."""
        return self.database.run(f"SELECT count(*) FROM {table}")[0][0]

    def busy(self) -> int:
        """How many sleeping statements run in the server."""
        return self.database.run(self.running)[0][0]


async def until(condition: Callable[[], Any]) -> None:
    """Return when it holds: a server tells nobody, so it is asked. The test's own timeout ends it."""
    while not await asyncio.to_thread(condition):
        await asyncio.sleep(0.005)
