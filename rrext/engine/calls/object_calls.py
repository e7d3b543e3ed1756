"""Objects of clients: `open`, `write` and `close`, and abandoned pipes.

`ObjectCalls` starts the calls, or reclaims a pipe. A run for each of the three has the effect on the pipe and on its object,
also after a failure or a cancel. `PipeServices` is what node methods get meanwhile: threads, the loop, and a context.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rrext.engine.calls.nested_calls import Nesting
from rrext.engine.calls.questions import RunQuestions
from rrext.engine.calls.run import CallRun, Encoded, Lease, Run
from rrext.engine.events.hub import EventOrigin
from rrext.engine.flow.intake import MOVED_TO_TOOLS, Intake, tool_request
from rrext.engine.flow.objects import NodeObjects
from rrext.engine.host.host import Host
from rrext.engine.host.places import FREE, Loan, LockTurn
from rrext.engine.interface.call import Call, DroppedAnswer
from rrext.engine.interface.failures import failure_of, internal_error, readable
from rrext.engine.interface.operations import Close, Fed, Open, Write
from rrext.engine.tasks.component import unavailable
from rrext.engine.tasks.pipes import OpenPipe, Pipes
from rrext.engine.tasks.task import Task
from rrext.errors import (
    Cancelled,
    InvalidArguments,
    PipeFailed,
    ResultTooLarge,
    RrextError,
    ToolError,
    ToolTimeout,
    Unavailable,
    fold,
)
from rrext.limits import QUICK_SHARE_AMONG_OTHERS, Limits
from rrext.nodes.base.lanes import choose_lane
from rrext.nodes.base.node import Entry
from rrext.pipefile.lane_plan import LanePlan
from rrext.tools.context import CancelReason, ToolContext
from rrext.tools.results import NotJson, encode_json

if TYPE_CHECKING:
    from rrext.engine.interface.call import Caller
    from rrext.engine.interface.rare_operations import WriteFile


log: Final = logging.getLogger("rrext.objects")

T = TypeVar("T")

NAMES: Final = frozenset(("name", "path", "url", "objectId", "signature", "size", "metadata"))
KNOWN: Final = {fold(key): key for key in NAMES}


class ObjectCalls:
    """Starts `Open`, `Write` and `Close` operations, and reclaims pipes. Raises `RrextError` if one cannot begin."""

    def __init__(self, host: Host, pipes: Pipes) -> None:
        self._host = host
        self._pipes = pipes

    def open(self, call: Call, task: Task, operation: Open) -> None:
        """Begin an `open`. The call has joined the task's line for a place when this returns."""
        plan = task.only_plan
        if operation.source or plan is None:
            is_question = bool(operation.mime_type) and choose_lane(operation.mime_type, lambda _: True) == "questions"
            plan = task.plan_from(operation.source, "chat" if is_question else "send")
        if plan.missing:
            refuse_missing(plan, (plan.source,))
        entry, intake = entry_of(plan, operation, call.caller)
        if plan.missing:
            refuse_missing(plan, plan.reached(intake.lane))
        OpenRun(self._host, call, task, plan, self._pipes, self.reclaim, entry, intake).start()

    def write(self, call: Call, operation: Write, *, is_late: bool = False) -> bool:
        """Begin a `write` from the loop, see `Engine.start`. The call has joined the pipe's line when this returns; one that
        `is_late` runs nothing.
        """
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        data = data_of(operation, call.data)
        lease = self._in_line(pipe)
        run = WriteRun(self._host, call, pipe, lease, self._pipes, self.reclaim, data, self._settle)
        if lease.turn.granted and not (is_late or pipe.failed or pipe.leftovers or pipe.objects.plan.needs_loop):
            run.to_worker()
        else:
            run.start()
        return pipe.quick and call.data is not None

    def write_here(self, call: Call, operation: Write) -> bool:
        """Run a raw write on the thread that read it, see `Engine.start_here`. False if the write has to wait for a turn."""
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        if not pipe.quick or call.data is None or call.feed is not None:  # one with a feed may ask its caller
            return False
        data = data_of(operation, call.data)
        lease = self._in_line(pipe)
        place = pipe.task.sync_places.take()
        is_open = self._pipes.at(pipe.id) is pipe and not (pipe.failed or pipe.leftovers)
        # Checked while the turn is held: the loop may have failed or freed the pipe meanwhile.
        if not (place.granted and lease.turn.granted and is_open):
            place.release()
            lease.drop()
            return False
        run = WriteRun(self._host, call, pipe, lease, self._pipes, self.reclaim, data, self._settle)
        run.place = place
        if call.settled:  # answered while this thread decided
            run.stop("cancelled")
            call.work = None
        else:
            run.run_here()
        return True

    def close(self, call: Call, operation: Close) -> None:
        """Begin a `close`. The call has joined the pipe's line when this returns."""
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        lease = self._in_line(pipe)
        CloseRun(self._host, call, pipe, lease, self._pipes, self.reclaim).start()

    def _in_line(self, pipe: OpenPipe) -> Lease:
        """The lease of a request that has joined the line of a pipe."""
        pipe.last_used = self._host.clock.now()
        return Lease(pipe.task, pipe.lock.enter(exclusive=True), pipe, pipe.objects)

    def _settle(self, pipe: OpenPipe) -> None:
        """End a pipe whose object failed, behind all that wait on it."""
        if self._pipes.at(pipe.id) is pipe:
            call = Call(Close(pipe_id=pipe.id), DroppedAnswer(), caller=pipe.caller)
            lease = Lease.of_pipe(pipe, pipe.lock.enter(exclusive=True))
            SettleRun(self._host, call, pipe, lease, self._pipes, self.reclaim).start()

    def reclaim(self, pipe: OpenPipe, reason: str, *, idle: float | None = None, turn: LockTurn | None = None) -> None:
        """Free an abandoned pipe: it was idle for `idle` seconds, its connection or its task has ended, or its `close`, whose
        `turn` it takes, was cancelled. New requests do not find it; those before that turn go on.
        """
        self._pipes.remove(pipe)
        if idle is not None:
            self._pipes.remember_expired(pipe, idle)
        if pipe.closed and pipe.lock.is_idle:  # it had only a result
            return
        self._host.spawn(self._abandon(pipe, reason, turn or pipe.lock.enter(exclusive=True)), f"reclaim pipe {pipe.id}")

    async def _abandon(self, pipe: OpenPipe, reason: str, turn: LockTurn) -> None:
        """Close the nodes of the pipe when no thread works on them any more, then free the pipe's place."""
        host, objects, plan = self._host, pipe.objects, pipe.objects.plan
        task, call = pipe.task, Call(Close(pipe_id=pipe.id), DroppedAnswer(), caller=pipe.caller)
        lease = Lease.of_pipe(pipe, turn)
        run = Run(host, call, lease, None, ("close",))
        services = PipeServices(run, pipe)
        missing = host.left_behind(task.places)
        try:
            await host.granted(turn)
            pipe.result = None
            if not pipe.has_ended:
                pipe.has_ended, pipe.end_reason = True, reason
            await host.woken(pipe.when_threads_returned)
            if not pipe.closed and any("close" in plan.methods[node_id] for node_id in plan.closing):
                missing.add(pipe, "close", other=task.sync_places)
                if plan.needs_loop:
                    await objects.abandon(services)
                else:
                    await run.in_thread(partial(objects.abandon_blocking, services))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.warning("closing the nodes of reclaimed pipe %d failed", pipe.id, exc_info=error)
        finally:
            missing.remove(pipe)
            lease.drop()
            pipe.free()


