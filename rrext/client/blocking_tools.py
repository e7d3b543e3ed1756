"""`client.database` and `client.vectors` of the blocking client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rrext.client import database as database_module
from rrext.client import vectors as vectors_module
from rrext.client.wrapping import Blocking, here

AsyncDatabase = database_module.Database
AsyncTransaction = database_module.Transaction
AsyncVectors = vectors_module.Vectors


class Transaction(Blocking[AsyncTransaction]):
    """A transaction of `Database.transaction`: `query` runs a statement in it."""

    query = here(AsyncTransaction.query)

    @property
    def session_id(self) -> str:
        """The server's name of this transaction."""
        return self.wrapped.session_id


class Database(Blocking[AsyncDatabase]):
    """`rrext.client.database.Database` with the same names, blocking."""

    query = here(AsyncDatabase.query)
    read = here(AsyncDatabase.read)
    stream = here(AsyncDatabase.stream)
    begin_transaction = here(AsyncDatabase.begin_transaction)
    commit = here(AsyncDatabase.commit)
    rollback = here(AsyncDatabase.rollback)
    dialect = here(AsyncDatabase.dialect)
    schema = here(AsyncDatabase.schema)

    @contextmanager
    def transaction(self, *, node_id: str = "", token: str | None = None) -> Iterator[Transaction]:
        """A transaction as a block: committed at its end, rolled back if the block fails."""
        wrapped: Any = self.wrapped.transaction(node_id=node_id, token=token)
        with self.portal.entered(wrapped) as transaction:
            yield Transaction(transaction, self.portal)


class Vectors(Blocking[AsyncVectors]):
    """`rrext.client.vectors.Vectors` with the same names, blocking."""

    search = here(AsyncVectors.search)
    upsert = here(AsyncVectors.upsert)
    delete = here(AsyncVectors.delete)
    list = here(AsyncVectors.list)
    get = here(AsyncVectors.get)
    stats = here(AsyncVectors.stats)
