"""Tool calls of clients: takes the place or turn of a call, or joins its line, and chooses its thread.

A `def` tool that need not wait runs on a thread: on the reading thread if the tool is quick, else on a worker. All other
calls run on the loop: `async def` tools that need not wait run inside the batch of requests that was read, the others in
tasks of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from rrext.engine.calls.run import Lease, TaskWork, ToolRun
from rrext.engine.calls.tool_list import ToolList
from rrext.engine.host.host import Host
from rrext.engine.interface.call import Call
from rrext.engine.interface.failures import internal_error
from rrext.engine.interface.operations import Tool
from rrext.engine.tasks.pipes import Pipes
from rrext.engine.tasks.routes import Route, several_owners, tool_not_found
from rrext.engine.tasks.task import Task, learn_tool
from rrext.errors import Cancelled, NotFound, RrextError
from rrext.limits import MIN_QUICK_TIMEOUT

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
            self._host.spawn(self._start_later(call, task, operation), f"tools for {call.name}")
            return False
        is_quick = route is not None and (route.quick_alone if alone else route.quick)
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

    async def _start_later(self, call: Call, task: Task, operation: Tool) -> None:
        """Begin a call whose tool may be a dynamic one, after the nodes have learnt theirs."""
        if call.settled:
            return
        call.work = TaskWork(asyncio.current_task())
        task.active.add(call)
        try:
            self._host.limit(call)
            self._host.watch(call)
            await learn_tool(self._host, task, operation.node_id, operation.tool, trusted=call.caller.trusted)
            if not call.settled:
                self.start(call, task, operation, alone=False, learnt=True)
        except RrextError as error:
            call.fail(error)
        except asyncio.CancelledError:
            call.fail(Cancelled())
            raise
        except BaseException:
            log.exception("%s a bug of rrext", call.name)
            call.fail(internal_error())
        finally:
            if not isinstance(call.work, ToolRun):
                task.active.discard(call)

    def _run_class(self, call: Call, lease: Lease) -> type[ToolRun]:
        """The class of a run for a caller who may have asked for its events, or on a pipe that may be traced."""
        operation, pipe = call.operation, lease.pipe
        is_told = call.feed is not None and isinstance(operation, Tool) and operation.events
        if is_told or (pipe is not None and pipe.origin.trace is not None):
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
