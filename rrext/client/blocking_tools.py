"""`client.database` and `client.vectors` of the blocking client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Unpack

from rrext.client import database as database_module
from rrext.client import vectors as vectors_module
from rrext.client.blocking_wrapper import Blocking, in_caller_thread
from rrext.client.node_tools import WhichNode

AsyncDatabase = database_module.Database
AsyncTransaction = database_module.Transaction
AsyncVectors = vectors_module.Vectors


class Transaction(Blocking[AsyncTransaction]):
    """A transaction of `Database.transaction`: `query` runs a statement in it."""

    query = in_caller_thread(AsyncTransaction.query)

    @property
    def session_id(self) -> str:
        """The server's name of this transaction."""
        return self.wrapped.session_id


class Database(Blocking[AsyncDatabase]):
    """`rrext.client.database.Database` with the same names, blocking."""

    query = in_caller_thread(AsyncDatabase.query)
    read = in_caller_thread(AsyncDatabase.read)
    stream = in_caller_thread(AsyncDatabase.stream)
    begin_transaction = in_caller_thread(AsyncDatabase.begin_transaction)
    commit = in_caller_thread(AsyncDatabase.commit)
    rollback = in_caller_thread(AsyncDatabase.rollback)
    dialect = in_caller_thread(AsyncDatabase.dialect)
    schema = in_caller_thread(AsyncDatabase.schema)

    @contextmanager
    def transaction(self, **which: Unpack[WhichNode]) -> Iterator[Transaction]:
        """A transaction as a block: committed at its end, rolled back if the block fails."""
        wrapped: Any = self.wrapped.transaction(**which)
        with self.portal.entered(wrapped) as transaction:
            yield Transaction(transaction, self.portal)


class Vectors(Blocking[AsyncVectors]):
    """`rrext.client.vectors.Vectors` with the same names, blocking."""

    search = in_caller_thread(AsyncVectors.search)
    upsert = in_caller_thread(AsyncVectors.upsert)
    delete = in_caller_thread(AsyncVectors.delete)
    list = in_caller_thread(AsyncVectors.list)
    get = in_caller_thread(AsyncVectors.get)
    stats = in_caller_thread(AsyncVectors.stats)