def refuse_missing(plan: LanePlan, needed: Iterable[str]) -> None:
    """Raise `Unavailable` for the first of the needed nodes that is missing: its data would be lost."""
    for node_id in needed:
        if node_id in plan.missing:
            raise unavailable(node_id, plan.missing[node_id])


class ObjectRun(CallRun):
    """Base of the runs of `open`, `write` and `close`. `reclaim` frees an abandoned pipe."""

    def __init__(
        self, host: Host, call: Call, lease: Lease, pipes: Pipes, reclaim: Callable[..., object], *, name: str
    ) -> None:
        self.host = host  # instead of `Run.__init__`: saves a function call per call
        self.call = call
        self.lease = lease
        self.deadline = None
        self.trail = (name,)
        self._unclaimed = [True]
        self._pipes = pipes
        self._reclaim = reclaim
        lease.task.active.add(call)
        call.work = self
        if call.operation.timeout is not None:
            self.deadline = host.limit(call)
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

    def translated(self, error: BaseException, what: str) -> RrextError:
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

    def free(self, pipe: OpenPipe) -> None:
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
            if not self.call.unsettled:
                raise asyncio.CancelledError
        except BaseException as error:
            if self._pipe is not None:
                self._pipe.end_reason = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
                self.free(self._pipe)
            if isinstance(error, asyncio.CancelledError):
                raise
            told = self.translated(error, "The object could not be opened")
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
        if not self.lease.turn.granted or (self.call.outlet is not None and self.call.outlet.size):
            await self.wait_for_turn()
        place = self.lease.turn
        assert not isinstance(place, LockTurn), "the pipe is not open yet"
        absent: dict[str, Unavailable] = {}
        for node_id in plan.opening:
            component = task.components[node_id]
            if component.ready or not plan.methods[node_id]:  # components without lane methods take no part in objects
                continue
            try:
                await component.ensure(host, trusted=trusted)
            except Unavailable as error:
                if not component.partial or node_id in plan.reached(intake.lane):
                    raise
                absent[node_id] = error
        number, who, user = next(self._pipes.numbers), caller.connection_id, caller.user_id
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
        services = PipeServices(self, pipe)
        opening = Lease.of_pipe(pipe, FREE)
        try:
            if plan.needs_loop:
                await objects.open(entry, intake, services)
            else:
                await self.in_thread(partial(objects.open_blocking, entry, intake, services), lease=opening)
        finally:
            opening.drop()
        return pipe

    def stopped(self, reason: CancelReason) -> None:
        """Fail the pipe: the thread that opens nodes stops at the next node, and closes the opened ones."""
        if self._pipe is not None:
            self._pipe.fail(Cancelled("the open was cancelled"))

    def give_back(self) -> None:
        self.lease.task.active.discard(self.call)
        if self._pipe is None:
            self.lease.drop()
        else:
            if self.lease.is_left:
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
        self.thread = get_ident()
        services = PipeServices(self, pipe)
        began = perf_counter()
        try:
            pipe.objects.write_blocking(self._data, services)
        except BaseException as error:
            raise self._failed(error) from None
        pipe.quick = perf_counter() - began < self.host.limits.quick * QUICK_SHARE_AMONG_OTHERS
        return b"{}", None

    async def on_loop(self) -> Encoded:
        pipe = self._pipe
        if not self.lease.turn.granted:
            await self.host.granted(self.lease.turn)
        pipe.check_writable()
        if not pipe.objects.plan.needs_loop:
            return await self.in_thread(self.blocking)
        try:
            await pipe.objects.write(self._data, PipeServices(self, pipe))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            raise self._failed(error) from None
        return b"{}", None

    def _failed(self, error: BaseException) -> RrextError:
        told = self.translated(error, f"Pipe {self._pipe.id} failed")
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
        if not self.lease.turn.granted:
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
            self.free(pipe)
        return body

    async def _finish(self) -> None:
        pipe, objects = self._pipe, self._pipe.objects
        services = PipeServices(self, pipe)
        try:
            if objects.plan.needs_loop:
                failure = await objects.finish(services)
            else:
                failure = await self.in_thread(partial(objects.finish_blocking, services))
            if failure is not None:
                pipe.fail(failure)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            pipe.fail(self.translated(error, f"Pipe {pipe.id} failed while closing"))

    def _result(self) -> bytes:
        pipe = self._pipe
        try:
            body = result_body(pipe.entry, self.host.limits)
        except Exception as error:  # the results cannot be encoded: the answer carries the failure only
            pipe.fail(self.translated(error, f"The result of pipe {pipe.id} failed"))
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
        if not self.lease.turn.granted:
            await self.host.granted(self.lease.turn)
        if not pipe.has_ended:
            await self.host.woken(pipe.when_threads_returned)  # the write may have been late: its thread is about to return
            body = await self._end()
            if pipe.closed:
                self._pipes.keep_result(pipe, body)
        return b"{}", None


