"""Tools that call tools of the same pipeline, on the caller's node objects and in the caller's place.

No nested call waits for a pipe, and a sync caller lends its place among the running sync calls while it waits, so calls that
nest finish with one thread as well as with sixty-four. A tool calls another pipeline with one object, which it opens, writes
and closes as its own caller.
"""

from __future__ import annotations

import asyncio
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from rrext.engine.calls.questions import permitted
from rrext.engine.interface.call import Call, DroppedAnswer
from rrext.engine.interface.failures import cancelled_from_inside
from rrext.engine.interface.operations import Close, Open, Write
from rrext.engine.tasks.task import learn_tool
from rrext.errors import Cancelled, InvalidArguments, NotFound, ToolError, ToolTimeout, Unavailable, error_from_wire

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from rrext.engine.calls.run import Encoded, Run, ToolRun
    from rrext.engine.tasks.routes import Route


T = TypeVar("T")


class Nesting:
    """Calls other tools for the context of a run."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    async def call(self, node: str, tool: str, input: Any) -> Any:
        """Call a tool from a coroutine and return its result."""
        run = self._run
        if run.lease.task.may_learn(node, tool):
            await self._learn(node, tool)
        routes = self._owners(node, tool)
        for route in routes:
            await route.component.ensure(run.host, trusted=run.call.caller.trusted)
            callee = run.callee(route)
            if len(routes) == 1 or callee.is_usable():
                self._prepare(callee, input)
                if route.asks:
                    await permitted(callee, input)
                return _plain(await self._encoded(callee, input))
        raise self._nobody(tool)

    def call_blocking(self, node: str, tool: str, input: Any) -> Any:
        """Call a tool from a thread and return its result. The tool runs on this thread where its kind permits that."""
        run = self._run
        on_loop = _is_loop_thread(run.host.loop)
        if not on_loop and run.lease.task.may_learn(node, tool):
            self._wait_for(self._learn(node, tool))
        routes = self._owners(node, tool)
        for route in routes:
            here = self._runs_here(route, on_loop)
            if on_loop and not (here and route.component.ready):
                raise ToolError(
                    f'"{run.trail[-1]}" runs on the event loop\'s thread and cannot wait for "{route.label}" there',
                    hint='make the caller `async def` and `await ctx.call(...)`, or leave out thread="main"',
                )
            if not route.component.ready:
                self._wait_for(route.component.ensure(run.host, trusted=run.call.caller.trusted))
            callee = run.callee(route)
            if len(routes) > 1 and not callee.is_usable():
                continue
            self._prepare(callee, input)
            if route.asks:
                self._wait_for(permitted(callee, input))
            if here:
                callee.loan = run.loan
                return _plain(self._blocking(callee, input))
            return _plain(self._wait_for(self._encoded(callee, input)))
        raise self._nobody(tool)

    async def run_pipeline(self, token: str, text: str, *, mime_type: str | None, name: str | None) -> dict[str, Any]:
        """Give a text to another pipeline and return its result."""

        return await run_pipeline(self._run, token, text, mime_type=mime_type, name=name)

    def publish(self, node_id: str, type: str, data: Any) -> None:
        """Publish a node's message of this call."""
        self._run.event_origin.publish(node_id, type, data, self._run.call.request_id)

    def _runs_here(self, route: Route, on_loop: bool) -> bool:
        spec, caller = route.spec, self._run
        if not spec.is_def or (route.asks and on_loop):
            return False
        if spec.thread == "same":
            return route.component.own_thread.is_current
        if on_loop:
            return caller.may_hold_the_loop  # under an `async def` caller a sync tool would block the loop
        return spec.thread == "pool" and caller.loan is not None and caller.loan.thread == get_ident()

    def _blocking(self, callee: ToolRun, input: Any) -> Encoded:
        """Run the callee on this thread."""
        watch = callee.begin_nested(self._run, input)
        if watch is None:
            return callee.blocking()
        with watch:
            return watch.returned(callee.blocking())

    async def _encoded(self, callee: ToolRun, input: Any) -> Encoded:
        """Run the callee on the loop."""
        watch = callee.begin_nested(self._run, input)
        if watch is None:
            return await _in_own_time(callee)
        with watch:
            return watch.returned(await _in_own_time(callee))

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine on the loop; the caller's place is lent to other calls meanwhile."""
        run = self._run
        if run.loan is None:  # a thread of an async tool has no place
            return run.host.from_thread(work, run.token)
        with run.loan:
            return run.host.from_thread(work, run.token)

    async def _learn(self, node: str, tool: str) -> None:
        run = self._run
        await learn_tool(run.host, run.lease.task, node, tool, trusted=run.call.caller.trusted)

    def _owners(self, node: str, tool: str) -> Sequence[Route]:
        """The owners of a tool, in chain order. An error here is a mistake of the calling tool, not of the client."""
        run = self._run
        if len(run.trail) >= run.host.limits.call_depth:
            chain = (*run.trail, f"{node or '*'}.{tool}")
            raise ToolError(
                f"Tools call each other more than {run.host.limits.call_depth} deep (call_depth): {' → '.join(chain)}",
                data={"limit": "call_depth", "chain": list(chain)},
            )
        try:
            return run.lease.task.route(node, tool)
        except (NotFound, InvalidArguments) as error:
            raise ToolError(f'"{run.trail[-1]}" called a tool that is not there: {error.message}') from error

    def _nobody(self, tool: str) -> ToolError:
        return ToolError(f'"{self._run.trail[-1]}" called "{tool}", which is not available on any node in this context')

    def _prepare(self, callee: ToolRun, value: Any) -> None:
        try:
            callee.prepare(value)
        except InvalidArguments as error:
            raise ToolError(
                f'"{self._run.trail[-1]}" called "{callee.trail[-1]}" with input that does not fit: {error.message}',
                data=error.data,
            ) from error
        except Unavailable as error:
            raise ToolError(error.message, hint=error.hint, data=error.data) from error


