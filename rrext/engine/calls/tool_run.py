"""One run of one tool: on the loop, on a thread of the pool or on its node's own thread; for a client or another tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rrext.content import Content, block_of_bytes, encoded_content
from rrext.engine.calls.call_run import CallRun, Encoded
from rrext.engine.calls.chunks import Chunks
from rrext.engine.calls.lease import Lease
from rrext.engine.calls.nested_calls import Nesting
from rrext.engine.calls.thread_job import in_thread
from rrext.engine.host.host import Host
from rrext.engine.host.places import Loan
from rrext.engine.interface.call import Call, Feed
from rrext.engine.interface.failures import cancelled_from_inside, failure_of
from rrext.engine.interface.operations import Tool
from rrext.engine.tasks.route import Route
from rrext.errors import ResultTooLarge, RrextError, Unavailable
from rrext.limits import LARGE_RESULT
from rrext.nodes.base.node import Node
from rrext.tools.context import CancelReason, CancelToken, ToolContext

if TYPE_CHECKING:
    from rrext.engine.calls.run import Run
    from rrext.engine.calls.watched_run import NestedWatch
    from rrext.engine.events.trace import PipeTrace, TracedCall
    from rrext.tools.spec import ToolSpec


Report: TypeAlias = Callable[[float, float | None, str | None], None]
"""Callback for progress: value, total, message."""

_NO_JSON: Final = frozenset((bytes, Content))
"""Types of results that are more than a JSON value."""


class ToolRun(CallRun):
    """One run of a tool: the outermost run of a call answers it, a nested run returns its result.

    `prepare` checks availability and input. Without `prepare` the input is checked when the tool runs, which is enough for
    a tool without a predicate. A run keeps no reference to the contexts that it makes, because they reference the run.
    """

    node: Node | None = None
    kwargs: dict[str, Any] | None = None
    has_content = False
    """Whether the encoded result is the content of the answer."""
    learns = False
    """Whether the duration of this run updates the tool's quickness; the reading thread measures its own runs."""
    owners: Sequence[Route] = ()
    """Candidate routes in chain order, set only if the call must wait before it chooses one."""

    def __init__(
        self,
        host: Host,
        call: Call,
        lease: Lease,
        route: Route,
        *,
        deadline: float | None,
        token: CancelToken | None = None,
        trail: tuple[str, ...] = (),
    ) -> None:
        self.host = host  # instead of `Run.__init__`: saves a function call per call
        self.call = call
        self.lease = lease
        self.deadline = deadline
        self.trail: tuple[str, ...] = (*trail, route.label) if trail else route.trail
        if token is not None:
            self._token = token
        self._unclaimed = [True]
        self.route = route
        self.node = self.kwargs = self.place = None  # an instance's own attribute is read faster than its class's
        self.owners = ()

    @property
    def may_hold_the_loop(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether this is a `def` tool: on the loop's thread it runs only because its author asked for that."""
        return self.spec.is_def

    @property
    def spec(self) -> ToolSpec:
        """The specification of the tool."""
        return self.route.spec

    @property
    def is_outermost(self) -> bool:
        """Whether a client called the tool, not another tool."""
        return len(self.trail) == 1

    def is_usable(self) -> bool:
        """Whether the caller may see and call the tool now."""
        route = self.route
        return not route.spec.has_predicate or route.spec.is_available(self.lease.node(route.component.id), self.context())

    def prepare(self, value: Any) -> None:
        """Check that the tool is available and accepts this input. Raises `Unavailable` and `InvalidArguments`.

        The component must be ready.
        """
        self.node = node = self.lease.node(self.route.component.id)
        if self.spec.has_predicate:
            self.require_available()
        self.kwargs = self.spec.structure(node, value, self.host.limits)

    def require_available(self) -> None:
        """Raise `Unavailable`, with the reason, if the caller may not see and call the tool now."""
        component, spec = self.route.component, self.spec
        node = self.lease.node(component.id)
        if not spec.is_available(node, self.context()):
            refusing = getattr(spec.options.available, "refusing", None)
            predicate = spec.options.available if refusing is None else refusing(node, self.context())
            refusal = getattr(predicate, "refusal", None)
            message = refusal or f'Tool "{spec.name}" on node "{component.id}" is not available in this context'
            raise _unavailable(message, spec, predicate, nodeId=component.id)

    async def permitted(self, value: Any) -> None:
        """Wait for a permit of the caller to call the tool with this input. Raises `Unavailable` if it is not given."""
        call, host = self.call, self.host
        reason = "its caller did not offer to answer (`permits`)"
        if call.feed is not None and isinstance(call.operation, Tool) and call.operation.permits:
            arguments = host.redactor.value(value)
            answer = await self.asked(call.feed, "rrext_permission", {"arguments": arguments})
            if answer is True:
                return
            reason = f"there was no answer within {host.limits.permission_timeout:g} s" if answer is None else "it was denied"
        name, node_id = self.spec.name, self.route.node_id
        message = f'Tool "{name}" on node "{node_id}" needs a permission for each call: {reason}'
        raise _unavailable(message, self.spec, None, nodeId=node_id)

    async def asked(self, feed: Feed, event: str, about: dict[str, Any]) -> Any:
        """The caller's answer to a question; None if there is none in time."""
        seconds = self.host.limits.permission_timeout
        body = {"tool": self.spec.name, "nodeId": self.route.node_id, **about, "timeout": seconds}
        if not self.is_outermost:
            body["within"] = self.trail[-2]
        asking = asyncio.ensure_future(feed.ask(event, body))
        timer = self.host.clock.call_later(seconds, lambda: _cancel(asking))
        try:
            await asyncio.wait([asking])
        finally:
            timer.cancel()
            asking.cancel()
        return None if asking.cancelled() else asking.result()

    @property
    def trace(self) -> PipeTrace | None:
        """The trace of the pipe on which the tool runs; None without one."""
        pipe = self.lease.pipe
        return None if pipe is None else pipe.origin.trace

    def begin_nested(self, caller: Run, value: Any) -> NestedWatch | TracedCall | None:
        """Begin the events of a nested call with this input; None without subscribers and without a trace."""
        trace = self.trace
        return None if trace is None else trace.invoke(self.route.node_id, self.spec.name, value)

    # waiting

    async def _get_ready(self) -> None:
        """Wait for the turn, choose the first owner in chain order whose tool is available, and prepare the call.

        The error of a single owner is raised as it is.
        """
        call, lease, host, owners = self.call, self.lease, self.host, self.owners
        operation = call.operation
        assert isinstance(operation, Tool)
        await self.wait_for_turn()
        await self._wait_for_share()
        if lease.pipe is not None and self.is_outermost:  # earlier requests may have closed or failed it
            lease.pipe.check_usable()
        reason = ""
        for self.route in owners:
            try:
                await self.route.component.ensure(host, trusted=call.caller.trusted)
            except RrextError as error:
                if len(owners) == 1 or error.code != "unavailable":
                    raise
                reason = reason or f": {error.message}"
                continue
            if len(owners) > 1:
                if not self.is_usable():
                    continue
                self.deadline = host.limit(call, self.route.spec.timeout)
                host.watch(call)
            self.prepare(operation.input)
            if self.route.asks:
                self.leave_place()  # a person decides: nobody else waits for that
                await self.permitted(operation.input)
                await self.take_place()
            return
        text = f'Tool "{operation.tool}" is not available in this context on any node{reason}'
        raise _unavailable(text, owners[0].spec, owners[0].spec.options.available)

    def _takes_room(self, *, is_first: bool = False) -> bool:
        """Whether there is room for the result, which is expected from now on. Calls that wait for room go first."""
        outlet, results = self.call.outlet, self.host.results
        if outlet is None or self.expected:
            return True
        size = self._returns
        if not size:
            return True
        user = self.call.caller.counts_for
        if not is_first and (
            results.line(outlet, on_pipe=self.lease.pipe is not None).locked() or not results.has_room(outlet, size, user)
        ):
            return False
        return results.take(outlet, size, self, user)

    async def _wait_for_share(self) -> None:
        """Wait in line for room for the result. A borrowed place is released meanwhile."""
        outlet, results = self.call.outlet, self.host.results
        if outlet is None or self._takes_room():
            return
        self.leave_place()
        async with results.line(outlet, on_pipe=self.lease.pipe is not None):
            while True:
                await results.until_room(outlet, self._returns, self.call.caller.counts_for)
                await self.take_place()
                if self._takes_room(is_first=True):
                    return
                self.leave_place()

    @property
    def _returns(self) -> int:
        """The size that the result will probably have, 0 if it is small."""
        return max(route.returns for route in self.owners or (self.route,))

    # thread or loop

    def blocking(self) -> Encoded:
        """Run a sync tool to its end on this thread, which holds the call's or the caller's place."""
        route = self.route
        spec, kwargs, ctx = route.spec, self.kwargs, None
        self.kwargs = None  # the context becomes one of them, and leads back to here
        if kwargs is None:
            operation = self.call.operation
            assert isinstance(operation, Tool)
            kwargs = spec.structure(None, operation.input, self.host.limits)
        node = self.node
        if node is None:
            node = self.node = self.lease.node(route.component.id)
        if spec.wants_context:
            if self.place is not None:
                self.loan = Loan(self.lease.task.sync_places, self.call)
            ctx = self.context()
        return self._called(node, kwargs, ctx)

    def _called(self, node: Node, kwargs: dict[str, Any], ctx: ToolContext | None) -> Encoded:
        route = self.route
        spec = route.spec
        began = perf_counter() if self.learns else 0.0
        try:
            value = spec.call(node, kwargs, ctx)
            if spec.kind == "generator":
                return self._chunks().drain(value, self.token), None
        except asyncio.CancelledError:
            raise cancelled_from_inside(spec.name, route.component.id) from None
        encoded = self.encode(value)
        if self.learns:
            route.learn(perf_counter() - began, self.host.limits.quick)
        return encoded

    def on_loop(self) -> Coroutine[Any, Any, Encoded]:
        """Run a tool of any kind from the loop, after waiting for its turn and its component."""
        outlet = self.call.outlet
        if not self.owners:  # other results may have filled the outbox since this call was started
            if outlet is None or not (outlet.is_full or (self.route.returns and not self._takes_room())):
                return self.ready()
            self.owners = (self.route,)
        return self._when_ready()

    def ready(self) -> Coroutine[Any, Any, Encoded]:
        """Run a tool of any kind from the loop, which waits for nothing but a thread. The rest is that of the outermost run."""
        spec = self.route.spec
        node = self.node
        if node is None:
            node = self.node = self.lease.node(self.route.component.id)
        if spec.is_def and (spec.thread != "main" or spec.kind == "sync"):
            return self._in_thread()
        kwargs, self.kwargs = self.kwargs, None  # the context becomes one of them, and leads back to here
        assert kwargs is not None
        return self._awaited(node, kwargs, self.context() if spec.wants_context else None)

    async def _when_ready(self) -> Encoded:
        await self._get_ready()
        self.owners = ()
        return await self.ready()

    async def _awaited(self, node: Node, kwargs: dict[str, Any], ctx: ToolContext | None) -> Encoded:
        spec = self.route.spec
        outcome = spec.call(node, kwargs, ctx)
        if spec.kind == "async":
            return self.encode(await outcome)
        chunks = self._chunks()
        if spec.kind == "async_generator":
            return await chunks.drain_async(outcome), None
        return await chunks.drain_on_loop(outcome), None

    async def _in_thread(self) -> Encoded:
        if self.spec.thread == "main":
            return self.blocking()
        places, call, label = self.lease.task.sync_places, self.call, self.trail[-1]

        def work() -> Encoded:
            self.loan = Loan(places, call)
            return self.blocking()

        if self.spec.thread != "same":
            return await in_thread(self.host, work, places=places, lease=self.lease, call=call, label=label)
        own = self.route.component.own_thread
        if not self.is_outermost:
            return await in_thread(self.host, work, places=places, lease=self.lease, call=call, label=label, run=own.run_inner)
        own_places = self.route.component.thread_places
        own_place = own_places.take(call.caller, call)
        try:
            await self.host.granted(own_place)
        except BaseException:
            own_place.release()
            raise
        return await in_thread(
            self.host,
            work,
            places=places,
            lease=self.lease,
            call=call,
            label=label,
            run=own.run,
            own_places=own_places,
            own_place=own_place,
        )

    # result and error

    def encode(self, value: Any) -> Encoded:
        """Check and encode a result; bytes stay raw. Raises `ToolError` and `ResultTooLarge`."""
        spec, limits = self.route.spec, self.host.limits
        if type(value) in _NO_JSON:
            if type(value) is Content:
                operation = self.call.operation
                if isinstance(operation, Tool) and operation.content and self.is_outermost:
                    self.has_content = True
                    return spec.encode_content(self.node, value, limits), None
                value = spec.value_of(value)
            if type(value) is bytes and spec.options.output_schema is None:
                if len(value) > limits.max_result:
                    raise ResultTooLarge.of(len(value), limits.max_result)
                return b"", value
        return spec.encode(self.node, value, limits), None

    def failure(self, error: BaseException) -> RrextError:
        tool, node_id = self.spec.name, self.route.component.id
        if isinstance(error, asyncio.CancelledError):
            return cancelled_from_inside(tool, node_id)
        return failure_of(
            error,
            what=f'Tool "{tool}" on node "{node_id}" failed',
            node_id=node_id,
            tool=tool,
            request=self.call.name,
            trusted=self.call.caller.trusted,
            limits=self.host.limits,
        )

    def _succeed(self, encoded: Encoded) -> None:
        call = self.call
        result, raw = encoded
        if raw is not None or len(result) > LARGE_RESULT or self.route.returns:
            self.route.learn_size(len(result) if raw is None else len(raw))
        if call.deadline is not None and self.host.clock.now() >= call.deadline:
            self._fail(self.host.lateness(call))  # finished too late, but before the deadline timer fired
            return
        try:
            if call.operation.content and not self.has_content:  # type: ignore[attr-defined]
                result, raw = self._as_content(result, raw), None
            body = b'{"result":%b}' % result if raw is None else b"{}"
        except (MemoryError, RrextError) as error:  # a large result is there twice for a moment
            del encoded, result
            self._fail(error)
            return
        self.give_back()
        call.succeed(body, raw)

    def _as_content(self, result: bytes, raw: bytes | None) -> bytes:
        """The content of a result that is none."""
        if raw is None:
            return encoded_content(result, wraps=self.spec.wraps(self.node))
        return b'{"content":[%b]}' % block_of_bytes(raw)

    def to_thread(self) -> None:
        self.learns = True
        super().to_thread()

    def begin_in_thread(self) -> None:
        outlet = self.call.outlet
        if outlet is not None and (outlet.is_full or (self.route.returns and not self._takes_room())):
            self.host.post(self._wait_for_room)
        else:
            self.run()

    def _wait_for_room(self) -> None:
        """Wait without a thread and without a place: other results filled the outbox since this call was sent to a thread."""
        if self.call.settled:  # and withdrawn
            return
        if self.place is not None:
            self.place.release()
            self.place = None
        self.owners = (self.route,)
        self.start()

    def left_behind(self, reason: CancelReason) -> None:
        super().left_behind(reason)
        self.route.forget()
        self.give_room_back()

    def overstay(self) -> None:
        super().overstay()
        self.route.forget()

    # context of the tool

    def _chunks(self) -> Chunks:
        feed = Chunks.wanted_by(self.call) if self.is_outermost else None
        return Chunks(self.spec, self.node, self.host.limits, feed=feed)

    def _report(self, feed: Feed | None) -> Report | None:
        if feed is None:
            return None
        redactor = self.host.redactor
        if not redactor.knows_any:
            return feed.progress
        return lambda value, total, message: feed.progress(value, total, None if message is None else redactor.text(message))

    def context(self) -> ToolContext:
        """Make a context for the tool or for its predicate."""
        call, operation = self.call, self.call.operation
        feed: Feed | None = None
        questions: _Questions | None = None
        if call.feed is not None and isinstance(operation, Tool):
            feed = call.feed if operation.progress and self.is_outermost else None
            questions = _Questions(self, call.feed, operation.questions) if operation.questions else None
        pipe = self.lease.pipe
        caller = call.caller if pipe is None else pipe.caller
        return ToolContext(
            node_id=self.route.component.id,
            token=self.token,
            user_id=caller.user_id,
            space_id=caller.space_id,
            request_id=call.request_id,
            connection_id=call.caller.connection_id,
            pipe_id=None if pipe is None else pipe.id,
            meta=operation.meta,
            deadline=self.deadline,
            clock=self.host.clock.now,
            report=self._report(feed),
            nested=Nesting(self),
            callbacks=self.host.callbacks,
            authorization=caller.authorization,
            questions=questions,
        )


class _Questions:
    """Asks the user of a call's caller for a run."""

    __slots__ = ("_feed", "_run", "modes")

    def __init__(self, run: ToolRun, feed: Feed, modes: Sequence[str]) -> None:
        self._run = run
        self._feed = feed
        self.modes = modes

    async def ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._run.asked(self._feed, "rrext_question", {"params": params})
        return answer if isinstance(answer, dict) else {"action": "cancel"}


def _cancel(asking: asyncio.Future[Any]) -> None:
    asking.cancel()


def _unavailable(message: str, spec: ToolSpec, predicate: Any, **data: str) -> Unavailable:
    """The error for a tool that the caller cannot use; attributes of its predicate name the remedy and another tool."""
    instead = getattr(predicate, "instead", None)
    about = {**data, "tool": spec.name, **({} if instead is None else {"instead": instead})}
    return Unavailable(message, hint=getattr(predicate, "missing", None), data=about)
