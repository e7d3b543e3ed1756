"""The interface of a kind of graph database. Each kind is a subclass; the rest of the graph nodes is the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec

from rrext.nodes.databases.failure import Failure
from rrext.nodes.graph.dialect import CypherDialect
from rrext.tools.context import ToolContext

T = TypeVar("T")

Rows: TypeAlias = "Callable[[str], list[list[Any]]]"
"""Runs a statement that reads, and gives all its rows in JSON."""


class Property(msgspec.Struct, frozen=True):
    """A property that elements have: its name, and its type as the database writes it ("any" if it does not say)."""

    name: str
    type: str
    is_key: bool = False


class RelationshipType(msgspec.Struct, frozen=True):
    """A kind of relationship: its properties, and from which labels to which it leads, as far as the database says."""

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
        """The database's name for the type of each column; None where it has none."""
        ...

    def fetch(self, size: int, /) -> list[list[Any]]:
        """The next rows, at most `size`; none when there are no more."""
        ...

    def counters(self) -> dict[str, int] | None:
        """What the statement changed, by name; None if the database does not count. After the last row only."""
        ...

    def affected(self) -> int | None:
        """How many nodes and relationships the statement created, deleted or changed, each counted once; None if that cannot
        be told, or was not to be counted. After the last row only."""
        ...

    def plan(self) -> Any:
        """The plan of a statement that asked for one, if it is not among the rows. After the last row only."""
        ...

    def close(self) -> None: ...


class GraphTransaction(ABC):
    """One transaction, used by one thread at a time; only `cancel` may come from another one."""

    @abstractmethod
    def start(self) -> None:
        """Connect and begin. Raises `Unavailable` or `ToolError` if there is no connection to be had."""

    @abstractmethod
    def run(self, cypher: str, params: Mapping[str, Any], *, counts: bool = False) -> GraphCursor:
        """Run a statement. With `counts` it is counted what it changes, which may take another look at the data."""

    @abstractmethod
    def explain(self, cypher: str, params: Mapping[str, Any]) -> Any:
        """The plan of a statement, in JSON, without running it. Raises what the database says of a wrong one."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def end(self) -> None:
        """Undo what is not committed and give the connection back, whatever state it is in."""

    @abstractmethod
    def cancel(self) -> None:
        """Make what runs fail soon. May come before it began, and more than once."""


class GraphBackend(ABC):
    """One database, as its settings describe it. Making one imports its driver, but connects to nothing."""

    dialect: ClassVar[CypherDialect]
    """The dialect of Cypher, by which the gate judges statements."""
    integers: ClassVar[range] = range(-(2**63), 2**63)
    """Integers that it has as values of parameters."""

    def prepare(self, ctx: ToolContext) -> None:
        """Do what only the first call has to wait for, and what no limit of a statement should count. Blocks while the call
        is wanted.

        Raises what `GraphTransaction.start` does.
        """
        return

    def repeated(self, attempt: Callable[[float], T], ctx: ToolContext, *, reads: bool, timeout: float) -> T:
        """What `attempt` returns, which is given the seconds that each of its statements may take (0: no limit). It may be
        done again where that does no harm."""
        return attempt(timeout)

    @abstractmethod
    def transaction(self, *, read_only: bool, timeout: float, check: Callable[[], None]) -> GraphTransaction:
        """A transaction that is not begun yet; with `read_only` one in which the database itself refuses writes, if it can.

        `timeout` is how many seconds a statement may take; `check` raises once nobody waits any more.
        """

    @abstractmethod
    def read_schema(self, run: Rows) -> GraphSchema:
        """What the database holds. `run` runs a statement in a read-only transaction of its own and gives its rows."""

    @abstractmethod
    def changing(self, cypher: str) -> str:
        """A statement of `execute` as it is sent. Raises `InvalidArguments` or `ToolError` for what it may not be."""

    @abstractmethod
    def failure(self, error: Exception) -> Failure | None:
        """What an exception of the driver means; None if it is none of the driver's."""

    @abstractmethod
    def close(self) -> None:
        """End all connections."""
