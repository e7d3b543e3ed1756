"""The schema of a graph without a declared one: labels and types from queries, properties from samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rrext.nodes.graph.backend import GraphSchema, Property, RelationshipType, Rows

SAMPLE: Final = 100
"""Elements of each label and each type in a sample."""


def sampled_schema(run: Rows, database: str) -> GraphSchema:
    """All labels and types, with the properties of the first elements of each."""
    labels = sorted(row[0] for row in run("CALL db.labels()"))
    types = sorted(row[0] for row in run("CALL db.relationshipTypes()"))
    return GraphSchema(
        database,
        {label: _node(run, label) for label in labels},
        {name: _relationship(run, name) for name in types},
    )


def _node(run: Rows, label: str) -> tuple[Property, ...]:
    rows = run(f"MATCH (n:{_quoted(label)}) WITH n LIMIT {SAMPLE} RETURN properties(n)")
    return _properties(row[0] for row in rows)


def _relationship(run: Rows, name: str) -> RelationshipType:
    rows = run(f"MATCH (a)-[r:{_quoted(name)}]->(b) WITH a, r, b LIMIT {SAMPLE} RETURN properties(r), labels(a), labels(b)")
    ends = {(start, end) for _, starts, finishes in rows for start in starts for end in finishes}
    return RelationshipType(_properties(row[0] for row in rows), tuple(sorted(ends)))


def _properties(maps: Iterable[dict[str, Any]]) -> tuple[Property, ...]:
    found: dict[str, set[str]] = {}
    for properties in maps:
        for name, value in properties.items():
            found.setdefault(name, set()).add(_type(value))
    return tuple(Property(name, " | ".join(sorted(found[name]))) for name in sorted(found))


def _type(value: Any) -> str:
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "INTEGER"
        case float():
            return "FLOAT"
        case str():
            return "STRING"
        case list():
            inner = sorted({_type(entry) for entry in value})
            return f"LIST<{' | '.join(inner) or 'ANY'}>"
        case dict():
            return "POINT" if "srid" in value else "MAP"
        case _:
            return "ANY"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
