"""The outline of a pipeline: its nodes and edges without their settings, for all who may use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def outline_of(pipeline: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Make the outline `{sources, components}` of a pipeline as it was written. `source` is empty if there are several.

    What a pipeline that runs in part has in place of names and edges is left out.
    """
    components = [_component(part) for part in _objects(pipeline.get("components")) if isinstance(part.get("id"), str)]
    senders = {edge["from"] for part in components for edge in (*part["input"], *part["control"])}
    begins = [part["id"] for part in components if not part["input"] and not part["control"] and part["id"] in senders]
    return {"sources": [source] if source else begins, "components": components}


def _component(part: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: part[name] if isinstance(part.get(name), str) else "" for name in ("id", "provider", "name")},
        "input": _edges(part.get("input"), "lane"),
        "control": _edges(part.get("control"), "classType"),
    }


def _edges(edges: Any, name: str) -> list[dict[str, str]]:
    return [
        {name: edge[name], "from": edge["from"]}
        for edge in _objects(edges)
        if isinstance(edge.get(name), str) and isinstance(edge.get("from"), str)
    ]


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
