"""The schema of a graph in the answers of tools, and in prompts of a language model."""

from __future__ import annotations

from typing import Any

from rrext.errors import ToolError, near_matches
from rrext.nodes.graph.backend import GraphSchema, Property, RelationshipType


def shown_schema(schema: GraphSchema, label: str | None = None) -> dict[str, Any]:
    """`{database, nodes, relationships}`. Raises `ToolError` (`label_not_found`) with near names."""
    nodes, relationships = schema.nodes, schema.relationships
    if label is not None:
        if label not in nodes and label not in relationships:
            raise _not_found(schema, label)
        nodes = {name: properties for name, properties in nodes.items() if name == label}
        relationships = {name: kind for name, kind in relationships.items() if name == label or _touches(kind, label)}
    return {
        "database": schema.database,
        "nodes": {name: {"properties": _properties(properties)} for name, properties in nodes.items()},
        "relationships": {
            name: {
                "properties": _properties(kind.properties),
                "ends": [{"from": start, "to": end} for start, end in kind.ends],
            }
            for name, kind in relationships.items()
        },
    }


def schema_text(schema: GraphSchema) -> str:
    """A line for each label and each kind of relationship, as patterns of Cypher."""
    lines = [f"(:{_quoted(name)} {{{_columns(properties)}}})" for name, properties in schema.nodes.items()]
    for name, kind in schema.relationships.items():
        for start, end in kind.ends or (("", ""),):
            left, right = (f"(:{_quoted(label)})" if label else "()" for label in (start, end))
            lines.append(f"{left}-[:{_quoted(name)} {{{_columns(kind.properties)}}}]->{right}")
    return "\n".join(lines)


def _properties(properties: tuple[Property, ...]) -> list[dict[str, Any]]:
    return [{"property": entry.name, "type": entry.type, **({"key": True} if entry.is_key else {})} for entry in properties]


def _columns(properties: tuple[Property, ...]) -> str:
    return ", ".join(f"{_quoted(entry.name)}: {entry.type}" for entry in properties)


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _touches(kind: RelationshipType, label: str) -> bool:
    return any(label in ends for ends in kind.ends)


def _not_found(schema: GraphSchema, label: str) -> ToolError:
    near = near_matches(label, [*schema.nodes, *schema.relationships])
    return ToolError(
        f'There is no label or relationship type "{label}" in the graph "{schema.database}"',
        code="label_not_found",
        hint=f"Did you mean {' or '.join(near)}?" if near else "refresh_schema reads the schema again.",
        data={"near": near},
    )
