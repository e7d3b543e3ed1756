"""The short ways of a tool call of which nothing has to be waited for: a job for a worker, or one task on the loop."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from rrext.engine.calls.failures import cancelled_from_inside, failure_of
from rrext.engine.calls.host import Host, claim
from rrext.engine.calls.lease import Borrowed, Lease
from rrext.engine.calls.places import Loan, Place
from rrext.engine.calls.tool_run import Encoded, ToolRun, encode_result
from rrext.engine.interface import Call
from rrext.engine.task import Route, Task
from rrext.errors import RrextError
from rrext.tools.context import CancelToken
from rrext.workers import apart

__all__ = ["AsyncJob", "SyncJob", "answer", "run_inline", "tool_failure"]


class _Job:
    """A call that is about to run, runs, or was withdrawn; it gives back what it holds, and answers."""

    __slots__ = ("_deadline", "_host", "_kwargs", "_lease", "_route", "_token", "_unclaimed", "call")

    def __init__(
        self, host: Host, call: Call, lease: Lease | Borrowed, route: Route, kwargs: dict[str, Any], deadline: float | None
    ) -> None:
        self._host = host
        self.call = call
        self._lease = lease
        self._route = route
        self._kwargs = kwargs
        self._deadline = deadline
        self._token: CancelToken | None = CancelToken() if route.spec.wants_context else None
        self._unclaimed = [True]

    def _call_tool(self) -> Any:
        """What the function returns: a value, or a coroutine."""
        route = self._route
        node = self._lease.objects.object(route.component.id)
        if self._token is None:
            return route.spec.call(node, self._kwargs, None)
        lease = self._lease
        assert isinstance(lease, Lease)  # who only borrowed a place has no context to give
        run = ToolRun(self._host, self.call, lease, route, deadline=self._deadline, token=self._token)
        if route.spec.kind == "sync":
            run.loan = Loan(lease.task.sync_places)
        return route.spec.call(node, self._kwargs, run.context())

    def _give_back(self) -> None:
        self._lease.task.active.discard(self.call)
        self._lease.drop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._route!r} {self._lease!r}>"


class SyncJob(_Job):
    """A `def` tool for a worker thread, with its place among the running sync calls."""

    __slots__ = ("_place",)

    def __init__(
        self,
        host: Host,
        call: Call,
        lease: Lease,
        route: Route,
        kwargs: dict[str, Any],
        deadline: float | None,
        place: Place,
    ) -> None:
        super().__init__(host, call, lease, route, kwargs, deadline)
        self._place = place
        call.stop = self.stop

    def launch(self) -> None:
        """Go to a thread, now or when there is a place."""
        if not self._place.when_granted(self._go):
            self._go()

    def _go(self) -> None:
        self._host.workers.run(self)

    def stop(self, reason: Any) -> None:
        """The call is answered: withdraw, or tell the tool and leave its thread behind."""
        if claim(self._unclaimed):
            self._give_back()
            return
        if self._token is not None:
            self._token.cancel(reason)
        if isinstance(self._lease, Lease):
            self._lease.spoil()
        self._route.forget()

    def __call__(self) -> None:
        if not claim(self._unclaimed):
            return
        call, route = self.call, self._route
        began = perf_counter()
        try:
            encoded = encode_result(route.spec, None, self._call_tool(), self._host.limits)
        except BaseException as error:
            self._give_back()
            call.fail(tool_failure(self._host, call, route, error))
            return
        route.learn(perf_counter() - began, self._host.limits.quick)
        self._give_back()
        answer(call, encoded)

    def _give_back(self) -> None:
        self._place.release()
        super()._give_back()


class AsyncJob(_Job):
    """An `async def` tool, in the runner's task or in one of its own.

    The loop keeps only weak references to tasks: `Task.active` holds the call, which holds this.
    """

    __slots__ = ("_task",)

    def launch(self) -> None:
        """Begin on the loop, with the batch that is read or in the next turn."""
        self._task: asyncio.Task[None] | None = None
        self.call.stop = self.stop
        self._host.runner.add(self)

    def start(self) -> None:
        """Run in a task of its own."""
        self._task = asyncio.Task(self._main(), loop=self._host.loop)

    async def run_in(self, task: asyncio.Task[None]) -> None:
        """Run in a task that is there."""
        self._task = task
        await self._main()

    def stop(self, reason: Any) -> None:
        """The call is answered: withdraw, or unwind the tool."""
        if self._token is not None:
            self._token.cancel(reason)
        if claim(self._unclaimed):  # a task that is cancelled before its first step never runs its `finally`
            self._give_back()
        if self._task is not None:
            self._task.cancel()

    async def _main(self) -> None:
        if not claim(self._unclaimed):
            return
        call, route = self.call, self._route
        try:
            encoded = encode_result(route.spec, None, await self._call_tool(), self._host.limits)
        except asyncio.CancelledError as error:
            self._lease.taint()
            self._give_back()
            if not call.fail(tool_failure(self._host, call, route, error)):
                raise
        except BaseException as error:
            self._give_back()
            call.fail(tool_failure(self._host, call, route, error))
        else:
            self._give_back()
            answer(call, encoded)


def run_inline(host: Host, call: Call, task: Task, route: Route, given: Any) -> None:
    """Run a quick sync tool on this thread, which holds a place of both kinds for it.

    The same steps as `SyncJob`, for which nothing had to be waited for and nothing needs to be remembered. A call that
    is answered meanwhile leaves its objects to nobody. A tool that knows of its call is a `SyncJob`, run here.
    """
    spec = route.spec
    if spec.wants_context:
        _run_job_inline(host, call, task, route, given)
        return
    spoiled: list[str] = []
    objects = task.take_spare()
    encoded: Encoded | None = None
    failure: RrextError | None = None
    try:
        kwargs = spec.structure(None, given, host.limits)
        node = objects.object(route.component.id)
        call.stop = spoiled.append
        encoded = encode_result(spec, None, apart(spec.call, node, kwargs, None), host.limits)
    except BaseException as error:
        failure = tool_failure(host, call, route, error)
    if not spoiled:
        task.give_spare(objects)
    task.places.give_back_with(task.sync_places)
    if encoded is not None:
        answer(call, encoded)
    elif failure is not None:
        call.fail(failure)
        del failure  # its traceback leads back to here: such circles would wait for the garbage collector


def _run_job_inline(host: Host, call: Call, task: Task, route: Route, given: Any) -> None:
    lease, place = Lease(task, Place(task.places, True)), Place(task.sync_places, True)
    try:
        kwargs = route.spec.structure(None, {} if given is None else given, host.limits)
    except RrextError as error:
        place.release()
        lease.drop()
        call.fail(error)
        return
    task.active.add(call)
    apart(SyncJob(host, call, lease, route, kwargs, None, place))


def answer(call: Call, encoded: Encoded) -> None:
    """Answer with a tool's result."""
    body, raw = encoded
    if raw is None:
        call.succeed(b'{"result":' + body + b"}")
    else:
        call.succeed(b"{}", raw)


def tool_failure(host: Host, call: Call, route: Route, error: BaseException) -> RrextError:
    """What the caller is told of what a tool raised."""
    tool, node_id = route.spec.name, route.component.id
    if isinstance(error, asyncio.CancelledError):
        return cancelled_from_inside(tool, node_id)
    return failure_of(
        error,
        what=f'Tool "{tool}" on node "{node_id}" failed',
        node_id=node_id,
        tool=tool,
        request_id=call.request_id,
        trusted=call.caller.trusted,
        limits=host.limits,
    )