async def _in_own_time(callee: ToolRun) -> Encoded:
    """Run the callee within its own timeout."""
    seconds = callee.spec.timeout
    try:
        if seconds is None:
            return await callee.ready()
        return await _in_time(callee, seconds)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        is_cancelled = callee.token.cancelled or task is None or task.cancelling()
        del task  # it keeps the error, whose traceback references this frame
        if is_cancelled:
            raise
        raise cancelled_from_inside(callee.spec.name, callee.route.component.id) from None


async def _in_time(callee: ToolRun, seconds: float) -> Encoded:
    host = callee.host
    limit = asyncio.timeout(None)
    timer = host.clock.call_later(seconds, lambda: limit.reschedule(host.loop.time()))
    try:
        async with limit:
            return await callee.ready()
    except TimeoutError:
        if not limit.expired():
            raise  # raised by the callee itself
        late = f'Tool "{callee.spec.name}" did not finish within {seconds:g} s'
        raise ToolTimeout(late, data={"timeout": seconds}) from None
    finally:
        timer.cancel()


def _plain(result: Encoded) -> Any:
    """Decode the result to plain data, as a client gets it; nothing is shared with the callee."""
    encoded, raw = result
    return raw if raw is not None else msgspec.json.decode(encoded)


def _is_loop_thread(loop: asyncio.AbstractEventLoop) -> bool:
    return asyncio._get_running_loop() is loop


CALLERS: Final = "rrext/pipelines"
"""The key of `_meta` with the tokens of the pipelines that called this one, the outermost first."""


async def run_pipeline(run: Run, token: str, text: str, *, mime_type: str | None, name: str | None) -> dict[str, Any]:
    """The result body of a pipeline for one text. Raises `ToolError` if pipelines would call each other in a circle."""
    given = run.call.operation.meta
    meta: dict[str, Any] = given if isinstance(given, dict) else {}
    before = meta.get(CALLERS)
    callers = [*(before if isinstance(before, list) else ()), run.lease.task.token]
    if token in callers:
        way = " → ".join(map(str, [*callers[callers.index(token) :], token]))
        raise ToolError(f"Pipelines would call each other in a circle: {way}", data={"chain": [*callers, token]})
    meta = {**meta, CALLERS: callers}
    try:
        return await _object(run, token, text, meta, mime_type=mime_type, name=name)
    except Cancelled as error:  # nobody cancelled the caller of this call
        raise ToolError(f'Pipeline "{token}" ended before it answered: {error.message}', data={"token": token}) from None


async def _object(
    run: Run, token: str, text: str, meta: dict[str, Any], *, mime_type: str | None, name: str | None
) -> dict[str, Any]:
    engine, caller = run.host.engine, run.call.caller
    described = {} if name is None else {"name": name}
    opening = Open(token=token, object=described, mime_type=mime_type or await engine.text_type(token, caller), meta=meta)
    opened, _ = await engine.ask(opening, caller)
    pipe_id: int = msgspec.json.decode(opened)["pipe_id"]
    try:
        await engine.ask(Write(pipe_id=pipe_id, data=text, meta=meta), caller)
    except BaseException:
        engine.start(Call(Close(pipe_id=pipe_id, meta=meta), DroppedAnswer(), caller))  # which frees the pipe
        raise
    body, _ = await engine.ask(Close(pipe_id=pipe_id, meta=meta), caller)
    result: dict[str, Any] = msgspec.json.decode(body)
    failure = result.pop("error", None)
    if failure is not None:
        raise error_from_wire(failure["code"], failure["message"], None, {"result": result})
    return result
