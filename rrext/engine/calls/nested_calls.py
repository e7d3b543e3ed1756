"""Tools that call tools of the same pipeline, on the caller's node objects and in the caller's place.

No nested call waits for a pipe, and a sync caller lends its place among the running sync calls while it waits, so calls that
nest finish with one thread as well as with sixty-four. A tool calls another pipeline with one object, which it opens, writes
and closes as its own caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from rrext.engine.calls.questions import permitted
from rrext.engine.interface.call import Call, DroppedAnswer
from rrext.engine.interface.failures import cancelled_from_inside
from rrext.engine.interface.operations import Close, Open, Write
from rrext.engine.tasks.routes import with_near_names
from rrext.engine.tasks.task import learn_tool
from rrext.errors import (
    Cancelled,
    InvalidArguments,
    NotFound,
    RrextError,
    ToolError,
    ToolTimeout,
    Unavailable,
    error_from_wire,
)
from rrext.limits import MAX_WAITING_CHUNKS
from rrext.tools.context import BoundTool, BoundTools, CancelToken, StreamEnd
from rrext.tools.names import HOST_REQUEST, exported_names

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterator, Mapping, Sequence

    from rrext.engine.calls.run import Encoded, Run, ToolRun
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Caller
    from rrext.engine.tasks.component import Component
    from rrext.engine.tasks.routes import Route


T = TypeVar("T")


class Nesting:
    """Calls other tools for the context of a run. `node_id` is the node that calls, `caller` is whom the tools see, if that is
    another than the caller of the run.
    """

    __slots__ = ("_caller", "_node_id", "_run")

    def __init__(self, run: Run, node_id: str, caller: Caller | None = None) -> None:
        self._run = run
        self._node_id = node_id
        self._caller = caller

    def in_space(self, space_id: str | None) -> Nesting:
        """The calls of the same user in another space."""
        caller = self._run.caller
        claims = caller.claims and space_id is not None
        return Nesting(self._run, self._node_id, replace(caller, space_id=space_id, claims=claims))

    async def call(self, node: str, tool: str, input: Any) -> Any:
        """Call a tool from a coroutine and return its result. A cancel of the caller's wait reaches the tool."""
        with InnerCall(self._run) as token:
            callee = await self._callee(node, tool, input, token)
            return _plain(await self._encoded(callee, input))

    async def stream(self, node: str, tool: str, input: Any) -> AsyncGenerator[Any, None]:
        """Call a tool from a coroutine, and yield its chunks as they come, and the value that it returned in a `StreamEnd`."""
        with InnerCall(self._run) as token:
            callee = await self._callee(node, tool, input, token)
            chunks = callee.feed = NestedChunks(self._run.host, token)
            running = asyncio.ensure_future(self._encoded(callee, input))
            running.add_done_callback(lambda _: chunks.end())
            try:
                while (waiting := await chunks.next()) is not None:
                    yield _plain(waiting)
                yield StreamEnd(_plain(await running))
            finally:
                running.cancel()
                await asyncio.wait([running])
                if not running.cancelled():
                    running.exception()  # of a cleanup that failed: its reader has left

    async def _callee(self, node: str, tool: str, input: Any, token: CancelToken) -> ToolRun:
        """The run of the first owner whose tool is available, permitted and ready for this input."""
        run = self._run
        if run.lease.task.may_learn(node, tool) or self._may_learn_own(node, tool):
            await self._learn(node, tool)
        routes = self._owners(node, tool)
        for route in routes:
            await route.component.ensure(run.host, trusted=run.call.caller.trusted)
            callee = run.callee(route, token, self._caller)
            if len(routes) == 1 or callee.is_usable():
                self._prepare(callee, input)
                if route.asks:
                    await permitted(callee, input)
                return callee
        raise self._nobody(tool)

    def call_blocking(self, node: str, tool: str, input: Any) -> Any:
        """Call a tool from a thread and return its result. The tool runs on this thread where its kind permits that."""
        with InnerCall(self._run) as token:
            return self._called(node, tool, input, token)

    def _called(self, node: str, tool: str, input: Any, token: CancelToken) -> Any:
        run = self._run
        on_loop = _is_loop_thread(run.host.loop)
        if not on_loop and (run.lease.task.may_learn(node, tool) or self._may_learn_own(node, tool)):
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
            callee = run.callee(route, token, self._caller)
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

    async def tools(self, kinds: Sequence[str]) -> BoundTools:
        """The tools that the node may call, see `ToolContext.tools`."""
        run, task = self._run, self._run.lease.task
        failed: dict[str, RrextError] = {}
        bindings = self._component.bindings
        bound = dict.fromkeys(node_id for kind in kinds for node_id in bindings.get(kind, ()))
        asked = {node_id: task.components.get(node_id) for node_id in bound}
        asked |= {component.id: component for component in self._own_references()}
        parts = {node_id: component for node_id, component in asked.items() if component is not None}
        trusted = run.call.caller.trusted
        ready = await asyncio.gather(
            *(component.ensure(run.host, trusted=trusted) for component in parts.values()), return_exceptions=True
        )
        for node_id, outcome in zip(parts, ready, strict=True):
            if isinstance(outcome, RrextError):
                failed[node_id] = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
        usable: list[ToolRun] = []
        for route in self._reachable(bound):
            if route.component.id in failed:
                continue
            try:
                await route.component.ensure(run.host, trusted=trusted)  # of a reference that a bound node offers
                callee = run.callee(route, run.token, self._caller)
                if callee.is_usable():
                    usable.append(callee)
            except RrextError as error:
                failed[route.label] = error
        names = exported_names((callee.route.node_id, callee.spec.name) for callee in usable)
        found: list[BoundTool] = []
        for callee in usable:
            try:
                found.append(_bound_tool(callee, names[callee.route.node_id, callee.spec.name]))
            except RrextError as error:
                failed[callee.route.label] = error
        for error in failed.values():
            run.host.redactor.error(error)
        return BoundTools(found, failed)

    async def bound(self, kind: str) -> Any:
        """The shared state of a bound node, see `ToolContext.bound`."""
        run = self._run
        node_ids = self._component.bindings.get(kind, ())
        if len(node_ids) != 1:
            found = ", ".join(node_ids) or "none"
            raise ToolError(
                f'Node "{self._node_id}" needs one node bound as "{kind}", and has {found}',
                hint=f'Give the node a control edge {{"classType": "{kind}", "from": "{self._node_id}"}}.',
                data={"nodeId": self._node_id, "classType": kind, "nodes": list(node_ids)},
            )
        component = run.lease.task.components[node_ids[0]]
        await component.ensure(run.host, trusted=run.call.caller.trusted)
        return component.shared

    @property
    def _component(self) -> Component:
        return self._run.lease.task.components[self._node_id]

    def _own_references(self) -> list[Component]:
        """The components behind the references that the node keeps for itself."""
        listed = self._run.lease.task.private_references
        return [component for node_id, _, component in listed if node_id == self._node_id] if listed else []

    def _reachable(self, bound: dict[str, None]) -> Iterator[Route]:
        """The routes of bound nodes and of own references."""
        routes = self._run.lease.task.routes
        for route in (*routes, *routes.private.values()):
            is_own = route.node_id == self._node_id and route.component.id != self._node_id
            is_bound = route.node_id in bound and (route.node_id, route.spec.name) not in routes.private
            if (is_own or (is_bound and route.spec.options.for_models)) and route.origin.name != HOST_REQUEST:
                yield route

    def _may_learn_own(self, node: str, tool: str) -> bool:
        """Whether the tool may be one of a server that the node keeps for itself."""
        if node != self._node_id or not self._run.lease.task.private_references:
            return False
        is_known = (node, tool) in self._run.lease.task.routes.private
        return not is_known and not all(component.ready for component in self._own_references())

    async def run_pipeline(self, token: str, text: str, *, mime_type: str | None, name: str | None) -> dict[str, Any]:
        """Give a text to another pipeline and return its result."""

        return await run_pipeline(self._run, token, text, mime_type=mime_type, name=name)

    async def send_object(self, about: Mapping[str, Any], pieces: AsyncIterable[bytes], *, mime_type: str) -> dict[str, Any]:
        """Send an object into this pipeline at the node that calls, and return its result."""
        run = self._run
        if run.lease.pipe is not None:
            raise Unavailable(
                f'"{run.trail[-1]}" sends objects into its pipeline, and is called for one of them: they would never end',
                hint="Call it without a pipe, by a client.",
            )
        run.leave_place()  # the objects take places of the same limit
        token, meta = run.lease.task.token, run.call.operation.meta
        opening = Open(token=token, object=dict(about), mime_type=mime_type, source=self._node_id, meta=meta)
        return await _sent(run, opening, pieces)

    def so_far(self, done: dict[str, Any]) -> None:
        """Note what the call has done; that of a nested run is a part of what its caller notes."""
        if len(self._run.trail) == 1:
            self._run.host.engine.note_done(self._run.call, done)

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
        """Run the callee on this thread. A failure is an `RrextError`."""
        try:
            watch = callee.begin_nested(self._run, input)
            if watch is None:
                return callee.blocking()
            with watch:
                return watch.returned(callee.blocking())
        except BaseException as error:
            raise _failure(callee, error) from error.__cause__

    async def _encoded(self, callee: ToolRun, input: Any) -> Encoded:
        """Run the callee on the loop. A failure is an `RrextError`."""
        try:
            watch = callee.begin_nested(self._run, input)
            if watch is None:
                return await _in_own_time(callee)
            with watch:
                number = watch.number
                return watch.returned(await (_in_own_time(callee) if number is None else _cancellable(callee, number)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            raise _failure(callee, error) from error.__cause__

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
        task = run.lease.task
        private = task.routes.private.get((node, tool)) if node == self._node_id else None
        if private is not None:
            return [private]
        try:
            return task.route(node, tool)
        except (NotFound, InvalidArguments) as error:
            if isinstance(error, NotFound):
                error = with_near_names(error, tool, node, self._visible(), {**task.unknown, **task.untold})
            raise ToolError(
                f'"{run.trail[-1]}" called a tool that is not there: {error.message}', hint=error.hint, data=error.data
            ) from error

    def _visible(self) -> list[tuple[str, tuple[str, ...]]]:
        """The names of the tools that the caller may use, and of those that the node keeps for itself, by node."""
        routes, allowed = self._run.lease.task.routes, self._run.call.caller.tools
        own = [route for (node_id, _), route in routes.private.items() if node_id == self._node_id]
        listed = [route for route in (*routes, *own) if not route.is_denied and route.is_among(allowed)]
        return [(route.node_id, (route.spec.name, route.exported_name)) for route in listed]

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


class NestedChunks:
    """The chunks of a nested call on their way to the node that reads them, few at a time."""

    __slots__ = ("_arrived", "_host", "_is_over", "_taken", "_token", "_waiting")

    def __init__(self, host: Host, token: CancelToken) -> None:
        self._host = host
        self._token = token
        self._waiting: deque[Encoded] = deque()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_over = False

    def chunk(self, index: int, chunk: bytes, tail: bytes | None) -> None:
        """Take one encoded chunk, from any thread."""
        self._waiting.append((chunk, tail))
        self._host.post(self._arrived.set)

    def wait_for_room(self) -> None:
        """Block a worker thread until more chunks may come. Raises if the call is cancelled."""
        if len(self._waiting) >= MAX_WAITING_CHUNKS:
            self._host.from_thread(self.room(), self._token)

    async def room(self) -> None:
        """Wait until more chunks may come."""
        while len(self._waiting) >= MAX_WAITING_CHUNKS:
            self._taken.clear()
            await self._taken.wait()

    def end(self) -> None:
        """Note that no chunk comes any more. On the loop."""
        self._is_over = True
        self._arrived.set()

    async def next(self) -> Encoded | None:
        """The next chunk, None at the end."""
        while not self._waiting:
            if self._is_over:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        self._taken.set()
        return self._waiting.popleft()


class InnerCall:
    """Context manager of a nested call, with a token of its own.

    The cancel of the outer call, and that of the wait for the nested one, reach it. A failure has no values of variables when
    the node gets it: nodes pass on what a client would get, also to servers outside.
    """

    __slots__ = ("_run", "_token")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._token = CancelToken(run.token)

    def __enter__(self) -> CancelToken:
        self._run.token.on_cancel(self._pass_on)
        return self._token

    def _pass_on(self) -> None:
        self._token.cancel(self._run.token.reason or "cancelled")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._run.token.forget(self._pass_on)
        if isinstance(error, RrextError):
            self._run.host.redactor.error(error)
        elif isinstance(error, asyncio.CancelledError | GeneratorExit):
            self._pass_on()


def _failure(callee: ToolRun, error: BaseException) -> RrextError:
    """The failure of a nested call, as a client gets that of its own call: never an exception of the callee's author."""
    return error if isinstance(error, RrextError) else callee.failure(error)


def _bound_tool(callee: ToolRun, name: str) -> BoundTool:
    """The description of a tool for the node that may call it. Raises `RrextError` if it cannot be described."""
    route = callee.route
    try:
        described = callee.spec.describe(callee.lease.node(route.component.id))
    except (Exception, SystemExit) as error:
        raise _failure(callee, error) from error
    return BoundTool(
        name=name,
        node_id=route.node_id,
        tool=route.spec.name,
        description=described.get("description") or "",
        input_schema=described["inputSchema"],
        output_schema=described.get("outputSchema"),
        permission="ask" if route.asks else "allow",
    )


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


async def _cancellable(callee: ToolRun, number: int) -> Encoded:
    """Run the callee, which the caller of the whole call may cancel alone: its own caller gets `cancelled`."""
    call = callee.call
    if call.inner is None:
        call.inner = {}
    inner, limit = call.inner, asyncio.timeout(None)

    def stop() -> None:
        if inner.pop(number, None) is not None:  # a second cancel finds nothing to stop
            limit.reschedule(0)

    inner[number] = stop
    try:
        async with limit:
            return await _in_own_time(callee)
    except TimeoutError:
        if not limit.expired():
            raise  # raised by the callee itself
        callee.token.cancel("cancelled")
        raise Cancelled("cancelled: the caller of the whole call wants this call no longer") from None
    finally:
        inner.pop(number, None)


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
    described = {} if name is None else {"name": name}
    mime_type = mime_type or await run.host.engine.text_type(token, run.call.caller)
    return await _sent(run, Open(token=token, object=described, mime_type=mime_type, meta=meta), _only(text))


async def _only(text: str) -> AsyncGenerator[str, None]:
    yield text


async def _sent(run: Run, opening: Open, pieces: AsyncIterable[str | bytes]) -> dict[str, Any]:
    """The result body of an object, which is opened, written piece by piece and closed as the caller of the run."""
    engine, caller, meta = run.host.engine, run.call.caller, opening.meta
    opened, _ = await engine.ask(opening, caller)
    pipe_id: int = msgspec.json.decode(opened)["pipe_id"]
    try:
        async for piece in pieces:
            if isinstance(piece, str):
                await engine.ask(Write(pipe_id=pipe_id, data=piece, meta=meta), caller)
            else:
                await engine.ask(Write(pipe_id=pipe_id, meta=meta), caller, data=piece)
    except BaseException:
        engine.start(Call(Close(pipe_id=pipe_id, meta=meta), DroppedAnswer(), caller))  # which frees the pipe
        raise
    body, _ = await engine.ask(Close(pipe_id=pipe_id, meta=meta), caller)
    result: dict[str, Any] = msgspec.json.decode(body)
    failure = result.pop("error", None)
    if failure is not None:
        raise error_from_wire(failure["code"], failure["message"], None, {"result": result})
    return result
