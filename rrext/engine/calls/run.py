"""Runs of calls: on a thread or on the loop, with a lease of node objects, answered once.

`Run` is one execution of a tool or of a node's lifecycle method within a call. `CallRun` is that of a client's call: it runs,
gives back its place and its lease, and is answered, each exactly once. `ToolRun` runs a tool, for a client or for another
tool. `in_thread` runs a part of a call on a thread, for a coroutine that waits for it. `Lease` owns the node objects of a run,
with the place or the turn that they take.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from rrext.content import Content, block_of_bytes, encoded_content
from rrext.engine.calls.chunks import ChunkFeed, Chunks
from rrext.engine.calls.nested_calls import Nesting
from rrext.engine.calls.questions import RunQuestions, permitted, unavailable_tool
from rrext.engine.events.hub import EventOrigin
from rrext.engine.host.host import Host
from rrext.engine.host.places import FREE, HeldPlace, Loan, LockTurn, Place, Places
from rrext.engine.interface.call import Call, Caller, Feed
from rrext.engine.interface.failures import cancelled_from_inside, failure_of, internal_error
from rrext.engine.interface.operations import Fed, Tool
from rrext.engine.tasks.component import GIVEN
from rrext.engine.tasks.pipes import OpenPipe
from rrext.engine.tasks.routes import Route
from rrext.errors import Cancelled, ResultTooLarge, RrextError
from rrext.limits import LARGE_RESULT, MAX_SPARE_CHAINS
from rrext.nodes.base.node import Node
from rrext.threads import NoThread
from rrext.tools.context import CancelReason, CancelToken, ToolContext

if TYPE_CHECKING:
    from rrext.engine.calls.watched_run import NestedWatch
    from rrext.engine.events.trace import PipeTrace, TracedCall
    from rrext.engine.flow.objects import NodeObjects
    from rrext.engine.tasks.task import Task
    from rrext.threads import Job
    from rrext.tools.spec import ToolSpec


T = TypeVar("T")

Encoded: TypeAlias = tuple[bytes, bytes | None]
"""A result: its JSON and None, or empty JSON and the raw bytes of a `bytes` result."""

log: Final = logging.getLogger("rrext.engine")

Report: TypeAlias = Callable[[float, float | None, str | None], None]
"""Callback for progress: value, total, message."""

_NO_JSON: Final = frozenset((bytes, Content))
"""Types of results that are more than a JSON value."""


class Run:
    """The call, the lease whose node objects are used, the deadline, and the chain of callers.

    `trail` names the callers, from the outermost on. `loan` is the place among the running sync calls of a run in a thread.
    """

    may_hold_the_loop = False
    """Whether the code is meant to run on the loop's thread without awaiting."""
    nested_class: type[ToolRun] | None = None
    """The class of nested runs, if they are watched for the caller alone; None: that of all runs."""
    loan: Loan | None = None
    thread = 0
    """The thread of a run that may lend its place."""
    stands_for: Caller | None = None
    """Whom the code sees as its caller, if it is another than that of the call or the pipe: a node named another space."""
    _token: CancelToken | None = None
    _reason: CancelReason | None = None

    def __init__(
        self,
        host: Host,
        call: Call,
        lease: Lease,
        deadline: float | None,
        trail: tuple[str, ...],
        token: CancelToken | None = None,
    ) -> None:
        self.host = host
        self.call = call
        self.lease = lease
        self.deadline = deadline
        self.trail = trail
        if token is not None:
            self._token = token

    @property
    def token(self) -> CancelToken:
        """The token that tells the code of a cancel. Made at first use: most calls never need it."""
        token = self._token
        if token is None:
            token = self._token = CancelToken()
            if self._reason is not None:  # `cancel_token` sets the reason before it looks for a token
                token.cancel(self._reason)
        return token

    @property
    def event_origin(self) -> EventOrigin:
        """The origin of the events of the code that runs: the pipe, or the call."""
        call, lease = self.call, self.lease
        if lease.pipe is not None:
            return lease.pipe.origin
        head, caller = lease.task.event_head, call.caller
        return EventOrigin(self.host.events, head, connection_id=caller.connection_id, user_id=caller.user_id)

    @property
    def caller(self) -> Caller:
        """Whom the code that runs sees as its caller."""
        return self.stands_for or (self.call.caller if self.lease.pipe is None else self.lease.pipe.caller)

    @property
    def asker(self) -> dict[str, Any]:
        """Who asks, in a question of the code that runs."""
        return {"nodeId": self.trail[-1]}

    def cancel_token(self, reason: CancelReason) -> None:
        """Tell the code that its call was cancelled."""
        self._reason = reason
        if self._token is not None:
            self._token.cancel(reason)

    async def in_thread(
        self,
        work: Callable[[], T],
        *,
        lease: Lease | None = None,
        label: str | None = None,
        run: Callable[[Job], None] | None = None,
        own_places: Places | None = None,
        own_place: Place | HeldPlace | None = None,
    ) -> T:
        """Run `work` on a thread and return its result, within the limit of running sync calls, see `in_thread`."""
        lease = lease or self.lease
        return await in_thread(
            self.host, work, places=lease.task.sync_places, lease=lease, call=self.call, label=label or self.trail[-1],
            run=run, own_places=own_places, own_place=own_place,
        )  # fmt: skip

    def callee(self, route: Route, token: CancelToken, caller: Caller | None = None) -> ToolRun:
        """Make the run of a nested tool call: for the same call, on the same lease, until the earlier deadline.

        `token` tells the tool of a cancel; `caller` is whom it sees, if it is another than this run's. Raises the errors of
        `Task.require_member` if the caller claims its space, which it may have left since the call began.
        """
        deadline, own = self.deadline, route.spec.timeout
        if own is not None:
            until = self.host.clock.now() + own
            deadline = until if deadline is None else min(deadline, until)
        run_class = self.nested_class or self.host.tool_run
        run = run_class(self.host, self.call, self.lease, route, deadline=deadline, token=token, trail=self.trail)
        if caller is not None or self.stands_for is not None:
            run.stands_for = caller or self.stands_for
        seen = run.caller
        if seen.claims and not self.lease.task.require_member(seen):
            raise Cancelled("cancelled: the pipeline ends")
        return run

    def leave_place(self) -> None:
        """Release a borrowed place, to wait for something else."""
        if self.lease.pipe is None:
            self.lease.turn.release()
            self.lease.turn = FREE