class PipeServices:
    """The services of one operation. Methods that run in threads count as running sync calls of the task."""

    __slots__ = ("_pipe", "_run")

    def __init__(self, run: Run, pipe: OpenPipe) -> None:
        self._run = run
        self._pipe = pipe

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        lease = Lease.of_pipe(self._pipe, FREE)
        try:
            return await self._run.in_thread(work, lease=lease, label=type(self._run.call.operation).__name__.lower())
        finally:
            lease.drop()

    def run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        run = self._run
        with Loan(self._pipe.task.sync_places, run.call):
            return run.host.from_thread(work, run.token)

    @property
    def request(self) -> str:
        return self._run.call.name

    def context(self, node_id: str) -> ToolContext:
        pipe, host, call, token = self._pipe, self._run.host, self._run.call, self._run.token
        caller = pipe.caller
        on_loop = asyncio._get_running_loop() is host.loop
        run = Run(
            host,
            call,
            Lease.of_pipe(pipe, FREE),
            deadline=call.deadline,
            token=token,
            trail=(node_id,),
        )
        if not on_loop:
            run.loan = Loan(pipe.task.sync_places, call)
        operation, callbacks = call.operation, host.callbacks
        questions: RunQuestions | None = None
        if call.feed is not None and isinstance(operation, Fed) and operation.questions:
            questions = RunQuestions(run, call.feed, operation.questions)
        if host.events.watches_calls or call.tells_calls:
            from rrext.engine.calls.watched_run import watch_method

            callbacks = watch_method(run)
        return ToolContext(
            node_id=node_id,
            token=token,
            user_id=caller.user_id,
            space_id=caller.space_id,
            request_id=call.request_id,
            connection_id=caller.connection_id,
            pipe_id=pipe.id,
            meta=operation.meta,
            deadline=call.deadline,
            clock=host.clock.now,
            nested=Nesting(run, node_id),
            callbacks=callbacks,
            questions=questions,
            authorization=caller.authorization,
        )


