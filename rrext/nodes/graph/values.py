"""The values of a graph in JSON. No value ever becomes another one silently, and none but NULL becomes null.

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

An id is what the database calls the element now: good within a conversation, not for keeps. Ladybug's is `"table:offset"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from rrext.nodes.databases.cells import json_cell

AS_IS: Final = frozenset({type(None), bool, str})
INTEGERS: Final = range(-(2**63), 2**64)
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
    return value if value in INTEGERS else str(value)


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