class CallRun(Run):
    """The run of a client's call, which answers the call at its end.

    A call runs on a thread that may block (`run`), or on the loop (`main`, in a task of its own or in the batch's task).
    The starter chooses; the result is the same. `stop` withdraws a call that has not begun, and stops a running one.
    `place` is the call's place in the limit of running sync calls.
    """

    place: Place | HeldPlace | None = None
    task: asyncio.Task[None] | None = None
    expected = 0
    """Bytes for which there is room because this call will probably return so much."""
    _unclaimed: list[bool]

    # hooks of the kinds of calls

    @abstractmethod
    def blocking(self) -> Encoded:
        """Do the work on this thread."""

    @abstractmethod
    def on_loop(self) -> Coroutine[Any, Any, Encoded]:
        """Do the work from the loop, after waiting for turns, places and components."""

    @abstractmethod
    def failure(self, error: BaseException) -> RrextError:
        """Translate an exception of the run into the error for the caller."""

    def give_back(self) -> None:
        """Release the place and the lease, and remove the call from the task's active calls."""
        lease = self.lease
        lease.task.active.discard(self.call)
        lease.drop()
        if self.place is not None:
            self.place.release()

    def stopped(self, reason: CancelReason) -> None:
        """Hook: the caller got an answer before the code finished."""

    def left_behind(self, reason: CancelReason) -> None:
        """Record a call that was answered while its thread or cancelled task still runs: its place stays taken."""
        lease, host = self.lease, self.host
        if self.task is None:
            lease.leave(host, self.call, self.trail[0], self.thread)
            lease.spoil()
            return
        lease.leave(host, self.call, self.trail[0])
        if lease.pipe is not None:  # other calls wait for the pipe
            host.clock.call_later(host.limits.return_grace, lease.spoil)

    # thread or loop

    def run(self) -> None:
        """Run the work to its end on this thread, which may block, and answer; do nothing if the call was withdrawn."""
        try:
            self._unclaimed.pop()  # `_claim`, without another call in every call
        except IndexError:
            self.give_room_back()
            return
        try:
            encoded = self.blocking()
        except BaseException as error:
            self._fail(error)
        else:
            self._succeed(encoded)
        if self.expected:
            self.give_room_back()

    def run_here(self) -> None:
        """Run to the end on this thread, in an empty context; without a new one if the context of the thread is empty."""
        if copy_context():
            Context().run(self.run)
        else:
            self.run()

    def to_worker(self) -> None:
        """Run on a thread of the pool, as soon as the limit of running sync calls has a place."""
        place = self.place = self.lease.task.sync_places.take(self.call.caller, self.call)
        if not place.when_granted(self.to_thread):
            self.to_thread()

    def to_thread(self) -> None:
        """Run on a thread of the pool; the place is held already."""
        try:
            self.host.workers.run(self.begin_in_thread)
        except NoThread as error:
            if self._claim():
                self._fail(error)

    def begin_in_thread(self) -> None:
        """Run on this thread of the pool."""
        self.run()

    def start(self) -> None:
        """Run on the loop, in a task of its own. The loop references its tasks weakly: `Task.active` keeps the call alive."""
        self.task = asyncio.Task(self.main(), loop=self.host.loop)

    async def main(self) -> None:
        """Run the work to its end on the loop, and answer."""
        try:
            self._unclaimed.pop()  # `_claim`, as in `run`
        except IndexError:
            return
        try:
            encoded = await self.on_loop()
        except asyncio.CancelledError as error:
            self.lease.is_tainted = True
            self._fail(error)  # not raised: a cancelled task keeps the traceback, which leads to the task again
        except BaseException as error:
            self._fail(error)
        else:
            self._succeed(encoded)
        if self.expected:
            self.give_room_back()

    def give_room_back(self) -> None:
        """Expect no result any longer: it is in the outbox, or nobody waits for it."""
        if self.call.outlet is not None:
            self.host.results.give_back(self.call.outlet, self)

    # waiting

    async def wait_for_turn(self) -> None:
        """Wait for the turn, and for room in the outbox. A borrowed place is released while the outbox is full."""
        if not self.lease.turn.granted:
            await self.host.granted(self.lease.turn)
        outlet = self.call.outlet
        while outlet is not None and outlet.size and outlet.is_full:
            self.leave_place()
            await outlet.room()
            await self.take_place()

    async def take_place(self) -> None:
        """Wait for a place again."""
        call, lease = self.call, self.lease
        if lease.pipe is None:
            lease.turn = lease.task.places.take(call.caller, call)
            await self.host.granted(lease.turn)

    # end of the run

    def stop(self, reason: CancelReason) -> None:
        """Withdraw an answered call, or stop its running code; a thread that cannot be stopped is left behind."""
        self.cancel_token(reason)
        self.stopped(reason)
        if self._claim():  # a task that is cancelled before its first step never runs its `finally`
            self.give_back()
        else:
            self.left_behind(reason)
        if self.task is not None:
            self.task.cancel()

    def stop_inner(self, number: int) -> None:
        """Stop one of the calls within the call, if it still runs."""
        stop = None if self.call.inner is None else self.call.inner.get(number)
        if stop is not None:
            stop()

    def overstay(self) -> None:
        """Start to watch the deadline: the thread that read the request still runs the call."""
        self.host.watch(self.call)

    def _claim(self) -> bool:
        """Claim the run, for running or for withdrawing it. True for the first caller only."""
        try:
            self._unclaimed.pop()  # atomic, in every thread
        except IndexError:
            return False
        return True

    def _succeed(self, encoded: Encoded) -> None:
        """Answer the call with its encoded result."""
        self.give_back()
        self.call.succeed(*encoded)

    def _fail(self, error: BaseException) -> bool:
        """Answer the call with an error. False if it was answered before."""
        self.give_back()
        try:
            failure = self.failure(error)
        except BaseException:  # an author's class may be broken, or the log: then it cannot show that either
            failure = internal_error()
            with suppress(Exception):
                log.error("%s raised an exception that cannot be described", self.call.name)
        if not self.call.settled:
            self.failed(failure)
        return self.call.fail(failure)

    def failed(self, error: RrextError) -> None:
        """Hook: the call will be answered with this failure."""


