"""The runs of `open`, `write` and `close`: their effect on the pipe and on its object, also after a failure or a cancel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

from rrext.engine.calls.object_result import bare_body, result_body, stopped_write, with_error
from rrext.engine.calls.pipe_services import PipeServices
from rrext.engine.calls.run import CallRun, Encoded, Lease
from rrext.engine.calls.thread_job import in_thread
from rrext.engine.events.hub import EventOrigin
from rrext.engine.flow.intake import Intake
from rrext.engine.flow.objects import NodeObjects
from rrext.engine.host.fair_lock import LockTurn
from rrext.engine.host.host import Host
from rrext.engine.host.places import Loan, Place
from rrext.engine.interface.call import Call
from rrext.engine.interface.failures import failure_of, internal_error
from rrext.engine.tasks.pipes import OpenPipe, Pipes
from rrext.engine.tasks.task import Task
from rrext.errors import Cancelled, PipeFailed, RrextError, ToolError, Unavailable
from rrext.limits import QUICK_SHARE_AMONG_OTHERS
from rrext.nodes.base.node import Entry
from rrext.pipefile.lane_plan import LanePlan
from rrext.tools.context import CancelReason

T = TypeVar("T")

log: Final = logging.getLogger("rrext.objects")


async def run_step(
    host: Host, lease: Lease, call: Call, label: str, blocking: Callable[[], T], on_loop: Callable[[], Coroutine[None, None, T]]
) -> T:
    """Run one step of an object: in a thread if all node methods are `def`, else on the loop."""
    assert lease.pipe is not None, "objects have pipes"
    if lease.pipe.objects.plan.needs_loop:
        return await on_loop()
    return await in_thread(host, blocking, places=lease.task.sync_places, lease=lease, call=call, label=label)


class ObjectRun(CallRun):
    """Base of the runs of `open`, `write` and `close`. `reclaim` frees an abandoned pipe."""

    def __init__(
        self, host: Host, call: Call, lease: Lease, pipes: Pipes, reclaim: Callable[..., object], *, name: str
    ) -> None:
        super().__init__(host, call, lease, deadline=host.limit(call), trail=(name,))
        self._unclaimed = [True]
        self._pipes = pipes
        self._reclaim = reclaim
        lease.task.active.add(call)
        call.work = self
        host.watch(call)

    def blocking(self) -> Encoded:
        raise NotImplementedError("only a write runs whole in a thread")

    def failure(self, error: BaseException) -> RrextError:
        if isinstance(error, RrextError):
            return error
        if isinstance(error, asyncio.CancelledError):
            return ToolError("a node cancelled the operation from inside")
        log.error("%s a bug of rrext", self.call.name, exc_info=error)
        return internal_error()

    def told(self, error: BaseException, what: str) -> RrextError:
        """Translate an exception of a node into the error for the caller."""
        return failure_of(
            error,
            what=what,
            node_id="",
            tool=None,
            request=self.call.name,
            trusted=self.call.caller.trusted,
            limits=self.host.limits,
        )

    def note_failure(self, error: RrextError) -> None:
        """Keep the error of a failed object for the task's status."""
        task = self.lease.task
        self.host.redactor.error(error)
        task.note_error(error.message)

    def let_go(self, pipe: OpenPipe) -> None:
        """Free a pipe at its end; if a node is still open or a thread still works, reclaim the pipe instead."""
        if pipe.leftovers or not pipe.objects.closed:
            self._reclaim(pipe, pipe.end_reason)
        else:
            pipe.free()


