"""Tool calls of clients: takes the place or turn of a call, or joins its line, and chooses its thread; and the list of tools.

A `def` tool that need not wait runs on a thread: on the reading thread if the tool is quick, else on a worker. All other
calls run on the loop: `async def` tools that need not wait run inside the batch of requests that was read, the others in
tasks of their own. `ToolList` has the tools that a caller may see and call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from rrext.engine.calls.run import Lease, TaskWork, ToolRun
from rrext.engine.host.host import Host
from rrext.engine.host.places import FREE
from rrext.engine.interface import failures
from rrext.engine.interface.call import Call
from rrext.engine.interface.failures import internal_error
from rrext.engine.interface.operations import ANY_TOOL, ListTools, Tool
from rrext.engine.tasks.pipes import Pipes
from rrext.engine.tasks.routes import Route, several_owners, tool_not_found, with_near_names
from rrext.engine.tasks.task import Task, learn_tool, learn_tools
from rrext.errors import Cancelled, NotFound, RrextError
from rrext.limits import MIN_QUICK_TIMEOUT
from rrext.tools.decorator import ToolDefinitionError

log: Final = logging.getLogger("rrext.engine")


class ToolCalls:
    """Starts `Tool` operations of an engine."""

    __slots__ = ("_host", "_list", "_pipes")

    def __init__(self, host: Host, pipes: Pipes, tool_list: ToolList) -> None:
        self._host = host
        self._pipes = pipes
        self._list = tool_list
        host.events.when_changed(self._choose_runs)

    def _choose_runs(self) -> None:
        """Choose the class of tool runs: the slower `WatchedRun` only while callbacks or subscribers watch calls."""
        if self._host.events.watches_calls:
            from rrext.engine.calls.watched_run import WatchedRun

            self._host.tool_run = WatchedRun
        else:
            self._host.tool_run = ToolRun

    def start(self, call: Call, task: Task, operation: Tool, *, alone: bool, learnt: bool = False) -> bool:
        """Begin the call from the loop, see `Engine.start`. It joins its line before this returns, so arrival order is kept.

        `learnt`: the nodes were asked for their dynamic tools.
        """
        route = _route(call, task, operation)
        if (route is None or operation.unique) and not learnt and _may_learn(task, operation):
            learning = learn_tool(self._host, task, operation.node_id, operation.tool, trusted=call.caller.trusted)
            begin = partial(self.start, call, task, operation, alone=False, learnt=True)
            self._host.spawn(start_later(self._host, call, task, learning, begin), f"tools for {call.name}")
            return False
        is_quick = route is not None and (route.quick_alone if alone else route.quick)
        chosen = route
        try:
            routes = [route] if route is not None else self._routes(call, task, operation)
            if call.caller.tools is not None and call.task is None:
                routes = self._allowed(call, task, operation, routes)
            if operation.unique and len(routes) > 1:
                routes = _only_owner(operation, routes)
            kwargs = timeout = None  # of several owners, the tool that will run is not known yet
            chosen = routes[0]
            if len(routes) == 1:
                spec = chosen.spec
                timeout = spec.timeout
                if chosen.plain:  # the input is checked before the call waits
                    kwargs = spec.structure(None, operation.input, self._host.limits)
            if operation.pipe_id is None:
                lease = Lease(task, task.places.take(call.caller, call))
            else:
                lease = self._lease_on_pipe(call, operation.pipe_id)
            run_class = self._host.tool_run if call.feed is None and lease.pipe is None else self._run_class(call, lease)
            run: ToolRun = run_class(self._host, call, lease, chosen, begins=True, timeout=timeout)
        except RrextError as error:
            task.calls += 1
            named = f"{operation.node_id}.{operation.tool}" if operation.node_id else operation.tool
            label = named if chosen is None else chosen.label
            task.note_failed_call(self._host.redactor.text(f"{label}: {error.message}"))
            call.fail(error)
            return is_quick
        run.kwargs = kwargs
        if call.deadline is not None:
            self._host.watch(call)
        is_def = chosen.spec.is_def
        outlet = call.outlet if is_def else None  # an `async def` tool looks itself
        is_held_up = outlet is not None and outlet.size and outlet.is_full
        if kwargs is None or is_held_up or not (run.lease.turn.granted and chosen.component.ready):
            run.owners = routes
            run.start()
        elif is_def:
            run.to_worker()
        else:
            self._host.runner.add(run)
        return is_quick

    def start_here(self, call: Call, task: Task, operation: Tool, *, alone: bool) -> bool:
        """Begin the call on the thread that read it, see `Engine.start`: a quick `def` tool runs here, others on a worker.

        False if the call has to wait, for which the loop is needed.
        """
        route = _route(call, task, operation)
        if route is None or not (route.for_threads and route.component.ready):
            return False
        if operation.unique and _may_learn(task, operation):
            return False
        if call.caller.tools is not None and call.task is None and not route.is_among(call.caller.tools):
            return False
        outlet = call.outlet
        if outlet is not None and (
            (outlet.size and outlet.is_full)
            or (route.returns and not self._host.results.has_room(outlet, route.returns, call.caller.counts_for))
        ):
            return False
        if operation.pipe_id is None:
            lease = Lease(task, task.places.take(call.caller, call))
        else:
            lease = self._lease_on_pipe(call, operation.pipe_id)
        place = task.sync_places.take()
        pipe = lease.pipe  # checked while its turn is held: the loop may have failed or freed it meanwhile
        is_open = pipe is None or (self._pipes.at(pipe.id) is pipe and pipe.failed is None)
        if not (place.granted and lease.turn.granted and is_open):
            place.release()
            lease.drop()
            return False
        run_class = self._host.tool_run if call.feed is None and pipe is None else self._run_class(call, lease)
        run: ToolRun = run_class(self._host, call, lease, route, begins=True, timeout=route.spec.timeout, place=place)
        if task.stopping:  # the loop may have stopped the active calls before this one joined them
            call.fail(Cancelled("cancelled: the pipeline was terminated"))
        if not call.unsettled:  # answered while this thread decided
            run.stop("cancelled")
            call.work = None
        elif (route.quick_alone if alone else route.quick) and (call.deadline is None or call.seconds >= MIN_QUICK_TIMEOUT):
            run.run_here()
        else:
            self._host.watch(call)
            run.to_thread()
        return True

    def _run_class(self, call: Call, lease: Lease) -> type[ToolRun]:
        """The class of a run for a caller who may have asked for its events, or on a pipe that may be traced."""
        if call.tells_calls or (lease.pipe is not None and lease.pipe.origin.trace is not None):
            from rrext.engine.calls.watched_run import WatchedRun

            return WatchedRun
        run_class: type[ToolRun] = self._host.tool_run
        return run_class

    def _routes(self, call: Call, task: Task, operation: Tool) -> Sequence[Route]:
        try:
            return task.route(operation.node_id, operation.tool)
        except NotFound as error:
            raise self._list.explain(call, task, error, operation.tool, operation.node_id) from None

    def _allowed(self, call: Call, task: Task, operation: Tool, routes: Sequence[Route]) -> Sequence[Route]:
        """The routes that the caller may use. Others are as if they were not there: raises `ToolNotFound`."""
        allowed = [route for route in routes if route.is_among(call.caller.tools)]
        if allowed:
            return allowed
        error = tool_not_found(operation.tool, operation.node_id)
        raise self._list.explain(call, task, error, operation.tool, operation.node_id)

    def _lease_on_pipe(self, call: Call, pipe_id: int) -> Lease:
        """Make a lease of a pipe, whose turn is held already or waits in line."""
        pipe = self._pipes.find(pipe_id, call.caller.connection_id)
        pipe.last_used = self._host.clock.now()
        turn = pipe.lock.enter(exclusive=False)
        if turn.granted and pipe.failed is not None:
            turn.release()
            pipe.check_usable()
        return Lease.of_pipe(pipe, turn)


async def start_later(
    host: Host, call: Call, task: Task, waiting: Coroutine[Any, Any, object], begin: Callable[[], object]
) -> None:
    """Begin a call of a pipeline after something else: its nodes have learnt their tools, or are set up."""
    if call.settled:
        waiting.close()
        return
    work = call.work = TaskWork(asyncio.current_task())
    task.active.add(call)
    try:
        host.limit(call)
        host.watch(call)
        await waiting
        if not call.settled:
            begin()
    except RrextError as error:
        call.fail(error)
    except asyncio.CancelledError:
        call.fail(Cancelled())
        raise
    except BaseException:
        log.exception("%s a bug of rrext", call.name)
        call.fail(internal_error())
    finally:
        if call.work is work or call.work is None:
            task.active.discard(call)


def _route(call: Call, task: Task, operation: Tool) -> Route | None:
    """The route that was found before, or the only one of these names."""
    routes, names = task.routes, (operation.node_id, operation.tool)
    return call.route or routes.direct.get(names) or routes.only(*names)


def _may_learn(task: Task, operation: Tool) -> bool:
    """Whether the tool, or for a caller who wants the only owner a second one of the name, may be known after a setup."""
    node_id, tool = operation.node_id, operation.tool
    return task.may_learn(node_id, tool) or bool(operation.unique and not node_id and task.may_learn_owners(tool))


def _only_owner(operation: Tool, routes: Sequence[Route]) -> Sequence[Route]:
    """The one owner among several routes: the pipeline's own, since tools from outside take no name away. One that the settings
    deny may be the one that is meant. Raises `InvalidArguments` with the owners if there are several.
    """
    own = [route for route in routes if not route.is_dynamic] or routes
    if len(own) > 1:
        raise several_owners(operation.tool, [route.node_id for route in own])
    return own


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
                if asked.format is not None and not route.spec.options.for_models:
                    continue
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
