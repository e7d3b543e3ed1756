"""A tool of one component of a loaded pipeline, as calls reach it."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from rrext.engine.host.large_results import learnt_size
from rrext.limits import QUICK_SHARE_ALONE, QUICK_SHARE_AMONG_OTHERS

if TYPE_CHECKING:
    from rrext.engine.tasks.component import Component
    from rrext.references import Reference
    from rrext.tools.spec import ToolSpec


class Route:
    """A tool of one component, with the measured duration of its calls.

    `quick` says that the last run of a sync tool was so short that the thread which read the request may run the tool;
    `quick_alone` says the same for times without other waiting requests, as for a tool that queries a database nearby.
    `plain` says that any thread may run the tool, and that its availability does not depend on the call. `for_threads`
    says that the tool is plain and no coroutine. `returns` is the size of its results in bytes, 0 while they are small.
    `label` is its name in messages, `trail` the chain of callers that begins with it. `exported_name` is unique in the
    pipeline.

    A reference is a route too: `node_id` is the node that offers it, `origin` the tool of the component as it is without the
    reference. `asks` says that each call needs a permit.
    """

    __slots__ = (
        "asks", "component", "exported_name", "for_threads", "label", "node_id", "origin", "plain", "quick", "quick_alone",
        "returns", "spec", "trail",
    )  # fmt: skip

    def __init__(
        self,
        component: Component,
        spec: ToolSpec,
        *,
        node_id: str | None = None,
        origin: ToolSpec | None = None,
        asks: bool = False,
    ) -> None:
        self.component = component
        self.spec = spec
        self.node_id = node_id or component.id
        self.origin = origin or spec
        self.asks = asks
        self.exported_name = spec.name
        self.label = f"{self.node_id}.{spec.name}"
        self.trail = (self.label,)
        self.quick = self.quick_alone = False
        self.returns = 0
        is_free = not spec.is_def or spec.thread == "pool"
        self.plain = is_free and spec.static and not (component.missing or asks) and by_settings(component, spec) is True
        self.for_threads = self.plain and spec.is_def

    @classmethod
    def of_reference(cls, reference: Reference, node_id: str, meant: Route) -> Route:
        """The route of a reference that a node offers to another route, which may be that of a reference too."""
        asks = meant.asks or reference.permission == "ask"
        return cls(meant.component, reference.wrap(meant.spec), node_id=node_id, origin=meant.spec, asks=asks)

    @property
    def is_dynamic(self) -> bool:
        """Whether the tool is one that the node has learnt, as from a server outside."""
        return self.component.dynamic_tools.get(self.spec.name) is self.spec

    @property
    def is_denied(self) -> bool:
        """Whether the settings deny the tool to every caller. A node that is down denies nothing."""
        return not self.component.missing and by_settings(self.component, self.spec) is False

    def is_among(self, names: Container[str] | None) -> bool:
        """Whether a caller who may use only the tools of these names may use this one; None are all.

        A name with a dot is `node.tool` alone: no outside server can give a tool the name of another node's.
        """
        if names is None or self.label in names or self.exported_name in names:
            return True
        return self.spec.name in names and "." not in self.spec.name

    def learn(self, took: float, limit: float) -> None:
        """Note the duration of the last run; a tool that may run on the reading thread takes a share of `limit` seconds."""
        self.quick_alone = self.plain and self.spec.kind == "sync" and took < QUICK_SHARE_ALONE * limit
        self.quick = self.quick_alone and took < QUICK_SHARE_AMONG_OTHERS * limit

    def learn_size(self, size: int) -> None:
        """Note the size of the last result."""
        self.returns = learnt_size(self.returns, size)

    def forget(self) -> None:
        """Forget the duration, after a run that was stopped."""
        self.quick = self.quick_alone = False


def by_settings(component: Component, spec: ToolSpec) -> bool | None:
    """Whether a tool is available to every caller (True), or to none (False), by the settings alone; None if calls differ.

    Settings of a loaded pipeline do not change.
    """
    rule: Any = spec.options.available
    if rule is None:
        return True
    return bool(rule(component, None)) if getattr(rule, "by_settings", False) else None