class OpenRun(ObjectRun):
    """The run of `open`: waits for a place, and opens the nodes of a new pipe, which keeps the place."""

    def __init__(
        self,
        host: Host,
        call: Call,
        task: Task,
        plan: LanePlan,
        pipes: Pipes,
        reclaim: Callable[..., object],
        entry: Entry,
        intake: Intake,
    ) -> None:
        super().__init__(host, call, Lease(task, task.places.take(call.caller, call)), pipes, reclaim, name="open")
        self._plan = plan
        self._entry = entry
        self._intake = intake
        self._pipe: OpenPipe | None = None

    async def on_loop(self) -> Encoded:
        try:
            pipe = await self._open()
            if self.call.settled:
                raise asyncio.CancelledError
        except BaseException as error:
            if self._pipe is not None:
                self._pipe.end_reason = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
                self.let_go(self._pipe)
            if isinstance(error, asyncio.CancelledError):
                raise
            told = self.told(error, "The object could not be opened")
            self.note_failure(told)
            self.lease.task.failed_count += self._pipe is None
            try:
                raise told from (None if told is error else error)
            finally:
                del told  # its traceback references this frame
        pipe.last_used = pipe.task.now()
        self._pipes.add(pipe)
        return b'{"pipe_id":%d}' % pipe.id, None

    async def _open(self) -> OpenPipe:
        host, task, plan = self.host, self.lease.task, self._plan
        trusted = self.call.caller.trusted
        entry, intake, caller = self._entry, self._intake, self.call.caller
        await self.wait_for_turn()
        place = self.lease.turn
        assert not isinstance(place, LockTurn), "the pipe is not open yet"
        absent: dict[str, Unavailable] = {}
        for node_id in plan.opening:
            component = task.components[node_id]
            if component.ready or not plan.methods(node_id):  # components without lane methods take no part in objects
                continue
            try:
                await component.ensure(host, trusted=trusted)
            except Unavailable as error:
                if not component.partial or node_id in plan.reached(intake.lane):
                    raise
                absent[node_id] = error
        number, who, user = self._pipes.next_id(), caller.connection_id, caller.user_id
        origin = EventOrigin(host.events, task.event_head, connection_id=who, user_id=user, pipe_id=number)
        if task.trace is not None:
            origin.trace = task.trace.pipe(origin)
        make = partial(task.make_object, publisher=origin)
        objects = NodeObjects(plan, make, trusted=trusted, origin=origin, absent=absent)
        pipe = self._pipe = OpenPipe(origin, task, caller, objects, entry, intake, place, task.now())
        if (events := host.events.flow) is not None:
            events.pipe_opened(origin, entry, intake.lane, caller.space_id)
        if origin.trace is not None:
            origin.trace.begin(entry, intake.lane)
        services = PipeServices(host, self.call, pipe, self.token)
        # A cancel fails the pipe: the thread that opens nodes stops at the next node and closes the opened ones.
        self.token.on_cancel(partial(pipe.fail, Cancelled("the open was cancelled")))
        opening = Lease.of_pipe(pipe, Place.free())
        try:
            await run_step(
                host,
                opening,
                self.call,
                self.trail[0],
                lambda: objects.open_blocking(entry, intake, services),
                lambda: objects.open(entry, intake, services),
            )
        finally:
            opening.drop()
        return pipe

    def give_back(self) -> None:
        self.lease.task.active.discard(self.call)
        if self._pipe is None:
            self.lease.drop()
        else:
            self.lease.returned()


class WriteRun(ObjectRun):
    """The run of `write`: waits for the pipe's turn, and passes the data to the nodes. `settle` ends a pipe that failed."""

    def __init__(
        self,
        host: Host,
        call: Call,
        pipe: OpenPipe,
        lease: Lease,
        pipes: Pipes,
        reclaim: Callable[..., object],
        data: bytes | str,
        settle: Callable[[OpenPipe], object],
    ) -> None:
        super().__init__(host, call, lease, pipes, reclaim, name="write")
        self._settle = settle
        self._pipe = pipe
        self._data = data

    def blocking(self) -> Encoded:
        pipe = self._pipe
        self.loan = Loan(pipe.task.sync_places, self.call)
        services = PipeServices(self.host, self.call, pipe, self.token)
        began = perf_counter()
        try:
            pipe.objects.write_blocking(self._data, services)
        except BaseException as error:
            raise self._failed(error) from None
        pipe.quick = perf_counter() - began < self.host.limits.quick * QUICK_SHARE_AMONG_OTHERS
        return b"{}", None

    async def on_loop(self) -> Encoded:
        pipe = self._pipe
        await self.host.granted(self.lease.turn)
        pipe.check_writable()
        services = PipeServices(self.host, self.call, pipe, self.token)
        if not pipe.objects.plan.needs_loop:
            return await in_thread(
                self.host, self.blocking, places=pipe.task.sync_places, lease=self.lease, call=self.call, label=self.trail[0]
            )
        try:
            await pipe.objects.write(self._data, services)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            raise self._failed(error) from None
        return b"{}", None

    def _failed(self, error: BaseException) -> RrextError:
        told = self.told(error, f"Pipe {self._pipe.id} failed")
        self._pipe.fail(told)
        self.host.post(self._settle, self._pipe)
        return told

    def _succeed(self, encoded: Encoded) -> None:
        """Answer while the turn is held: nothing behind this write begins, or is answered, while it may still be late."""
        try:
            if not self.call.succeed(*encoded):  # answered as late or cancelled, and `stop` may come after the turn
                is_late = self.host.is_late(self.call)
                self._pipe.fail(stopped_write("timeout" if is_late else "cancelled"))
        finally:
            self.give_back()

    def stopped(self, reason: CancelReason) -> None:
        """Fail the pipe: without this write its object has a gap. One that waits does so at its turn: others go before."""
        lease, error = self.lease, stopped_write(reason)
        if lease.turn.granted:
            self._pipe.fail(error)
            return
        self._pipe.fail_at(lease.hand_over(), error)

    def overstay(self) -> None:
        super().overstay()
        self._pipe.quick = False


