"""The tools that a caller may see and call: their list, and near matches for the error of an unknown tool or node."""

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
    """Lists the tools of a pipeline for one caller."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def explain(self, call: Call, task: Task, error: NotFound, tool: str, node_id: str | None) -> NotFound:
        """Add near matches to a not-found error, among the tools that this caller may see."""
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
        """List the (node, tool) pairs that this caller may call now, in chain order, without waiting for a component.

        A component that is not set up cannot tell whether its conditional tools are available: they are left out. The
        node objects made here are discarded.
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
        """Whether the caller may call the tool now. False if its node object cannot be made."""
        try:
            return ToolRun(self._host, call, lease, route, deadline=None).is_usable()
        except Exception:
            log.warning("%s %s cannot be used", call.name, route.label, exc_info=True)
            return False

    async def listing(self, call: Call, task: Task, node_id: str | None) -> list[dict[str, Any]]:
        """List the descriptors of the tools that this caller may call now, in chain order. Raises `NodeNotFound`.

        A component that cannot be set up lists no tools, because none could be called. A tool that cannot be described is
        left out, because it could not be called and must not hide the others.
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