class ToolRun(CallRun):
    """One run of a tool: the outermost run of a call answers it, a nested run returns its result.

    `prepare` checks availability and input. Without `prepare` the input is checked when the tool runs, which is enough for
    a tool without a predicate. A run keeps no reference to the contexts that it makes, because they reference the run.
    """

    node: Node | None = None
    kwargs: dict[str, Any] | None = None
    has_content = False
    """Whether the encoded result is the content of the answer."""
    reports = False
    """Whether `encode` is to have all results, not only those that are more than a JSON value."""
    learns = False
    """Whether the duration of this run updates the tool's quickness; the reading thread measures its own runs."""
    owners: Sequence[Route] = ()
    """Candidate routes in chain order, set only if the call must wait before it chooses one."""
    feed: ChunkFeed | None = None
    """The receiver of the chunks of a nested run, if its caller reads them as they come."""

    def __init__(
        self,
        host: Host,
        call: Call,
        lease: Lease,
        route: Route,
        *,
        begins: bool = False,
        timeout: float | None = None,
        place: Place | HeldPlace | None = None,
        deadline: float | None = None,
        token: CancelToken | None = None,
        trail: tuple[str, ...] = (),
    ) -> None:
        """`trail` are the callers of a nested run. A run that `begins` is that of its call from now on, until the `timeout` of
        the tool, or that of the request, is over.
        """
        self.host = host  # instead of `Run.__init__`: saves a function call per call
        self.call = call
        self.lease = lease
        self.deadline = deadline
        if token is not None:
            self._token = token
        self._unclaimed = [True]
        self.route = route
        self.node = self.kwargs = None  # an instance's own attribute is read faster than its class's
        self.place = place
        self.owners = ()
        self.trail: tuple[str, ...] = (*trail, route.label) if trail else route.trail
        if begins:
            if timeout is not None or call.operation.timeout is not None:
                self.deadline = host.limit(call, timeout)
            task = lease.task
            task.calls += 1
            if task.ttl:
                task.last_used = task.now()
            task.active.add(call)
            call.work = self

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

    @property
    def asker(self) -> dict[str, Any]:
        named = {"tool": self.spec.name, "nodeId": self.route.node_id}
        return named if self.is_outermost else {**named, "within": self.trail[-2]}

    def stop(self, reason: CancelReason) -> None:
        if reason == "timeout":
            self.lease.task.note_failed_call(f"{self.route.label}: timed out")
        super().stop(reason)

    def failed(self, error: RrextError) -> None:
        """Count the failure, and keep its message for the status of the task."""
        self.lease.task.note_failed_call(self.host.redactor.text(f"{self.route.label}: {error.message}"))

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
            raise unavailable_tool(message, spec, predicate, nodeId=component.id)

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
                await permitted(self, operation.input)
                await self.take_place()
            return
        text = f'Tool "{operation.tool}" is not available in this context on any node{reason}'
        raise unavailable_tool(text, owners[0].spec, owners[0].spec.options.available)

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
        route, kwargs = self.route, self.kwargs
        self.kwargs = None  # the context becomes one of them, and leads back to here
        if kwargs is None:
            kwargs = route.spec.structure(None, self.call.operation.input, self.host.limits)  # type: ignore[attr-defined]
        node = self.node
        if node is None:
            node = self.node = self.lease.node(route.component.id)
        return self._called(node, kwargs)

    def _called(self, node: Node, kwargs: dict[str, Any]) -> Encoded:
        route, limits = self.route, self.host.limits
        spec = route.spec
        began = perf_counter() if self.learns else 0.0
        try:
            value = spec.invoke(node, kwargs, self.context if self.place is None else self._lent_context)
            if spec.kind == "generator":
                return self._chunks().drain(value, self.token), None
        except asyncio.CancelledError:
            raise cancelled_from_inside(spec.name, route.component.id) from None
        has_more = type(value) in _NO_JSON or self.reports
        encoded = self.encode(value) if has_more else (spec.encode(node, value, limits), None)
        if self.learns:
            route.learn(perf_counter() - began, limits.quick)
        return encoded

    def _lent_context(self) -> ToolContext:
        """The context of a tool that may lend its place, which is that of this thread."""
        self.loan = Loan(self.lease.task.sync_places, self.call)
        self.thread = self.loan.thread
        return self.context()

    def on_loop(self) -> Coroutine[Any, Any, Encoded]:
        """Run a tool of any kind from the loop, after waiting for its turn and its component."""
        outlet = self.call.outlet
        if not self.owners:  # other results may have filled the outbox since this call was started
            if outlet is None or not ((outlet.size and outlet.is_full) or (self.route.returns and not self._takes_room())):
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
        return self._awaited(node, kwargs)

    async def _when_ready(self) -> Encoded:
        await self._get_ready()
        self.owners = ()
        return await self.ready()

    async def _awaited(self, node: Node, kwargs: dict[str, Any]) -> Encoded:
        spec = self.route.spec
        outcome = spec.invoke(node, kwargs, self.context)
        if spec.kind == "async":
            value = await outcome
            has_more = type(value) in _NO_JSON or self.reports
            return self.encode(value) if has_more else (spec.encode(node, value, self.host.limits), None)
        chunks = self._chunks()
        if spec.kind == "async_generator":
            return await chunks.drain_async(outcome), None
        return await chunks.drain_on_loop(outcome), None

    async def _in_thread(self) -> Encoded:
        if self.spec.thread == "main":
            return self.blocking()
        places, call = self.lease.task.sync_places, self.call
        context = None if self.is_outermost else copy_context()  # of an outermost call there is none to keep

        def work() -> Encoded:
            self.loan = Loan(places, call)
            return self.blocking() if context is None else context.run(self.blocking)

        if self.spec.thread != "same":
            return await self.in_thread(work)
        own = self.route.component.own_thread
        if not self.is_outermost:
            return await self.in_thread(work, run=own.run_inner)
        own_places = self.route.component.thread_places
        own_place = own_places.take(call.caller, call)
        try:
            await self.host.granted(own_place)
        except BaseException:
            own_place.release()
            raise
        return await self.in_thread(work, run=own.run, own_places=own_places, own_place=own_place)

    # result and error

    def encode(self, value: Any) -> Encoded:
        """Check and encode a result that is more than a JSON value; bytes stay raw. Raises `ToolError` and `ResultTooLarge`."""
        spec, limits = self.route.spec, self.host.limits
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
            size = len(result) if raw is None else len(raw)
            self.route.learn_size(size)
            if call.outlet is not None and size > LARGE_RESULT:
                self.host.results.expect(call.outlet, size, self, call.caller.counts_for)
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
        if outlet is not None and ((outlet.size and outlet.is_full) or (self.route.returns and not self._takes_room())):
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
        feed = Chunks.wanted_by(self.call) if self.is_outermost else self.feed
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
        questions: RunQuestions | None = None
        if call.feed is not None and isinstance(operation, Fed):
            feed = call.feed if isinstance(operation, Tool) and operation.progress and self.is_outermost else None
            questions = RunQuestions(self, call.feed, operation.questions) if operation.questions else None
        pipe = self.lease.pipe
        caller = self.stands_for or (call.caller if pipe is None else pipe.caller)
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
            nested=Nesting(self, self.route.component.id),
            callbacks=self.host.callbacks,
            authorization=caller.authorization,
            questions=questions,
        )


