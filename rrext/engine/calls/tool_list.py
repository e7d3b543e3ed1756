"""The tools that a caller may see and call: listed, and named where a call asks for something that is not there."""

from __future__ import annotations

import logging
from typing import Any, Final

from rrext.engine.calls.lease import Lease
from rrext.engine.calls.tool_run import ToolRun
from rrext.engine.host.host import Host
from rrext.engine.host.places import Place
from rrext.engine.interface.call import Call
from rrext.engine.tasks.task import Route, Task
from rrext.errors import NodeNotFound, NotFound, RrextError, ToolNotFound

log: Final = logging.getLogger("rrext.engine")


class ToolList:
    """Looks at the tools of a pipeline for one caller."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def explain(self, call: Call, task: Task, error: NotFound, tool: str, node_id: str | None) -> NotFound:
        """The error with its near matches among what this caller may see."""
        visible = self._visible(call, task)
        if isinstance(error, NodeNotFound):
            return NodeNotFound.near(error.message, node_id or "", [owner for owner, _ in visible])
        here = [name for owner, name in visible if not node_id or owner == node_id]
        elsewhere = [owner for owner, name in visible if name == tool]
        if node_id and elsewhere:
            hint = f'Node "{elsewhere[0]}" has a tool of that name.'
            return ToolNotFound(f"{error.message}. {hint}", hint=hint, data={"near": elsewhere, "nodes": elsewhere})
        return ToolNotFound.near(f"{error.message}.", tool, here)

    def _visible(self, call: Call, task: Task) -> list[tuple[str, str]]:
        """The (node, tool) pairs that this caller may call now, in chain order, as far as that is known at once.

        Who is not set up yet cannot be asked whether a tool of it is available. The node objects that are looked at here
        are nobody's afterwards.
        """
        lease = Lease(task, Place.free())
        found: list[tuple[str, str]] = []
        for route in task.tools_of(None):
            component = route.component
            if component.blocked is not None or component.failure is not None:
                continue
            can_be_asked = component.ready or not route.spec.has_predicate
            if can_be_asked and self._is_usable(call, task, route, lease):
                found.append((component.id, route.spec.name))
        return found

    def _is_usable(self, call: Call, task: Task, route: Route, lease: Lease) -> bool:
        """Whether the caller may call the tool now. What cannot even be made is no use."""
        try:
            return ToolRun(self._host, call, lease, route, deadline=None).is_usable()
        except Exception:
            log.warning("%s %s cannot be used", call.name, route.label, exc_info=True)
            return False

    async def listing(self, call: Call, task: Task, node_id: str | None) -> list[dict[str, Any]]:
        """The descriptors of the tools that this caller may call now, in chain order. Raises `NodeNotFound`.

        A component that cannot be set up lists nothing, as none of its tools could be called. Nor does a tool that
        cannot be described: it could not be called, and must not hide the others.
        """
        lease = Lease(task, Place.free())
        found: list[dict[str, Any]] = []
        try:
            for route in self._tools_of(call, task, node_id):
                try:
                    await route.component.ensure(self._host, trusted=call.caller.trusted)
                except RrextError:
                    continue
                described = self._described(call, task, route, lease)
                if described is not None:
                    found.append({"nodeId": route.component.id, **described})
        finally:
            lease.drop()
        return found

    def _tools_of(self, call: Call, task: Task, node_id: str | None) -> list[Route]:
        try:
            return list(task.tools_of(node_id))
        except NotFound as error:
            raise self.explain(call, task, error, "", node_id) from None

    def _described(self, call: Call, task: Task, route: Route, lease: Lease) -> dict[str, Any] | None:
        if not self._is_usable(call, task, route, lease):
            return None
        try:
            return route.spec.describe(lease.objects.object(route.component.id))
        except Exception:
            log.warning("%s %s cannot be described", call.name, route.label, exc_info=True)
            return None
