"""The JSON Schema of pipeline files, made from the catalog of nodes.

The schema accepts every pipeline that the check accepts. It refuses mistakes that a single value shows: wrong types, missing
keys, unknown providers, profiles, lanes and class types, wrong settings. Relations between components, such as ids, are left
to the check.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any, Final

from rrext.errors import RrextError
from rrext.limits import DEFAULTS, Limits
from rrext.nodes.base.node import Node, accepted_lanes, served_types
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.settings import Settings
from rrext.pipefile.shape import EDGE_TOOLS, OTHER_PROFILES, VERSION
from rrext.references import reference_definitions
from rrext.secrets.names import PLACEHOLDER

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_LITERAL: Final = rf"^(?![\s\S]*{PLACEHOLDER})"
_NAME: Final = {"type": "string", "minLength": 1, "pattern": _LITERAL}
_OPTIONAL_TEXT: Final = {"type": ["string", "null"]}
_OPTIONAL_NAME: Final = {"type": ["string", "null"], "pattern": _LITERAL}
_OPTIONAL_OBJECT: Final = {"type": ["object", "null"]}
_VARIABLE: Final = {"type": "string", "pattern": PLACEHOLDER}
_SECURE: Final = {
    "type": ["object", "null"],
    "properties": {"secure": {"type": ["array", "null"], "items": {"type": "string"}}, "token": {"type": "string"}},
}
_COMMON: Final = {"parameters": _OPTIONAL_OBJECT, "secureParameters": {"$ref": "#/$defs/secureParameters"}}
"""Settings of every component that have a form."""
_ANNOTATIONS: Final = ("mode", "type", "hideForm", "name", "description", "tool_description")
"""Settings of every component that nobody reads; a closed schema names them."""
_RESOURCES: Final = {
    "description": "What the pipeline asks of the machine that runs it.",
    "type": ["object", "null"],
    "properties": {
        **{key: {"type": ["number", "null"], "minimum": 0} for key in ("cpu", "gpu")},
        "memory": {"type": ["integer", "string", "null"], "minimum": 0, "pattern": "^[0-9]"},
        "node": {"type": ["string", "null"], "minLength": 1},
    },
    "additionalProperties": False,
}
_RESTRICTS_TEXT: Final = frozenset({"enum", "const", "pattern", "format", "minLength", "maxLength", "contentEncoding"})


def pipeline_schema(catalog: Catalog, *, closed: bool = False, limits: Limits = DEFAULTS) -> dict[str, Any]:
    """The schema of a pipeline with the nodes of a catalog. `closed` refuses unknown keys, which a check warns of.

    A node that cannot be loaded has no form: a check refuses it too.
    """
    definitions: dict[str, Any] = {"secureParameters": _SECURE, **reference_definitions(_VARIABLE)}
    sources: list[str] = []
    providers: list[str] = []
    for provider in catalog.names():
        try:
            node = catalog.class_of(provider)
            settings = catalog.settings_of(node)
        except RrextError:
            continue
        names = [provider, *catalog.aliases_of(provider)]
        providers.append(provider)
        sources += names if node.is_source() else []
        definitions[provider] = _component(
            node, names, _config(node, names, settings, definitions, closed=closed), closed=closed
        )
    root = {
        "type": "object",
        "properties": {
            "name": _OPTIONAL_TEXT,
            "description": _OPTIONAL_TEXT,
            "components": {
                "type": "array",
                "maxItems": limits.max_components,
                "items": {"anyOf": [{"$ref": f"#/$defs/{provider}"} for provider in providers]},
                "contains": {"type": "object", "properties": {"provider": {"enum": sources}}, "required": ["provider"]},
            },
            "source": {**_OPTIONAL_NAME, "description": "The id of the component where objects enter."},
            "project_id": {**_OPTIONAL_NAME, "description": "A UUID that the pipeline keeps wherever it runs."},
            "version": {"enum": [VERSION, None]},
            "resources": _RESOURCES,
        },
        "required": ["components"],
    }
    if closed:
        root["additionalProperties"] = False
    return {"$schema": DIALECT, "title": "RocketRide pipeline", **root, "$defs": definitions}


def _component(node: type[Node], names: list[str], config: dict[str, Any], *, closed: bool) -> dict[str, Any]:
    """The schema of a component of one node."""
    made = {
        "title": node.title or names[0],
        "description": cleandoc(vars(node).get("__doc__") or "").partition("\n\n")[0],
        "type": "object",
        "properties": {
            "id": _NAME,
            "provider": {"const": names[0]} if len(names) == 1 else {"enum": names},
            "config": config,
            "input": _edges("lane", accepted_lanes(node), "The component that sends.", closed=closed),
            "control": _edges("classType", served_types(node), "The component that may call this one.", closed=closed),
            "name": _OPTIONAL_TEXT,
            "description": _OPTIONAL_TEXT,
            "ui": {},
        },
        "required": ["id", "provider", *(["config"] if "required" in config.get("anyOf", [config])[0] else [])],
    }
    return {**made, "additionalProperties": False} if closed else made


def _edges(key: str, values: tuple[str, ...], text: str, *, closed: bool) -> dict[str, Any]:
    if not values:
        return {"type": ["array", "null"], "maxItems": 0}
    edge: dict[str, Any] = {
        "type": "object",
        "properties": {key: {"enum": list(values)}, "from": {**_NAME, "description": text}},
        "required": [key, "from"],
    }
    if key == "classType":
        edge["properties"][EDGE_TOOLS] = {"$ref": "#/$defs/edgeReferences"}
    return {"type": ["array", "null"], "items": {**edge, "additionalProperties": False} if closed else edge}


def _config(
    node: type[Node], names: list[str], settings: Settings | None, definitions: dict[str, Any], *, closed: bool
) -> dict[str, Any]:
    """The schema of a component's `config`: its settings, or a profile with a section of settings."""
    fields: dict[str, Any] = {}
    required: tuple[str, ...] = ()
    prefix = f"{node.provider}."
    if settings is not None:
        for name, part in settings.schema.get("$defs", {}).items():
            definitions[prefix + name] = _relaxed(part, prefix, closed=closed)
        for name, part in settings.schema["properties"].items():
            made = _relaxed(part, prefix, closed=closed)
            fields[name] = _or_null(made) if settings.has_default(name) else made
        if node.is_source():  # a source knows these itself, whatever the file says
            fields |= {name: {} for name in ("mode", "type") if name in fields}
        required = tuple(settings.schema.get("required", ()))
    common = {name: part for name, part in _COMMON.items() if name not in fields}
    if node.takes_references:
        common["tools"] = {"$ref": "#/$defs/references"}
    closes = closed and settings is not None
    notes = dict[str, Any].fromkeys(_ANNOTATIONS, {}) if closes else {}
    has_profiles = "profile" not in fields
    given = node.profiles.get(node.default_profile or "", {})
    if not has_profiles:
        return _object({**notes, **common, **fields}, _without(required, given), closes=closes)
    plain = _object({**notes, **common, "profile": {"type": "null"}, **fields}, _without(required, given), closes=closes)
    forms = [plain]
    for profile, values in node.profiles.items():
        missing = _without(required, values)
        section = ".".join([f"{prefix}settings", *missing])  # profiles that leave the same settings open share a definition
        definitions[section] = _or_null(_object(fields, missing, closes=closes))
        needed = ["profile", profile] if missing else ["profile"]
        whole = {**notes, **common, "profile": {"const": profile}, profile: {"$ref": f"#/$defs/{section}"}}
        forms.append(_object(whole, needed, closes=closes))
    if OTHER_PROFILES.intersection(names):
        forms.append(_object({**common, "profile": {"type": "string"}}, ["profile"], closes=False))
    return plain if len(forms) == 1 else {"anyOf": forms}