class TaskWork:
    """Stops the asyncio task of an operation such as `execute`, which holds no place and no lease."""

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def stop(self, reason: CancelReason) -> None:
        if self._task is not None:
            self._task.cancel()

    def stop_inner(self, number: int) -> None: ...

    def overstay(self) -> None: ...


class ThreadJob(Generic[T]):
    """Runs `work` at most once, settles `outcome`, and gives back its places and its lease.

    `place` is one of `places`, the limit of running sync calls. `own_place` is one of `own_places`, the limit of a node's own
    thread.
    """

    __slots__ = (
        "_host", "_is_over", "_lease", "_own_place", "_own_places", "_place", "_places", "_thread", "_unclaimed", "_work",
        "outcome",
    )  # fmt: skip

    def __init__(
        self,
        host: Host,
        work: Callable[[], T],
        lease: Lease | None,
        places: Places,
        place: Place | HeldPlace,
        own_places: Places | None,
        own_place: Place | HeldPlace | None,
    ) -> None:
        self._host = host
        self._work = work
        self._lease = lease
        self._places = places
        self._place = place
        self._own_places = own_places
        self._own_place = own_place
        self._unclaimed = [True]  # popped once: by the thread that runs the job, or by its withdrawal
        self._thread = 0
        self._is_over = False
        self.outcome: asyncio.Future[T] | None = host.loop.create_future()
        if lease is not None:
            lease.keep()

    def __call__(self) -> None:
        """Run the work, on the thread."""
        if not self._claim():
            return
        self._thread = get_ident()
        value: Any = None
        error: BaseException | None = None
        try:
            value = self._work()
        except BaseException as raised:
            error = raised
        self.release()
        self._host.post(self._settle, value, error)
        error = None  # its traceback references this frame: such cycles would wait for the garbage collector

    def release(self) -> None:
        """Give back the places and the lease when the job ended or was withdrawn."""
        self._is_over = True
        self._forget()
        if self._lease is not None:
            self._lease.drop()
        self._place.release()
        if self._own_place is not None:
            self._own_place.release()

    def abandon(self, call: Call | None, label: str) -> None:
        """Withdraw the job of a cancelled waiter; a job that runs already is left behind under `label`."""
        lease, host = self._lease, self._host
        if self._claim():
            self.release()
        elif lease is not None and call is not None and self.outcome is not None:  # otherwise the thread has returned
            lease.leave(host, call, label)
            lease.spoil()
            host.left_behind(self._places).add(self, label, thread=self._thread)
            if self._own_places is not None:
                host.left_behind(self._own_places).add(self, label)
            if self._is_over:  # the thread may have called `_forget` before this record existed
                self._forget()

    def _forget(self) -> None:
        for places in (self._places, self._own_places):
            if places is not None and places.left_behind is not None:
                places.left_behind.remove(self)

    def _settle(self, value: T, error: BaseException | None) -> None:
        outcome, self.outcome = self.outcome, None  # an error's traceback leads to this job, and would so lead to itself
        if outcome is None or outcome.done():
            return
        if error is None:
            outcome.set_result(value)
        elif issubclass(type(error), StopIteration):  # no future carries it; an author's `__class__` may raise
            outcome.set_exception(RuntimeError("StopIteration was raised"))
        else:
            outcome.set_exception(error)

    def _claim(self) -> bool:
        try:
            self._unclaimed.pop()  # atomic, in every thread
        except IndexError:
            return False
        return True


