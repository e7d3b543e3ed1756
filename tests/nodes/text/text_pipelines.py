"""Pipelines for the nodes of texts, a line for each component."""

from __future__ import annotations

from typing import Any

__all__ = ["bound", "component", "pipeline"]


def component(
    name: str, provider: str, *inputs: str, control: tuple[dict[str, str], ...] = (), **config: Any
) -> dict[str, Any]:
    """A component; each input is `lane:from`."""
    edges = [dict(zip(("lane", "from"), edge.split(":"), strict=True)) for edge in inputs]
    return {"id": name, "provider": provider, "config": config, "input": edges, "control": list(control)}


def bound(invoker: str, kind: str = "llm") -> tuple[dict[str, str], ...]:
    """The control edge of a node that serves another one."""
    return ({"classType": kind, "from": invoker},)


def pipeline(*components: dict[str, Any]) -> dict[str, Any]:
    """A pipeline that begins at its first component."""
    return {"components": list(components), "source": components[0]["id"], "project_id": "3f0f5d1e-4a0b-4a57-9a63-0d5f6f4f7a11"}