def entry_of(plan: LanePlan, operation: Open, caller: Caller) -> tuple[Entry, Intake]:
    """Read the arguments of `open`: the object, and the rule that turns its writes into payloads. Raises `InvalidArguments`."""
    source = plan.source_class
    given = operation.object or {}
    mime_type = operation.mime_type or "application/octet-stream"
    if operation.provider and operation.provider != source.provider:
        text = f'You are looking for a "{operation.provider}", but this pipeline isn\'t it: it begins at a "{source.provider}"'
        raise _no_object("/provider", text) if _has_tools_alone(plan) else InvalidArguments.at("/provider", text)
    _check_method(plan, mime_type)
    lane = choose_lane(mime_type, plan.source_lanes.__contains__)
    _check_keys(given)
    size, metadata = given.get("size"), given.get("metadata")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise InvalidArguments.at("/object/size", "expected a number of bytes")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidArguments.at("/object/metadata", "expected an object")
    entry = Entry(
        _text(given, "name"),
        path=_text(given, "path") or "",
        mime_type=mime_type,
        size=size,
        metadata=metadata,
        url=_text(given, "url"),
        object_id=_text(given, "objectId"),
        signature=_text(given, "signature"),
        tenant=caller.tenant,
    )
    return entry, Intake(lane, mime_type)


