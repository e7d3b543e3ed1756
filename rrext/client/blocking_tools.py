"""`client.database` and `client.vectors` of the blocking client."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from rrext.client import database as database_module
from rrext.client import vectors as vectors_module
from rrext.client.portal import Portal

__all__ = ["Database", "Transaction", "Vectors"]

P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")

AsyncDatabase = database_module.Database
AsyncTransaction = database_module.Transaction
AsyncVectors = vectors_module.Vectors


class Wrapping(Protocol[W]):
    """What has an async object behind it, and the way to its loop."""

    wrapped: W
    portal: Portal


def _of(method: Callable[Concatenate[W, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Wrapping[W], P], R]:
    """The method that runs the async one in the caller's thread."""

    @functools.wraps(method)
    def call(self: Wrapping[W], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.portal.here(method, self.wrapped, *args, **kwargs)

    return call


class Blocking(Generic[W]):
    """An async object, and the loop that runs it."""

    __slots__ = ("portal", "wrapped")

    def __init__(self, wrapped: W, portal: Portal) -> None:
        """Made by the blocking client."""
        self.wrapped = wrapped
        self.portal = portal

    def __repr__(self) -> str:
        return f"<blocking {self.wrapped!r}>"


class Transaction(Blocking[AsyncTransaction]):
    """A transaction of `Database.transaction`: `query` runs a step of it."""

    __slots__ = ()

    query = _of(AsyncTransaction.query)

    @property
    def session_id(self) -> str:
        """The server's name of this transaction."""
        return self.wrapped.session_id


class Database(Blocking[AsyncDatabase]):
    """`rrext.client.database.Database` with the same names, blocking."""

    __slots__ = ()

    query = _of(AsyncDatabase.query)
    read = _of(AsyncDatabase.read)
    stream = _of(AsyncDatabase.stream)
    begin_transaction = _of(AsyncDatabase.begin_transaction)
    commit = _of(AsyncDatabase.commit)
    rollback = _of(AsyncDatabase.rollback)
    dialect = _of(AsyncDatabase.dialect)
    schema = _of(AsyncDatabase.schema)

    @contextmanager
    def transaction(self, *, node_id: str = "", token: str | None = None) -> Iterator[Transaction]:
        """A transaction as a block: committed at its end, rolled back if the block fails."""
        wrapped: Any = self.wrapped.transaction(node_id=node_id, token=token)
        with self.portal.entered(wrapped) as transaction:
            yield Transaction(transaction, self.portal)


class Vectors(Blocking[AsyncVectors]):
    """`rrext.client.vectors.Vectors` with the same names, blocking."""

    __slots__ = ()

    search = _of(AsyncVectors.search)
    upsert = _of(AsyncVectors.upsert)
    delete = _of(AsyncVectors.delete)
    list = _of(AsyncVectors.list)
    get = _of(AsyncVectors.get)
    stats = _of(AsyncVectors.stats)
