"""Tool calls of clients: from the operation to its one answer, on the shortest way that is safe for it.

Several ways lead through the same steps. A call of which nothing has to be waited for may be taken at once
(`start_short`): a quick sync tool on the very thread that read its request, an async tool inside the batch that was read.
A sync tool of which nothing has to be waited for goes straight to a worker, which also answers.
Everything else — async tools, generators, setup, predicates, a full line — is a task on the loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from rrext.engine.calls.host import Host, claim
from rrext.engine.calls.jobs import AsyncJob, SyncJob, answer, run_inline, tool_failure
from rrext.engine.calls.lease import Borrowed, Lease
from rrext.engine.calls.places import Place
from rrext.engine.calls.tool_run import ToolRun
from rrext.engine.calls.watch import is_watched
from rrext.engine.flow.pipes import Pipe, Pipes
from rrext.engine.interface import Call, Tool
from rrext.engine.task import Route, Task
from rrext.errors import NotFound, RrextError, Unavailable
from rrext.tools.context import CancelToken

__all__ = ["ToolCalls"]

log: Final = logging.getLogger("rrext.engine")


class ToolCalls:
    """Starts and runs `Tool` operations of an engine."""

    __slots__ = ("_host", "_pipes")

    def __init__(self, host: Host, pipes: Pipes) -> None:
        self._host = host
        self._pipes = pipes

    def start(self, call: Call, task: Task, operation: Tool) -> None:
        """Begin the call on the loop's thread. Lines are joined before this returns, so arrival order is kept."""
        try:
            routes = self._routes(call, task, operation)
            kwargs = self._early_input(routes, operation)
            lease = self._lease(call, task, operation)
        except RrextError as error:
            call.fail(error)
            return
        task.calls += 1
        task.active.add(call)
        route = routes[0]
        deadline = self._host.watch(call, route.spec.timeout if len(routes) == 1 else None)
        if kwargs is not None and route.component.ready and lease.ticket.granted and not self._watched():
            if route.spec.kind == "async":
                AsyncJob(self._host, call, lease, route, kwargs, deadline).launch()
            else:
                call.was_quick, call.was_quick_alone = route.quick, route.quick_alone
                SyncJob(self._host, call, lease, route, kwargs, deadline, task.sync_places.take()).launch()
            return
        token, unclaimed = CancelToken(), [True]
        run = self._host.spawn(
            self._run(call, task, operation, routes, lease, deadline, token, unclaimed), f"tool {call.request_id}"
        )

        def stop(reason: Any) -> None:
            token.cancel(reason)
            if claim(unclaimed):  # a task that is cancelled before its first step never runs its `finally`
                task.active.discard(call)
                lease.drop()
            run.cancel()

        call.stop = stop

    def start_short(self, call: Call, task: Task, operation: Tool, *, may_block: bool, alone: bool) -> bool:
        """Take the call if nothing about it has to be waited for; False if something has, and then nothing was done.

        On a thread that may block, a quick sync tool runs to its end; on the loop, an async tool begins with the batch.
        """
        if operation.pipe_id is not None or operation.timeout is not None:
            return False
        route = task.only_route(operation.node_id, operation.tool)
        if route is None or self._watched():
            return False
        if may_block:
            is_quick = route.quick_alone if alone else route.quick
            if not is_quick or not task.places.take_with(task.sync_places):
                return False
            run_inline(self._host, call, task, route, operation.input)
        else:
            if not route.stays_in_task or not route.component.ready or not task.places.take_one():
                return False
            self._begin_async(call, task, route, operation)
        task.calls += 1
        if task.ttl:
            task.last_used = task.now()
        return True

    def _begin_async(self, call: Call, task: Task, route: Route, operation: Tool) -> None:
        lease = Borrowed(task)
        try:
            kwargs = route.spec.structure(None, operation.input, self._host.limits)
        except RrextError as error:
            lease.drop()
            call.fail(error)
            return
        task.active.add(call)
        AsyncJob(self._host, call, lease, route, kwargs, None).launch()

    def overstayed(self, task: Task, operation: Tool) -> None:
        """A tool that was taken for quick is not."""
        for route in task.route(operation.node_id, operation.tool):
            route.forget()

    def _watched(self) -> bool:
        return is_watched(self._host.callbacks)

    def _routes(self, call: Call, task: Task, operation: Tool) -> list[Route]:
        task.last_used = task.now()
        try:
            return task.route(operation.node_id, operation.tool)
        except NotFound as error:
            raise task.explain(error, operation.tool, operation.node_id, self.visible(call, task)) from None

    def _early_input(self, routes: list[Route], operation: Tool) -> dict[str, Any] | None:
        """The arguments of a plain tool, checked before anything is waited for; None where that needs the node."""
        route = routes[0]
        if len(routes) > 1 or not route.plain:
            return None
        return route.spec.structure(None, {} if operation.input is None else operation.input, self._host.limits)

    def _lease(self, call: Call, task: Task, operation: Tool) -> Lease:
        if operation.pipe_id is None:
            return Lease(task, task.places.take())
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        pipe.check_usable()
        return Lease(task, self._pipes.enter(pipe, exclusive=False, now=task.now()), pipe)

    def visible(self, call: Call, task: Task) -> list[tuple[str, str]]:
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
            return task.usable_by(route, lease.objects, ToolRun(self._host, call, lease, route, deadline=None))
        except Exception:
            log.warning("request=%s %s cannot be used", call.request_id, route.label, exc_info=True)
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
            raise task.explain(error, "", node_id, self.visible(call, task)) from None

    def _described(self, call: Call, task: Task, route: Route, lease: Lease) -> dict[str, Any] | None:
        if not self._is_usable(call, task, route, lease):
            return None
        try:
            return route.spec.describe(lease.objects.object(route.component.id))
        except Exception:
            log.warning("request=%s %s cannot be described", call.request_id, route.label, exc_info=True)
            return None

    async def _run(
        self,
        call: Call,
        task: Task,
        operation: Tool,
        routes: list[Route],
        lease: Lease,
        deadline: float | None,
        token: CancelToken,
        unclaimed: list[bool],
    ) -> None:
        if not claim(unclaimed):
            return
        route = routes[0]
        try:
            await self._host.granted(lease.ticket)
            if lease.pipe is not None:
                self._check_open(lease.pipe)
            route, run, kwargs = await self._choose(call, task, operation, routes, lease, deadline, token)
            encoded = await run.encoded(kwargs)
        except asyncio.CancelledError as error:
            lease.taint()
            lease.drop()
            if not call.fail(tool_failure(self._host, call, route, error)):
                raise
        except BaseException as error:
            lease.drop()
            call.fail(tool_failure(self._host, call, route, error))
        else:
            lease.drop()
            answer(call, encoded)
        finally:
            task.active.discard(call)

    def _check_open(self, pipe: Pipe) -> None:
        """After waiting at the gate: what came before may have closed or failed the pipe."""
        self._pipes.find(pipe.id, pipe.caller.connection_id).check_usable()

    async def _choose(
        self,
        call: Call,
        task: Task,
        operation: Tool,
        routes: list[Route],
        lease: Lease,
        deadline: float | None,
        token: CancelToken,
    ) -> tuple[Route, ToolRun, dict[str, Any]]:
        """The first owner in chain order that has the tool available; the only one's own reason if it has not."""
        for route in routes:
            run = ToolRun(self._host, call, lease, route, deadline=deadline, token=token)
            try:
                await route.component.ensure(self._host, trusted=call.caller.trusted)
            except RrextError as error:
                if len(routes) == 1 or error.code != "unavailable":
                    raise
                continue
            if len(routes) > 1 and not task.usable_by(route, lease.objects, run):
                continue
            if len(routes) > 1 and route.spec.timeout is not None:
                run.deadline = self._host.watch(call, route.spec.timeout)
            return route, run, run.prepare({} if operation.input is None else operation.input)
        raise Unavailable(f'Tool "{operation.tool}" is not available in this context on any node')
