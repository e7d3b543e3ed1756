"""The documented rules of vendors for tools, as tables, and a judge that names each broken one.

Sources, read in November 2026: OpenAI's API reference (function objects) and its guide to structured outputs; Anthropic's page
"Define tools" and the errors of its API; the Model Context Protocol, server/tools and schema of 2025-11-25 and 2026-07-28.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import jsonschema_rs


@attrs.frozen
class VendorRules:
    """The rules of one format. `schemas` are the members that hold a schema, `keywords` those of its subset; None: any."""

    name: str
    members: frozenset[str]
    needed: frozenset[str]
    schemas: tuple[str, ...]
    root_keywords_refused: frozenset[str] = frozenset()
    property_names: str = r"(?s).*"
    longest_description: int | None = None
    arrays_have_items: bool = False
    is_strict: bool = False


_NO_UNION = frozenset({"anyOf", "oneOf", "allOf", "not", "enum"})
_SHORT = r"[a-zA-Z0-9_-]{1,64}"

OPENAI = VendorRules(
    name=_SHORT,
    members=frozenset({"name", "description", "parameters", "strict"}),
    needed=frozenset({"name", "parameters"}),
    schemas=("parameters",),
    root_keywords_refused=_NO_UNION,
    longest_description=1024,
    arrays_have_items=True,
)
RULES = {
    "openai": OPENAI,
    "openai-strict": attrs.evolve(OPENAI, is_strict=True, needed=frozenset({"name", "parameters", "strict"})),
    "anthropic": VendorRules(
        name=_SHORT,
        members=frozenset({"name", "description", "input_schema"}),
        needed=frozenset({"name", "input_schema"}),
        schemas=("input_schema",),
        root_keywords_refused=_NO_UNION,
        property_names=r"[a-zA-Z0-9_.-]{1,64}",
    ),
    "mcp": VendorRules(
        name=r"[A-Za-z0-9_.-]{1,128}",
        members=frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"}),
        needed=frozenset({"name", "inputSchema"}),
        schemas=("inputSchema", "outputSchema"),
    ),
}

_STRICT_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs"),
        *("description", "title", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum"),
        *("exclusiveMaximum", "minItems", "maxItems"),
    }
)
_STRICT_TYPES = frozenset({"string", "number", "boolean", "integer", "object", "array", "null"})
_STRICT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_STRICT_LIMITS = {"depth": 10, "properties": 5000, "enum": 1000, "text": 120_000}


def broken_rules(format: str, entry: Mapping[str, Any]) -> list[str]:
    """What of an entry its vendor would refuse."""
    rules = RULES[format]
    problems: list[str] = []
    if "openai" in format:
        if entry.keys() != {"type", "function"} or entry["type"] != "function":
            return [f"members {sorted(entry)}"]
        entry = entry["function"]
    if not rules.needed <= entry.keys() <= rules.members:
        problems.append(f"members {sorted(entry)}")
    if re.fullmatch(rules.name, entry["name"]) is None:
        problems.append(f"name {entry['name']!r}")
    if rules.longest_description is not None and len(entry.get("description", "")) > rules.longest_description:
        problems.append(f"description of {len(entry['description'])} characters")
    for member in rules.schemas:
        if member in entry:
            problems += [f"{member}: {problem}" for problem in _schema_problems(rules, entry[member])]
    if rules.is_strict:
        problems += list(_strict_problems(entry["parameters"])) if entry["strict"] else ["not strict"]
    if format == "mcp":
        problems += list(_mcp_problems(entry))
    return problems


def _mcp_problems(entry: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(entry.get("title", ""), str):
        yield "title"
    hints = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    for name, value in entry.get("annotations", {}).items():
        if name not in hints or not isinstance(value, bool):
            yield f"annotation {name}"


def _schema_problems(rules: VendorRules, root: Mapping[str, Any]) -> Iterator[str]:
    jsonschema_rs.meta.validate(dict(root))
    if root.get("type") != "object":
        yield f"root of type {root.get('type')}"
    for keyword in rules.root_keywords_refused & root.keys():
        yield f"{keyword} at the root"
    for path, schema in schemas_in(root):
        for name in schema.get("properties", {}):
            if re.fullmatch(rules.property_names, name) is None:
                yield f"{path}: property {name!r}"
        if rules.arrays_have_items and "array" in _types(schema) and not isinstance(schema.get("items"), Mapping):
            yield f"{path}: array schema missing items"


def _types(schema: Mapping[str, Any]) -> list[str]:
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else list(found)


def _strict_problems(root: Mapping[str, Any]) -> Iterator[str]:
    count = values = text = 0
    for path, schema in schemas_in(root):
        for keyword in schema.keys() - _STRICT_KEYWORDS:
            yield f"{path}: {keyword} is not permitted"
        if not {"type", "anyOf", "$ref"} & schema.keys():
            yield f"{path}: schema must have a 'type' key"
        if "$ref" in schema and len(schema) > 1:
            yield f"{path}: $ref cannot have keywords beside it"
        if "$ref" in schema and schema["$ref"].rpartition("/")[2] not in root.get("$defs", {}):
            yield f"{path}: {schema['$ref']} leads nowhere"
        if not set(_types(schema)) <= _STRICT_TYPES:
            yield f"{path}: type {schema['type']}"
        if schema.get("format", "uuid") not in _STRICT_FORMATS:
            yield f"{path}: format {schema['format']}"
        if "(?" in schema.get("pattern", ""):
            yield f"{path}: lookaround in a pattern"
        if "object" in _types(schema):
            if schema.get("additionalProperties") is not False:
                yield f"{path}: additionalProperties is required to be false"
            if sorted(schema.get("required", ())) != sorted(schema.get("properties", {})):
                yield f"{path}: required has to include every key in properties"
        texts = [value for value in schema.get("enum", ()) if isinstance(value, str)]
        if len(texts) > 250 and sum(map(len, texts)) > 15_000:
            yield f"{path}: texts of a long enum"
        count += len(schema.get("properties", {}))
        values += len(schema.get("enum", ()))
        names = [*schema.get("properties", {}), *schema.get("$defs", {}), *schema.get("enum", ())]
        text += sum(len(name) for name in names if isinstance(name, str))
    depth = max(path.count("/properties/") + path.count("/items") for path, _ in schemas_in(root)) + 1
    for what, found in (("depth", depth), ("properties", count), ("enum", values), ("text", text)):
        if found > _STRICT_LIMITS[what]:
            yield f"{what} {found}"


def schemas_in(schema: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A schema and every schema inside it, with its path."""
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for keyword in ("properties", "$defs", "patternProperties", "definitions"):
        for name, inner in schema.get(keyword, {}).items():
            yield from schemas_in(inner, f"{path}/{keyword}/{name}")
    for keyword in ("items", "additionalProperties", "not", "contains", "propertyNames"):
        yield from schemas_in(schema.get(keyword), f"{path}/{keyword}")
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for at, inner in enumerate(schema.get(keyword, ())):
            yield from schemas_in(inner, f"{path}/{keyword}/{at}")