def data_of(operation: Write | WriteFile, raw: bytes | None) -> bytes | str:
    """The data of a write. Raises `InvalidArguments` unless it was given in exactly one way."""
    given = [value is not None for value in (operation.data, operation.data_base64, raw)]
    if sum(given) != 1:
        what = "No data specified" if not any(given) else "data was given twice"
        raise InvalidArguments.at("/data", f"{what}: a write takes exactly one of data (text), data_base64 and a raw tail")
    if raw is not None:
        return raw
    if operation.data is not None:
        return operation.data
    try:
        return base64.b64decode(operation.data_base64 or "", validate=True)
    except ValueError:  # base64 raises ValueError for non-ASCII characters too
        raise InvalidArguments.at("/data_base64", "expected base64 (RFC 4648, with padding)") from None


def _text(given: dict[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidArguments.at(f"/object/{key}", "expected a string")
    return value


def _check_keys(given: dict[str, Any]) -> None:
    """Refuse `object_id` and an empty id: if they were ignored, the object would get another id than the client means."""
    for key in given.keys() - NAMES:
        meant = KNOWN.get(fold(key))
        if meant is not None and meant not in given:
            raise InvalidArguments.at(f"/object/{key}", f'unknown key; did you mean "{meant}"?')
    for key in ("objectId", "url"):
        if given.get(key) == "":
            raise InvalidArguments.at(f"/object/{key}", "is empty; leave it out to have one made")


def _check_method(plan: LanePlan, mime_type: str) -> None:
    """Refuse the classic mix-up of `send` and `chat`, which would end in an empty result."""
    accepts = plan.source_class.accepts
    asks = mime_type.startswith("application/rocketride-question") or mime_type == "lane/questions"
    if asks and _has_tools_alone(plan):
        raise _no_object(
            "/mimeType", f'"{plan.source}" takes no questions: the pipeline begins at a "{plan.source_class.provider}"'
        )
    if asks and accepts and "chat" not in accepts and "questions" not in plan.source_lanes:
        raise InvalidArguments.at("/mimeType", f'nobody takes questions here: "{plan.source}" is for send()')
    if not asks and accepts == ("chat",):
        raise InvalidArguments.at("/mimeType", f'"{plan.source}" takes questions only: use chat() instead of send()')


def _has_tools_alone(plan: LanePlan) -> bool:
    """Whether the source has no lane: a pipe of it is there for calls of tools."""
    return not plan.source_class.lanes.get("_source")


def _no_object(path: str, text: str) -> InvalidArguments:
    """The refusal of an object that a source without lanes would lose."""
    moved = " and ".join(f'"{name}"' for name in MOVED_TO_TOOLS)
    return InvalidArguments.at(
        path, f"{text}, so call its tools instead; those of a database are {moved}", hint=tool_request("execute")
    )


def result_body(entry: Entry, limits: Limits) -> bytes:
    """The collected results as JSON. Raises `ToolError` and `ResultTooLarge`, and any exception of a broken entry."""
    try:
        encoded = encode_json(entry.body())
    except NotJson as error:
        raise ToolError(f"The object's result is no JSON at {error}", data={"path": error.path}) from None
    if len(encoded) > limits.max_result:
        raise ResultTooLarge.of(len(encoded), limits.max_result)
    return encoded


def bare_body(entry: Entry) -> bytes:
    """The name, path and id of an object whose results cannot be sent."""
    known: dict[str, Any] = {"name": entry.name, "path": entry.path, "objectId": entry.object_id}
    return encode_json({key: readable(value) for key, value in known.items()})


def stopped_write(reason: CancelReason) -> RrextError:
    """The error of an object that has a gap, because a write was stopped."""
    return ToolTimeout("a write did not finish in time") if reason == "timeout" else Cancelled("a write was cancelled")


def with_error(body: bytes, error: RrextError) -> bytes:
    """The body of a failed object."""
    told = {"code": error.code, "message": error.message, "hint": error.hint}
    known = encode_json({key: readable(text) for key, text in told.items() if text is not None})
    return body[:-1] + b',"error":' + known + b"}"
