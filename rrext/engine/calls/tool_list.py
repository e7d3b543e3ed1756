"""The tools that a caller may see and call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from rrext.engine.calls.run import Lease, ToolRun
from rrext.engine.host.host import Host
from rrext.engine.host.places import FREE
from rrext.engine.interface import failures
from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import ANY_TOOL, ListTools
from rrext.engine.tasks.routes import Route, tool_not_found, with_near_names
from rrext.engine.tasks.task import Task, learn_tools
from rrext.errors import NotFound, RrextError
from rrext.tools.decorator import ToolDefinitionError

log: Final = logging.getLogger("rrext.engine")

Shape: TypeAlias = Callable[[Route, dict[str, Any]], dict[str, Any]]
"""Makes the entry of a list from a tool and its description."""


class ToolList:
    """Lists the tools of a pipeline for one caller."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def explain(self, call: Call, task: Task, error: NotFound, tool: str, node_id: str | None) -> NotFound:
        """Add near matches to a not-found error, among the tools that this caller may see."""
        visible = [(route.node_id, _names_of(route)) for route in self._visible(call, task)]
        return with_near_names(error, tool, node_id, visible, {**task.unknown, **task.untold})

    def _visible(self, call: Call, task: Task) -> list[Route]:
        """List the tools that this caller may call now, in chain order, without waiting for a component.

        A component that is not set up cannot tell whether its conditional tools are available: they are left out. The
        node objects made here are discarded.
        """
        lease = Lease(task, FREE)
        found: list[Route] = []
        for route in task.tools_of(None):
            component = route.component
            if not route.is_among(call.caller.tools):
                continue
            if component.blocked is not None or component.failure is not None:
                continue
            can_be_asked = component.ready or not route.spec.has_predicate
            if can_be_asked and self._is_usable(call, task, route, lease):
                found.append(route)
        return found

    def is_visible(self, call: Call, task: Task, route: Route) -> bool:
        """Whether the caller may see the tool now. Its component must be ready."""
        lease = Lease(task, FREE)
        try:
            return self._is_usable(call, task, route, lease)
        finally:
            lease.drop()

    def require_visible(self, call: Call, task: Task, route: Route) -> None:
        """Raise the `Unavailable` that a call of the tool would raise for this caller now. Its component must be ready."""
        lease = Lease(task, FREE)
        try:
            ToolRun(self._host, call, lease, route, deadline=None).require_available()
        finally:
            lease.drop()

    def _is_usable(self, call: Call, task: Task, route: Route, lease: Lease) -> bool:
        """Whether the caller may call the tool now. False if its node object cannot be made."""
        try:
            return ToolRun(self._host, call, lease, route, deadline=None).is_usable()
        except Exception:
            log.warning("%s %s cannot be used", call.name, route.label, exc_info=True)
            return False

    async def listing(self, call: Call, task: Task, asked: ListTools) -> dict[str, Any]:
        """The body of the answer to `tools`: descriptors of the tools that this caller may call now, in chain order.

        A component that cannot be set up lists no tools, because none could be called. A tool that cannot be described stands
        in `undescribed` with its error, because it could not be called and must not hide the others; so does a node that
        cannot tell its dynamic tools, with `*` as the tool. Raises `NodeNotFound`, `ToolNotFound` for a name that no tool has,
        and `InvalidArguments` for a format that `rrext.tools.export` does not have.
        """
        node_id = asked.node_id
        shape = _native if asked.format is None else _exporting(asked.format)
        lease = Lease(task, FREE)
        found: list[dict[str, Any]] = []
        failed = await learn_tools(self._host, task, node_id, trusted=call.caller.trusted) if task.dynamic else {}
        undescribed = [
            self._undescribed(node, ANY_TOOL, error)
            for component, error in failed.items()
            for node in task.nodes_of(component)
            if not node_id or node == node_id.strip()
        ]
        try:
            for route in self._tools_of(call, task, node_id, asked.tool):
                try:
                    await route.component.ensure(self._host, trusted=call.caller.trusted)
                except RrextError:
                    continue
                if self._is_usable(call, task, route, lease):
                    try:
                        found.append(self._described(call, route, lease, shape))
                    except RrextError as error:
                        undescribed.append(self._undescribed(route.node_id, route.spec.name, error))
        finally:
            lease.drop()
        return {"tools": found, **({"undescribed": undescribed} if undescribed else {})}

    def _undescribed(self, node_id: str, tool: str, error: RrextError) -> dict[str, Any]:
        return {"nodeId": node_id, "name": tool, "code": error.code, "message": self._host.redactor.text(error.message)}

    def _tools_of(self, call: Call, task: Task, node_id: str | None, tool: str | None) -> list[Route]:
        """The tools that the caller may call, of one node and of one name if these are given."""
        try:
            routes = [route for route in task.tools_of(node_id) if route.is_among(call.caller.tools)]
            if tool is not None:
                routes = [route for route in routes if tool.strip() in _names_of(route)]
                if not routes:
                    raise tool_not_found(tool, node_id)
            return routes
        except NotFound as error:
            raise self.explain(call, task, error, tool or "", node_id) from None

    def _described(self, call: Call, route: Route, lease: Lease, shape: Shape) -> dict[str, Any]:
        """The descriptor of a tool. Raises `RrextError` if its node's code cannot give one."""
        component, name = route.component, route.spec.name
        try:
            return shape(route, route.spec.describe(lease.node(component.id)))
        except ToolDefinitionError as error:  # its text names the tool and the reason
            failures.log.warning(
                "%s %s cannot be described: %s", call.name, route.label, error.message, exc_info=error.__cause__
            )
            if call.caller.trusted:
                raise
            raise ToolDefinitionError(f'Tool "{name}" of node "{component.id}" cannot be described; the log has why') from error
        except (Exception, SystemExit) as error:
            what = f'Tool "{name}" of node "{component.id}" cannot be described'
            trusted, limits = call.caller.trusted, self._host.limits
            raise failures.failure_of(
                error, what=what, node_id=component.id, tool=name, request=call.name, trusted=trusted, limits=limits
            ) from error


def _names_of(route: Route) -> tuple[str, ...]:
    """The names under which a tool can be called."""
    return tuple(dict.fromkeys((route.spec.name, route.exported_name)))


def _native(route: Route, described: dict[str, Any]) -> dict[str, Any]:
    return {"nodeId": route.node_id, **described}


def _exporting(format: str) -> Shape:
    """The shape of a tool in a format. Raises `InvalidArguments` for an unknown one."""
    from rrext.tools.export import ExportedTool, exporter

    export = exporter(format)

    def exported(route: Route, described: dict[str, Any]) -> dict[str, Any]:
        return export(ExportedTool(route.exported_name, route.node_id, described, route.spec.chunks_described))

    return exported
