"""The schema of a graph whose database keeps one, as Ladybug does."""

from __future__ import annotations

from typing import Any

from rrext.nodes.graph.backend import GraphSchema, Property, RelationshipType, Rows


def declared_schema(run: Rows, database: str) -> GraphSchema:
    """Read the declared tables of nodes and of relationships."""
    tables = sorted((row[0], row[1]) for row in run("CALL show_tables() RETURN name, type"))
    return GraphSchema(
        database,
        {name: _properties(run, name) for name, kind in tables if kind == "NODE"},
        {name: RelationshipType(_properties(run, name), _ends(run, name)) for name, kind in tables if kind == "REL"},
    )


def _properties(run: Rows, table: str) -> tuple[Property, ...]:
    rows: list[list[Any]] = run(f"CALL table_info({_text(table)}) RETURN *")
    return tuple(Property(row[1], row[2], row[-1] is True) for row in rows)


def _ends(run: Rows, table: str) -> tuple[tuple[str, str], ...]:
    return tuple((row[0], row[1]) for row in run(f"CALL show_connection({_text(table)}) RETURN *"))


def _text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