class CloseRun(ObjectRun):
    """The run of `close`: waits for the pipe's turn, ends its object, and frees the pipe."""

    def __init__(
        self, host: Host, call: Call, pipe: OpenPipe, lease: Lease, pipes: Pipes, reclaim: Callable[..., object]
    ) -> None:
        super().__init__(host, call, lease, pipes, reclaim, name="close")
        self._pipe = pipe
        self._is_closing = False

    async def on_loop(self) -> Encoded:
        pipe = self._pipe
        await self.host.granted(self.lease.turn)
        kept = self._pipes.take_result(pipe)
        if kept is not None:  # the pipe failed, and was settled before this turn
            return kept, None
        pipe.check_open()
        self._pipes.remove(pipe)
        return await self._end(), None

    async def _end(self) -> bytes:
        pipe = self._pipe
        self._is_closing = pipe.has_ended = True
        try:
            if pipe.leftovers:  # a thread still works on the node objects, which must not be touched before it returns
                pipe.fail(PipeFailed("a tool that was cancelled or timed out still runs on this pipe"))
            else:
                await self._finish()
            body = self._result()
            pipe.end_object(body)
        finally:
            self.let_go(pipe)
        return body

    async def _finish(self) -> None:
        pipe, objects = self._pipe, self._pipe.objects
        services = PipeServices(self.host, self.call, pipe, self.token)
        try:
            failure = await run_step(
                self.host,
                self.lease,
                self.call,
                self.trail[0],
                lambda: objects.finish_blocking(services),
                lambda: objects.finish(services),
            )
            if failure is not None:
                pipe.fail(failure)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            pipe.fail(self.told(error, f"Pipe {pipe.id} failed while closing"))

    def _result(self) -> bytes:
        pipe = self._pipe
        try:
            body = result_body(pipe.entry, self.host.limits)
        except Exception as error:  # the results cannot be encoded: the answer carries the failure only
            pipe.fail(self.told(error, f"The result of pipe {pipe.id} failed"))
            body = bare_body(pipe.entry)
        if pipe.failed is None:
            return body
        self.note_failure(pipe.failed)
        return with_error(body, pipe.failed)

    def stopped(self, reason: CancelReason) -> None:
        """Fail or reclaim the pipe: a cancelled `close` leaves no object. One that waits does so at its turn."""
        pipe = self._pipe
        if self._is_closing:
            pipe.end_reason = "cancelled"
            pipe.fail(Cancelled("the close was cancelled"))  # a thread that closes nodes must commit nothing more
        else:
            self._reclaim(pipe, "cancelled", turn=self.lease.hand_over())


class SettleRun(CloseRun):
    """The run that ends a pipe whose object failed, and keeps the result for its `close`: who never closes keeps no place."""

    async def on_loop(self) -> Encoded:
        pipe = self._pipe
        await self.host.granted(self.lease.turn)
        if not pipe.has_ended:
            await self.host.woken(pipe.when_threads_returned)  # the write may have been late: its thread is about to return
            body = await self._end()
            if pipe.closed:
                self._pipes.keep_result(pipe, body)
        return b"{}", None
