"""The stores of a pipeline, as a sync needs to know them."""

from __future__ import annotations

import hashlib
import inspect
from typing import Any, Final

import msgspec

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import ListStores
from rrext.engine.tasks.task import Task
from rrext.errors import InvalidArguments
from rrext.nodes.base.node import NOBODY, namespace_of
from rrext.secrets.names import masked
from rrext.tools.spec import ToolSpec

TOOLS: Final = frozenset({"versions", "delete"})
"""The tools that a store needs for a sync."""


def stores_of(task: Task, caller: Caller, asked: ListStores, root: str | None) -> dict[str, Any]:
    """The body of the answer to `stores`: the stores that files go to, and what identifies them and their settings.

    Raises `InvalidArguments` if there is none with the tools for a sync, and as `Task.plan_from`.
    """
    plan = task.plan_from(asked.source, "send")
    about: dict[str, Any] = {}
    for component in task.spec.components:
        edges = [[edge.lane, edge.source_id] for edge in component.inputs]
        edges += [[edge.class_type, edge.source_id] for edge in component.controls]
        about[component.id] = [component.provider, masked(component.config), edges, root]
    stores = {
        component.id: component.node_class.tools
        for component in task.spec.components
        if component.id in plan.opening
        and "store" in component.node_class.class_types
        and set(component.node_class.tools) >= TOOLS
        and any(name.startswith("write_") for name in plan.methods[component.id])
    }
    if not stores:
        raise InvalidArguments(
            "a sync needs a store that files go to and that has the tools versions and delete: here is none",
            hint="Without a sync all files are sent, and nothing is deleted.",
        )
    whose = [] if caller.tenant == NOBODY else caller.tenant
    return {
        "stores": list(stores),
        "canMove": all("move" in tools for tools in stores.values()),
        "places": [store for store, tools in stores.items() if "move" in tools and _takes_place(tools["move"])],
        "target": _hash_of([*[[store, *about[store][:2], root] for store in stores], *whose]),
        "settings": _hash_of([asked.mime_type, about]),
        "namespace": str(namespace_of(caller.tenant)),
    }


def _takes_place(move: ToolSpec) -> bool:
    """Whether a `move` wants to know the name and the source of the object."""
    return {"name", "source"} <= set(inspect.signature(move.function).parameters)


def _hash_of(value: Any) -> str:
    """A hash of settings."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
