"""Tools that call tools of the same pipeline, on the caller's node objects and in the caller's place.

No nested call waits for a pipe, and a sync caller lends its place among the running sync calls while it waits, so
calls that nest finish with one thread as well as with sixty-four.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rrext.engine.task import Route
from rrext.engine.tool_run import Encoded, ToolRun
from rrext.errors import InvalidArguments, ToolError, ToolNotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["Nesting"]

T = TypeVar("T")


class Nesting:
    """What a run's context uses to call other tools; `trail` names the tools from the outermost one on."""

    __slots__ = ("_run", "trail")

    def __init__(self, run: ToolRun, trail: tuple[str, ...] = ()) -> None:
        self._run = run
        self.trail = (*trail, f"{run.route.component.id}.{run.spec.name}")

    async def call(self, node: str, tool: str, input: Any) -> Any:
        """The result of a tool, from a coroutine."""
        callee = await self._callee(node, tool)
        kwargs = self._prepare(callee, input)
        return _plain(await callee.encoded(kwargs))

    def call_blocking(self, node: str, tool: str, input: Any) -> Any:
        """The result of a tool, from a thread; runs on this thread if the callee can."""
        run = self._run
        on_loop = _is_loop_thread(run.host.loop)
        route = self._find(node, tool)
        here = self._runs_here(route, on_loop)
        if on_loop and not (here and route.component.ready):
            raise ToolError(
                f'"{self.trail[-1]}" runs on the event loop\'s thread and cannot wait for "{route.component.id}.{tool}" there',
                hint='make the caller `async def` and `await ctx.call(...)`, or leave out thread="main"',
            )
        if not route.component.ready:
            self._lend(route.component.ensure(run.host.workers))
        callee = self._run_of(route)
        kwargs = self._prepare(callee, input)
        if here:
            return _plain(callee.encoded_blocking(kwargs))
        return _plain(self._lend(callee.encoded(kwargs)))

    def _runs_here(self, route: Route, on_loop: bool) -> bool:
        spec = route.spec
        if spec.kind in ("async", "async_generator"):
            return False
        if spec.thread == "same":
            return route.component.own_thread.is_current
        return on_loop if spec.thread == "main" else True

    def _lend(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine on the loop with this thread's place lent to whoever runs for it."""
        run = self._run
        places = run.lease.task.sync_places
        places.lend()
        try:
            return run.host.from_thread(work, run.token)
        finally:
            places.take_back()

    def _find(self, node: str, tool: str) -> Route:
        run = self._run
        task = run.lease.task
        if len(self.trail) >= run.host.limits.call_depth:
            chain = " → ".join((*self.trail, f"{node or '*'}.{tool}"))
            raise ToolError(
                f"Tools call each other more than {run.host.limits.call_depth} deep (call_depth): {chain}",
                data={"limit": "call_depth", "chain": list(self.trail)},
            )
        routes = task.route(node, tool)
        objects = run.lease.objects
        for route in routes:
            if len(routes) == 1 or task.usable_by(route, objects, run.context):
                return route
        raise ToolNotFound(f'No handler found for tool "{tool}"')

    async def _callee(self, node: str, tool: str) -> ToolRun:
        route = self._find(node, tool)
        await route.component.ensure(self._run.host.workers)
        return self._run_of(route)

    def _run_of(self, route: Route) -> ToolRun:
        run = self._run
        deadline = run.deadline
        if route.spec.timeout is not None:
            own = run.host.clock.now() + route.spec.timeout
            deadline = own if deadline is None else min(deadline, own)
        callee = ToolRun(run.host, run.call, run.lease, route, deadline=deadline, token=run.token)
        callee.nested = Nesting(callee, self.trail)
        callee.is_outermost = False
        return callee

    def _prepare(self, callee: ToolRun, value: Any) -> dict[str, Any]:
        try:
            return callee.prepare({} if value is None else value)
        except InvalidArguments as error:  # the caller's mistake, not that of who called the caller
            raise ToolError(
                f'"{self.trail[-1]}" called "{callee.nested.trail[-1]}" with input that does not fit: {error.message}',  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
                data=error.data,
            ) from error
        except Unavailable as error:
            raise ToolError(error.message, hint=error.hint, data=error.data) from error


def _plain(result: Encoded) -> Any:
    """The result as an outside caller would get it: plain data, nothing shared with the callee."""
    encoded, raw = result
    return raw if raw is not None else msgspec.json.decode(encoded)


def _is_loop_thread(loop: asyncio.AbstractEventLoop) -> bool:
    return asyncio._get_running_loop() is loop
