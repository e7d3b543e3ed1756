"""The interface of a kind of graph database. Each kind is a subclass; all other code of the graph nodes is the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec

from rrext.nodes.databases.database import DatabaseBackend
from rrext.nodes.graph.dialect import CypherDialect
from rrext.tools.context import ToolContext

T = TypeVar("T")

Rows: TypeAlias = "Callable[[str], list[list[Any]]]"
"""Runs a statement that reads, and gives all its rows in JSON."""


class Property(msgspec.Struct, frozen=True):
    """A property of elements: its name, and its type as the database writes it ("any" if unknown)."""

    name: str
    type: str
    is_key: bool = False


class RelationshipType(msgspec.Struct, frozen=True):
    """A type of relationship: its properties, and the labels at its ends, as far as the database reports them."""

    properties: tuple[Property, ...]
    ends: tuple[tuple[str, str], ...] = ()


class GraphSchema(msgspec.Struct, frozen=True):
    """The schema of a graph: labels with their properties, and types of relationships."""

    database: str
    nodes: Mapping[str, tuple[Property, ...]]
    relationships: Mapping[str, RelationshipType]


class GraphCursor(Protocol):
    """The rows of a statement, in JSON already."""

    @property
    def columns(self) -> list[str]: ...

    @property
    def types(self) -> list[str | None]:
        """The database's name for the type of each column; None for a column without one."""
        ...

    def fetch(self, size: int, /) -> list[list[Any]]:
        """The next rows, at most `size`; none when there are no more."""
        ...

    def counters(self) -> dict[str, int] | None:
        """The changes of the statement, by name; None if the database does not count. After the last row only."""
        ...

    def affected(self) -> int | None:
        """How many nodes and relationships the statement created, deleted or changed, each counted once; None if that cannot
        be told, or was not to be counted. After the last row only."""
        ...

    def plan(self) -> Any:
        """The plan of a statement that requested one, if it is not among the rows. After the last row only."""
        ...

    def close(self) -> None: ...


class BackendTransaction(ABC):
    """One transaction, used by one thread at a time; only `cancel` may come from another one."""

    @abstractmethod
    def start(self) -> None:
        """Connect and begin. Raises `Unavailable` or `ToolError` if that fails."""

    @abstractmethod
    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> GraphCursor:
        """Run a statement. With `counts`, its changes are counted, which may read the data once more."""

    @abstractmethod
    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        """The plan of a statement, in JSON, without running it. Raises the database's error for a wrong statement."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def end(self) -> None:
        """Roll back uncommitted changes and return the connection, whatever its state."""

    @abstractmethod
    def cancel(self) -> None:
        """Make the running statement fail soon. May be called before the statement begins, and more than once."""


class GraphBackend(DatabaseBackend):
    """One graph database."""

    dialect: ClassVar[CypherDialect]
    """The dialect of Cypher, for the gate."""
    integers: ClassVar[range] = range(-(2**63), 2**63)
    """Integers that fit into parameter values of the database."""

    def prepare(self, ctx: ToolContext) -> None:
        """Prepare the slow steps of the first call that no statement limit should include. Blocks; a cancelled call raises.

        Raises the errors of `BackendTransaction.start`.
        """
        return

    @abstractmethod
    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> BackendTransaction:
        """Make a transaction that has not begun; with `read_only`, the database itself refuses writes, if it can.

        `timeout` is the limit of a statement in seconds; `check` raises when the call is cancelled.
        """

    @abstractmethod
    def read_schema(self, run: Rows) -> GraphSchema:
        """Read the schema. `run` runs a statement in a read-only transaction of its own and returns its rows."""

    @abstractmethod
    def changing(self, cypher: str) -> str:
        """The statement of `execute` in its sent form. Raises `InvalidArguments` or `ToolError` for a forbidden statement."""