async def in_thread(
    host: Host,
    work: Callable[[], T],
    *,
    places: Places,
    lease: Lease | None,
    call: Call | None = None,
    label: str = "",
    run: Callable[[Job], None] | None = None,
    own_places: Places | None = None,
    own_place: Place | HeldPlace | None = None,
) -> T:
    """Run `work` on a thread within the limit `places`, in the line of the call's caller, and return its result.

    `run` hands the job to a thread; the default is a worker of the pool. `own_place`, one of `own_places`, is released at the
    end of the work. A cancel before the work begins withdraws it. After that the thread goes on, keeps its place until it
    returns, is left behind as `label`, and its lease is spoiled.
    """
    place = await _held(host, places, call, own_place)
    job = ThreadJob(host, work, lease, places, place, own_places, own_place)
    try:
        (run or host.workers.run)(job)
    except BaseException:  # no thread can be started
        job.release()
        raise
    try:
        assert job.outcome is not None
        return await job.outcome
    except asyncio.CancelledError:
        job.abandon(call, label)
        raise


async def _held(host: Host, places: Places, call: Call | None, own_place: Place | HeldPlace | None) -> Place | HeldPlace:
    """Wait for a place. A cancel meanwhile releases the place and `own_place`."""
    place = places.take(None if call is None else call.caller, call)
    if place.granted:
        return place
    try:
        await host.granted(place)
    except BaseException:
        place.release()
        if own_place is not None:
            own_place.release()
        raise
    return place


