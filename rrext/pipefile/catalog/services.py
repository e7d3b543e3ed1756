"""The entry of a node in `rrext_services`: RocketRide's service definition, with the node's tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rrext.errors import RrextError
from rrext.nodes.base.node import Node, served_types

if TYPE_CHECKING:
    from rrext.pipefile.catalog.settings import Settings


CAPABILITIES: Final = {
    "security": 1 << 0,
    "filesystem": 1 << 1,
    "network": 1 << 3,
    "invoke": 1 << 10,
    "gpu": 1 << 12,
    "deprecated": 1 << 15,
    "experimental": 1 << 16,
}
"""The features of nodes that have a bit in RocketRide's mask."""


def definition_of(node: type[Node], settings: Settings | None, aliases: tuple[str, ...] = ()) -> dict[str, Any]:
    """The definition of a node class. No code of the node runs; parts that depend on a component's settings are left out."""
    text = _description(node)
    provider = node.provider
    return {
        "title": node.title or provider,
        "protocol": f"{provider}://",
        "prefix": provider,
        "aliases": list(aliases),
        "classType": list(served_types(node)),
        "capabilities": sum(CAPABILITIES.get(name, 0) for name in _features(node)),
        "features": _features(node),
        "actions": 0,
        "plans": None,
        "register": "endpoint" if node.is_source() else "filter",
        "node": "python",
        "path": f"{node.__module__}:{node.__qualname__}",
        "description": text,
        "documentation": "",
        "tile": {},
        "lanes": {lane: list(outs) for lane, outs in node.lanes.items()},
        "input": [{"lane": lane, "output": [{"lane": out} for out in outs]} for lane, outs in node.lanes.items()],
        "invoke": {kind: dict(slot) for kind, slot in node.invoke.items()},
        "accepts": list(node.accepts),
        "preconfig": {
            "default": node.default_profile or "",
            "profiles": {name: dict(values) for name, values in node.profiles.items()},
        },
        "fields": _fields(settings),
        "shape": [],
        "Pipe": {"schema": _schema(settings), "ui": {}},
        "Pipe.schema": _schema(settings),
        "tools": _tools(node),
    }


def broken_definition(provider: str, reason: str) -> dict[str, Any]:
    """The entry of a node whose code cannot be imported here."""
    return {
        "title": provider,
        "protocol": f"{provider}://",
        "prefix": provider,
        "classType": [],
        "lanes": {},
        "description": "",
        "capabilities": 0,
        "actions": 0,
        "tools": [],
        "unavailable": reason,
    }


def _description(node: type[Node]) -> str:
    from inspect import cleandoc

    return cleandoc(vars(node).get("__doc__") or "")


def _schema(settings: Settings | None) -> dict[str, Any]:
    return {"type": "object"} if settings is None else settings.schema


def _features(node: type[Node]) -> list[str]:
    return list(dict.fromkeys((*node.capabilities, *(("invoke",) if node.invoke else ()))))


def _fields(settings: Settings | None) -> dict[str, Any]:
    """Each setting by itself, in the form that RocketRide's forms read: type, default, text."""
    if settings is None:
        return {}
    fields: dict[str, Any] = {}
    properties: Mapping[str, Any] = settings.schema["properties"]
    for name, schema in properties.items():
        fields[name] = {**schema, "title": schema.get("title", name), "required": not settings.has_default(name)}
    return fields


def _tools(node: type[Node]) -> list[dict[str, Any]]:
    """The descriptors of a class's tools. A tool that can only be described with a node's settings has just its name."""
    found: list[dict[str, Any]] = []
    for name, spec in node.tools.items():
        try:
            found.append(spec.describe(None) if spec.static else {"name": name, "dynamic": True})
        except RrextError as error:
            found.append({"name": name, "unavailable": error.message})
    return found
