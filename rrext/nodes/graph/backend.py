"""The interface of a kind of graph database. Each kind is a subclass; all other code of the graph nodes is the same for all.

A parameter in the JSON of an answer becomes the database's value again: `{"base64": …}` is bytes. Ladybug gets integers
beyond 64 bits as decimals; it turns texts into dates, times, numbers and UUIDs by itself where it expects these. No value
ever becomes another one silently, and none but NULL becomes null.

| value | JSON |
|---|---|
| node | `{"id", "labels": […], "properties": {…}}` |
| relationship | `{"id", "type", "start", "end", "properties": {…}}`; `start` and `end` are ids of nodes |
| path, recursive relationship | `{"nodes": […], "relationships": […], "length"}` |
| date, time, date and time | ISO 8601 text with all digits of the second; a named zone stands behind it, as `[Europe/Berlin]` |
| duration | ISO 8601, as `"P1Y2M3DT4H"` |
| point | `{"srid", "x", "y"}` and `z` if there is one; for 4326 and 4979 `x` is the longitude, `y` the latitude |
| vector | a list of numbers |
| 128-bit integer | an integer if it fits 64 bits, else its text |
| decimal | its text: a property has no type that would tell its digits |
| NULL, text, boolean, other numbers, NaN, bytes, uuid | as in SQL nodes, see `rrext.nodes.databases.cells` |
| list, map, struct | nested JSON; a key that is no text becomes its text |

An id is what the database calls the element now: good within a conversation, not for keeps. Ladybug's is
`"table:offset"`.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

import msgspec

from rrext.nodes.databases.cells import json_cell
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


CYPHER_INTEGERS: Final = range(-(2**63), 2**63)


def bytes_in(value: Any) -> Any:
    """The value with every nested `{"base64": …}` as bytes."""
    match value:
        case {"base64": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return value
        case dict():
            return {key: bytes_in(entry) for key, entry in value.items()}
        case list():
            return [bytes_in(entry) for entry in value]
        case _:
            return value


def wide_integers_in(value: Any) -> Any:
    """The value with every nested integer beyond 64 bits as a decimal."""
    match value:
        case int() if value not in CYPHER_INTEGERS:
            return Decimal(value)
        case dict():
            return {key: wide_integers_in(entry) for key, entry in value.items()}
        case list():
            return [wide_integers_in(entry) for entry in value]
        case _:
            return value


AS_IS: Final = frozenset({type(None), bool, str})
JSON_INTEGERS: Final = range(-(2**63), 2**64)
"""Integers that JSON readers and writers keep exactly; larger ones become text."""


class BoltValues:
    """Makes values of the neo4j driver JSON. One per driver: it knows the driver's types, which are imported late."""

    def __init__(self) -> None:
        from neo4j.graph import Node, Path, Relationship
        from neo4j.spatial import Point
        from neo4j.time import Date, DateTime, Duration, Time

        self._makers: tuple[tuple[type, Callable[[Any], Any]], ...] = (
            (Node, self._node),
            (Relationship, self._relationship),
            (Path, self._path),
            (Point, _point),  # a tuple too, so it comes before lists
            (Duration, _iso),
            (DateTime, _zoned),
            (Time, _iso),
            (Date, _iso),
            (Mapping, self._map),
            (list, self._list),
            (tuple, self._list),
        )

    def json(self, value: Any) -> Any:
        """One value in JSON, as the table of this module says."""
        kind = type(value)
        if kind in AS_IS:
            return value
        if kind is int:
            return _integer(value)
        for known, make in self._makers:
            if isinstance(value, known):
                return make(value)
        if hasattr(value, "to_native"):  # a vector
            return self.json(value.to_native())
        return json_cell(value)

    def _node(self, node: Any) -> dict[str, Any]:
        return {"id": node.element_id, "labels": sorted(node.labels), "properties": self._map(node)}

    def _relationship(self, relationship: Any) -> dict[str, Any]:
        start, end = relationship.nodes
        return {
            "id": relationship.element_id,
            "type": relationship.type,
            "start": start.element_id if start is not None else None,
            "end": end.element_id if end is not None else None,
            "properties": self._map(relationship),
        }

    def _path(self, path: Any) -> dict[str, Any]:
        nodes = [self._node(node) for node in path.nodes]
        relationships = [self._relationship(relationship) for relationship in path.relationships]
        return {"nodes": nodes, "relationships": relationships, "length": len(relationships)}

    def _map(self, value: Any) -> dict[str, Any]:
        return {str(key): self.json(entry) for key, entry in value.items()}

    def _list(self, value: Any) -> list[Any]:
        return [self.json(entry) for entry in value]


class EmbeddedValues:
    """Makes Ladybug's values JSON. Nodes and relationships are dicts with a `_LABEL` and an `_ID` there."""

    def json(self, value: Any) -> Any:
        """One value in JSON, as the table of this module says."""
        kind = type(value)
        if kind in AS_IS:
            return value
        if kind is int:
            return _integer(value)
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, list | tuple):
            return [self.json(entry) for entry in value]
        if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
            return _integer(int(value))
        if isinstance(value, timedelta):
            return msgspec.to_builtins(value)
        return json_cell(value)

    def _dict(self, value: dict[Any, Any]) -> Any:
        keys = value.keys()
        if {"_SRC", "_DST", "_LABEL"} <= keys:
            return self._relationship(value)
        if {"_ID", "_LABEL"} <= keys:
            return {"id": _internal(value["_ID"]), "labels": [value["_LABEL"]], "properties": self._properties(value)}
        if keys == {"_NODES", "_RELS"}:
            nodes, relationships = ([self.json(entry) for entry in value[key]] for key in ("_NODES", "_RELS"))
            return {"nodes": nodes, "relationships": relationships, "length": len(relationships)}
        if keys == {"offset", "table"}:
            return _internal(value)
        return {_key(self.json(key)): self.json(entry) for key, entry in value.items()}

    def _relationship(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": _internal(value.get("_ID")),
            "type": value["_LABEL"],
            "start": _internal(value["_SRC"]),
            "end": _internal(value["_DST"]),
            "properties": self._properties(value),
        }

    def _properties(self, value: dict[str, Any]) -> dict[str, Any]:
        hidden = ("_ID", "_LABEL", "_SRC", "_DST")
        return {key: self.json(entry) for key, entry in value.items() if key not in hidden}


def _integer(value: int) -> int | str:
    return value if value in JSON_INTEGERS else str(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


def _internal(identity: Any) -> str | None:
    return None if identity is None else f"{identity['table']}:{identity['offset']}"


def _point(point: Any) -> dict[str, Any]:
    return {"srid": point.srid, **{axis: json_cell(float(place)) for axis, place in zip("xyz", point, strict=False)}}


def _iso(value: Any) -> str:
    return value.iso_format()


def _zoned(value: Any) -> str:
    """The time with the name of its zone, if any: an offset alone does not tell the local time next summer."""
    name = getattr(value.tzinfo, "zone", None)
    return f"{value.iso_format()}[{name}]" if name else value.iso_format()


MESSAGE_MAX: Final = 500
"""Characters of the server's sentence that are passed on."""