_LOCK: Final = threading.Lock()
"""Shared by all leases: it is held for a few instructions, and making a lock costs as much."""


class Lease(msgspec.Struct, eq=False):
    """The node objects of a running call: either those of an open pipe, with a turn on it, or pooled ones, with a place of the
    task. The last user gives the lease back.

    If a call is answered while one of its threads still runs, its lease is `spoiled`: the objects are never used again, and
    the place is released when the thread returns. `of_pipe` makes that of a pipe.
    """

    task: Task
    turn: Place | HeldPlace | LockTurn
    pipe: OpenPipe | None = None
    objects: NodeObjects | None = None
    """Of the pipe, or borrowed from the task's spare ones at first use."""
    users: int = 1
    spoiled: bool = False
    is_left: bool = False
    """Whether its call is recorded as left behind."""
    is_tainted: bool = False
    """Whether its call was stopped half-way: borrowed objects are not used again."""

    @classmethod
    def of_pipe(cls, pipe: OpenPipe, turn: Place | LockTurn) -> Lease:
        """The lease of a turn on a pipe, or of work within one."""
        return cls(pipe.task, turn, pipe, pipe.objects)

    def node(self, node_id: str) -> Node:
        """The object of a node."""
        objects = self.objects
        if objects is None:
            try:
                objects = self.task.spare.pop()  # atomic
            except IndexError:
                objects = self.task.new_objects()
            self.objects = objects
        made = objects.made.get(node_id)
        return objects.object(node_id) if made is None else made

    def keep(self) -> None:
        """Add a user: a thread."""
        with _LOCK:
            self.users += 1

    def drop(self) -> None:
        """Remove a user. The last one gives back the objects and the place or turn."""
        with _LOCK:
            self.users -= 1
            if self.users:
                return
        if self.is_left:
            self.returned()
        if self.pipe is not None:
            self._leave(self.pipe)
            return
        if self.objects is not None and not (self.spoiled or self.is_tainted):
            self._give_spare(self.objects)
        self.turn.release()

    def _give_spare(self, objects: NodeObjects) -> None:
        """Return node objects to the task; no thread works on them. Those that may hold data of the call are dropped.

        A class with its own `__init__` may have put a caller's data into the objects that it made.
        """
        task = self.task
        if len(task.spare) < MAX_SPARE_CHAINS:
            for node_id, node in objects.made.items():
                component = task.components.get(node_id)
                if (
                    component is None
                    or component.makes_state
                    or len(node.__dict__) != GIVEN
                    or node.shared is not component.shared
                ):
                    return
            task.spare.append(objects)

    def hand_over(self) -> LockTurn:
        """The turn on the pipe, which another holder releases from now on."""
        turn, self.turn = self.turn, FREE
        assert isinstance(turn, LockTurn)
        return turn

    def leave(self, host: Host, call: Call, label: str, thread: int | None = None) -> None:
        """Record an answered call that still runs: its places are missing until it returns. On the loop's thread.

        `thread` is given for a run in a thread, which has a place among the running sync calls: the thread's id if it may
        lend that place, else 0.
        """
        task = self.task
        with _LOCK:
            if not self.users:
                return
            self.is_left = True
            host.left_behind(task.places).add(self, label, holder=self.pipe, call=call)
            if thread is not None:
                host.left_behind(task.sync_places).add(self, label, thread=thread)

    def returned(self) -> None:
        """Remove the record of a left-behind call: all its threads have returned."""
        for places in (self.task.places, self.task.sync_places):
            if places.left_behind is not None:
                places.left_behind.remove(self)

    def spoil(self) -> None:
        """Release the pipe's turn though an answered call still runs on it: from now on the pipe can only be closed."""
        with _LOCK:
            if self.spoiled or not self.users:
                return
            self.spoiled = True
        if self.pipe is not None:
            self.pipe.leave_thread_behind()
            self.turn.release()

    def _leave(self, pipe: OpenPipe) -> None:
        if self.spoiled:
            pipe.thread_returned()
        else:
            pipe.last_used = self.task.now()
            if self.turn is not FREE:
                self.turn.release()