def _object(properties: dict[str, Any], required: list[str], *, closes: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    if closes:
        made["additionalProperties"] = False
    return made


def _without(required: tuple[str, ...], given: Mapping[str, Any]) -> list[str]:
    return [name for name in required if name not in given]


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, or null, which stands for the default."""
    kind = schema.get("type")
    if not schema or kind == "null" or (isinstance(kind, list) and "null" in kind):
        return schema
    if isinstance(kind, str) and not _RESTRICTS_TEXT & schema.keys():
        return {**schema, "type": [kind, "null"]}
    notes = {key: schema[key] for key in ("description", "default", "title") if key in schema}
    return {**notes, "anyOf": [{key: part for key, part in schema.items() if key not in notes}, {"type": "null"}]}


def _relaxed(schema: Any, prefix: str, *, closed: bool) -> Any:
    """A schema of settings as a file may meet it: variables in texts, references by full name, and open objects."""
    if isinstance(schema, list):
        return [_relaxed(part, prefix, closed=closed) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, part in schema.items():
        if key == "$ref":
            made[key] = f"#/$defs/{prefix}{part.rpartition('/')[2]}"
        elif key == "properties":
            made[key] = {name: _relaxed(inner, prefix, closed=closed) for name, inner in part.items()}
        elif key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"):
            if key != "additionalProperties" or part is not False or closed:
                made["anyOf" if key == "oneOf" else key] = _relaxed(part, prefix, closed=closed)
        else:
            made[key] = part
    if _RESTRICTS_TEXT & made.keys():
        notes = {key: made.pop(key) for key in ("description", "default", "title") if key in made}
        return {**notes, "anyOf": [made, _VARIABLE]}
    return made
