"""The JSON Schema of references, as configuration has them."""

from __future__ import annotations

from typing import Any, Final

from rrext.limits import DEFAULTS, MAX_PATTERNS, MAX_REFERENCES
from rrext.references.reference_reader import FORMS, OF_ONE_TOOL, PATTERNS, PERMISSIONS, WHOLE

TEXTS: Final = {
    "type": "Where the tool is.",
    "node": "The component that has the tool.",
    "tool": "The tool, by its own name.",
    "pipeline": "The token of a running pipeline.",
    "server": "The name of a connection.",
    "integration": "The integration, as its provider names it.",
    "action": "The action of the integration.",
    "connection": "The name of a connection.",
    "provider": "The gateway that has the integration.",
    "include": "Patterns of the names of the tools that a reference without one takes from its server; all without it.",
    "exclude": "Patterns of the names of tools that it does not take.",
    "name": "The name under which the tool is offered; by default made of both names above.",
    "description": "The description that callers see instead of the tool's own.",
    "arguments": "Fixed arguments: they leave the schema, and callers cannot give them.",
    "parameters": "Narrower schemas of parameters, which hold besides the original ones.",
    "available": "Who may see and call the tool.",
    "permission": "Whether a call is allowed, asks somebody, or is denied.",
    "timeout": "Seconds for one call.",
}
"""Key of a reference → its description."""


def reference_definitions(variable: dict[str, Any]) -> dict[str, Any]:
    """The definitions `references` and `edgeReferences`. `variable` is the schema of a text with a variable in it."""
    name = {"anyOf": [{"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}, {"type": "null"}, variable]}
    users = {"type": ["array", "null"], "items": {"type": "string"}}
    when = {"anyOf": [{"type": ["boolean", "null"]}, {"enum": ["true", "false"]}, variable, {"type": "string"}]}
    conditions = {"space": {"enum": ["required", None]}, "users": users, "when": when}
    shared = {
        "name": name,
        "description": {"type": ["string", "null"]},
        "arguments": {"type": ["object", "null"]},
        "parameters": {"type": ["object", "null"], "additionalProperties": {"type": "object"}},
        "available": {"type": ["object", "null"], "properties": conditions, "additionalProperties": False},
        "permission": {"anyOf": [{"enum": list(PERMISSIONS)}, variable]},
        "timeout": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": DEFAULTS.max_timeout},
    }

    def form(kinds: list[str], keys: tuple[str, ...], required: list[str]) -> dict[str, Any]:
        text = {"type": "string", "minLength": 1}
        more = {"provider": {"anyOf": [{"const": "composio"}, variable]}} if "gateway" in kinds else {}
        properties = {"type": {"anyOf": [{"enum": kinds}, variable]}, **dict.fromkeys(keys, text), **more, **shared}
        described = {key: {**schema, "description": TEXTS[key]} for key, schema in properties.items()}
        return {"type": "object", "properties": described, "required": required, "additionalProperties": False}

    def whole_server(kind: str) -> dict[str, Any]:
        made = form([kind], ("server",), ["type", "server"])
        patterns = {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "maxItems": MAX_PATTERNS}
        kept = {key: schema for key, schema in made["properties"].items() if key not in OF_ONE_TOOL}
        return {**made, "properties": {**kept, **{key: {**patterns, "description": TEXTS[key]} for key in PATTERNS}}}

    forms = [form([kind], keys, ["type", *keys]) for kind, keys in FORMS.items()]
    forms += [whole_server(kind) for kind in WHOLE]
    whole = {"type": ["array", "null"], "maxItems": MAX_REFERENCES}
    return {
        "references": {**whole, "items": {"anyOf": [{"type": "string", "minLength": 1}, *forms]}},
        "edgeReferences": {**whole, "type": "array", "items": form(["node"], FORMS["node"], ["tool"])},
    }
