"""One worker, as the server speaks with it: the calls in flight, its events, and its end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import msgspec

from rrext.engine.calls.object_calls import stopped_write, with_error
from rrext.engine.events.records import AnyEvent
from rrext.engine.interface.call import Call, DroppedAnswer
from rrext.engine.interface.operations import Close, Open, Operation, Write
from rrext.errors import (
    Cancelled,
    InvalidArguments,
    PipeFailed,
    PipeNotOpen,
    RrextError,
    TaskLost,
    TaskNotRegistered,
    Unavailable,
)
from rrext.server.outbox import Outbox, Sink
from rrext.tasks.call_gate import CallGate
from rrext.tasks.hop import BegunEvents, HopCredit, HopMessages, Incoming
from rrext.tasks.worker_process import last_words, process_lost
from rrext.wire.messages import QUESTIONS, answering, number_of

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Caller, Feed, Outlet
    from rrext.tasks.families import Excess
    from rrext.tasks.remote_tasks import RemoteTask
    from rrext.tasks.worker_process import Stderr
    from rrext.tools.context import CancelReason


ANSWER_PATIENCE: Final = 1.0
"""Seconds in which a worker answers for its status; of a stuck one the last status is told."""

SILENCE: Final = 4.0
"""Seconds more after which a worker that still does not tell its status is stuck: a large library that is loaded holds the
interpreter's lock for some of them. That a worker was stopped is seen at once."""

EXIT_PATIENCE: Final = 2.0
"""Seconds between the last byte of a worker and its end; then it is killed."""

NEVER: Final = 1 << 62
"""Stands for the place of a request that is not queued: nothing before it has left."""

MAX_GAPS: Final = 1024
"""Pipes of a worker whose stopped writes may have ended: the oldest ones have long been answered, and some are never closed."""

MAX_RAN: Final = 8
"""How often a call that ran is named, when its process was killed for its memory."""

MAX_CALLERS: Final = 4096
"""Callers of one connection that a worker knows by number: those whom its requests name. A further one takes the place of the
one that called least recently, and no place of another connection."""

log: Final = logging.getLogger("rrext.tasks")


class _About(msgspec.Struct, gc=False):
    """The members of an event of a call."""

    request: int
    progress: float = 0.0
    total: float | None = None
    message: str | None = None
    index: int = 0
    chunk: msgspec.Raw = msgspec.Raw(b"")
    permission: int = 0


_decode_about = msgspec.json.Decoder(_About).decode
_decode_event = msgspec.json.Decoder(AnyEvent).decode


class _Failed(msgspec.Struct):
    """The member of a `close` that an object has which failed."""

    error: Any = None


_decode_failed = msgspec.json.Decoder(_Failed).decode


class PipeGap(NamedTuple):
    """The number of a write that is missing in its object, and why it was stopped."""

    number: int
    reason: CancelReason


class Routed(msgspec.Struct, eq=False):
    """The run of a call that a worker has. `credit` is that of its connection; None if its answer waits in no outbox. `begin`
    is the number of bytes before its request among all for the worker, as soon as the request is queued.
    """

    worker: Worker
    number: int
    call: Call
    credit: HopCredit | None
    begin: int = NEVER

    def stop(self, reason: CancelReason) -> None:
        self.worker.cancel(self.number, reason)

    def stop_inner(self, number: int) -> None:
        self.worker.order("worker_cancel_inner", {"call": self.number, "inner": number})

    def overstay(self) -> None:
        """Nothing runs here."""


class HopConnection:
    """What a worker was told of a connection: the numbers of its callers, the latest one last.

    `credit` is what is owed to the worker for the messages of its calls; None before a call whose answer waits in an outbox.
    """

    __slots__ = ("credit", "latest", "number", "numbers")

    def __init__(self) -> None:
        self.numbers: OrderedDict[Caller, int] = OrderedDict()
        self.latest: Caller | None = None
        self.number = 0
        self.credit: HopCredit | None = None


class Withdrawn(DroppedAnswer):
    """Stands for the answer of a call that was answered before it left."""

    def __init__(self, reason: CancelReason) -> None:
        self.reason: CancelReason = reason


def _name_of(operation: Operation) -> str:
    """What ran, for people: the tool, with its node if the caller named it, or the kind of the operation."""
    tool, node_id = getattr(operation, "tool", None), getattr(operation, "node_id", None)
    if tool is None:
        return type(operation).__name__.lower()
    return f"{node_id}.{tool}" if node_id else str(tool)


def _retrieve(asking: asyncio.Task[Any]) -> None:
    """Take the error of a question that nobody waits for any more."""
    if not asking.cancelled():
        asking.exception()


def _too_late(operation: Operation) -> RrextError:
    """The error of a call for a pipeline that ends, as if it had ended already."""
    pipe_id = getattr(operation, "pipe_id", None)
    if pipe_id is not None:
        return PipeNotOpen.of(pipe_id)
    return TaskNotRegistered("Your pipeline is not running: it has ended", hint="execute it first", data={"near": []})


class Worker:
    """A worker process with the calls that it has not answered. On the loop's thread."""

    __slots__ = (
        "_asked", "_by_number", "_caller_numbers", "_cancelled", "_connections", "_gaps", "_home", "_host",
        "_is_told_to_end", "_loop", "_messages", "_overdue", "_questions", "_reads", "_sink", "_waiting", "begun", "calls",
        "ended", "excess", "expects_end", "gate", "is_over", "is_used", "link", "next_look", "number", "outbox", "ran", "ready",
        "task",
    )  # fmt: skip

    def __init__(self, number: int, link: WorkerLink, host: Host, home: Home) -> None:
        self.number = number
        self.link = link
        self.calls: dict[int, Routed] = {}
        """The calls that the worker has, and nobody has answered."""
        self.task: RemoteTask | None = None
        self.expects_end = False
        """Whether it ends in order."""
        self.excess: Excess | None = None
        """The use of memory for which it was killed, and in `ran` the calls that it had then."""
        self.ran: list[str] = []
        self._is_told_to_end = False
        self.is_over = False
        self.ready: asyncio.Future[None] = host.loop.create_future()
        self.ended: asyncio.Future[None] = host.loop.create_future()
        self.gate = CallGate(host)
        self._host = host
        self._loop = host.loop
        self._home = home
        self._messages = HopMessages(host.limits, self._take)
        self._sink = link.sink(host.loop)
        self.outbox = Outbox(self._sink, host.limits.outbox_bytes, host.loop, self._send_waiting)
        self._waiting: dict[int, Call] = {}
        """Calls until the process has read what is on its way, by number. One that is cancelled leaves nothing behind."""
        self._connections: dict[str, HopConnection] = {}
        """Those that may have something in the worker. One stays until its end."""
        self._by_number: dict[int, Caller] = {}
        self._caller_numbers = count()
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self.is_used = True
        """Whether something changed in the worker since the last look at its status."""
        self.next_look = 0.0
        """The time of the clock at which its status is looked at again, though nothing was called."""
        self._overdue: asyncio.Task[Any] | None = None
        """The question for the status that was not answered in time."""
        self._cancelled: dict[int, Routed] = {}
        """Calls that were cancelled, until the worker has answered too: an `open` may have a pipe, which nobody would close."""
        self._gaps: dict[tuple[str, int], PipeGap] = {}
        """Connection and pipe → the first write that was stopped here; the process may have ended that write before the stop
        came. Requests behind that write are answered as those of an object that failed.
        """
        self._questions: dict[int, dict[int, asyncio.Task[None]]] = {}
        """The number of a call → that of each question that waits for its caller: a call may ask several times at once."""
        self.begun = BegunEvents()
        self._reads = True
        link.watch(host.loop, self)

    # -- out

    def run(self, call: Call, *, batched: bool = False) -> None:
        """Give a call to the worker; with `batched` it leaves at the next `flush`."""
        if self.expects_end:
            call.fail(_too_late(call.operation))
            return
        if self.is_over:
            call.fail(self._error_for(call.caller, sent=False))
            return
        number = self._messages.next_number()
        known = self._connections.get(call.caller.connection_id) or self._note_connection(call.caller.connection_id)
        credit = None if call.outlet is None else known.credit or self._owe(known, call.caller.connection_id, call.outlet)
        routed = call.work = Routed(self, number, call, credit)
        if not call.unsettled:  # cancelled meanwhile
            return
        self.calls[number] = routed
        self.is_used = True
        if self._waiting or self.outbox.is_full:
            self._waiting[number] = call
            self.outbox.want_room()
        else:
            self._send(number, call, known, batched=batched)

    def _send_waiting(self) -> None:
        waiting = self._waiting
        while waiting and not self.outbox.is_full:
            number, call = next(iter(waiting.items()))
            del waiting[number]
            if isinstance(call.answer, Withdrawn):
                self._notify_stopped(number, call, call.answer.reason)
            else:
                connection = call.caller.connection_id
                self._send(number, call, self._connections.get(connection) or self._note_connection(connection))
        if waiting:
            self.outbox.want_room()

    def _send(self, number: int, call: Call, known: HopConnection, *, batched: bool = False) -> None:
        operation = call.operation
        left = operation.timeout
        if left is not None and call.received is not None:
            left -= self._host.clock.now() - call.received
        if not self.outbox.is_broken and (routed := self.calls.get(number)) is not None:
            routed.begin = self._sink.written + self.outbox.size
        caller = call.caller
        of = known.number if caller is known.latest else self._number_of(caller, known)
        try:
            pieces = self._messages.operation(
                number, operation, of, call.request_id, left, call.data, has_outbox=call.outlet is not None
            )
        except RecursionError:  # it was read where less of the stack was in use
            del self.calls[number]
            call.fail(InvalidArguments.at("/input", "is nested too deeply"))
            return
        if batched:
            self.outbox.append(pieces)
        else:
            self.outbox.send(pieces)

    def _owe(self, known: HopConnection, connection: str, outlet: Outlet) -> HopCredit:
        """The credit of a connection at its first call whose answer waits in an outlet."""

        def give(nbytes: int) -> None:
            self.order("worker_credit", {"connection": connection, "nbytes": nbytes})

        known.credit = HopCredit(outlet, self._host, give)
        return known.credit

    def _cancel_questions(self, number: int) -> None:
        """Forget the questions of a call that was answered."""
        for asking in self._questions.pop(number, {}).values():
            asking.cancel()

    def flush(self) -> None:
        """Write what was batched."""
        self.outbox.flush()

    def cancel(self, number: int, reason: CancelReason) -> None:
        """Stop a call that was answered; its answer from the worker is dropped."""
        routed = self.calls.pop(number, None)
        if routed is None:
            return
        call, operation = routed.call, routed.call.operation
        if number in self._waiting:
            if isinstance(operation, Write | Close):  # the process hears of it in its turn
                self._waiting[number] = Call(type(operation)(pipe_id=operation.pipe_id), Withdrawn(reason), call.caller)
            else:
                del self._waiting[number]
        else:
            self._cancel_questions(number)
            self._cancelled[number] = routed
            call.data = None
            if isinstance(operation, Write):
                key = call.caller.connection_id, operation.pipe_id
                known = self._gaps.get(key)
                if known is None or number < known.number:
                    self._gaps[key] = PipeGap(number, reason)
                if len(self._gaps) > MAX_GAPS:
                    del self._gaps[next(iter(self._gaps))]
            self._notify_stopped(number, call, reason)

    def withdraw(self, operation: Operation, caller: Caller, reason: CancelReason) -> None:
        """Tell of a `write` or a `close` that was stopped before it could begin, behind what waits to leave."""
        if not (self.expects_end or self.is_over):
            self._waiting[self._messages.next_number()] = Call(operation, Withdrawn(reason), caller)
            self._send_waiting()

    def _notify_stopped(self, number: int, call: Call, reason: CancelReason) -> None:
        """Let the process stop a call. A `write` or a `close` that never left has its effect on the pipe all the same."""
        operation, given = call.operation, {"call": number, "reason": reason}
        if isinstance(call.answer, Withdrawn) and isinstance(operation, Write | Close):
            given |= {"caller": self._caller(call.caller), "pipe": operation.pipe_id, "closes": isinstance(operation, Close)}
        self.order("worker_cancel", given)

    def cancel_all(self, error: Callable[[], RrextError]) -> None:
        """Answer all calls with an error, and stop them."""
        for routed in list(self.calls.values()):
            routed.call.cancel("cancelled", error())
        self._waiting.clear()

    def order(self, command: str, arguments: Any, tail: bytes | None = None) -> None:
        """Send an order that has no answer."""
        if not self.is_over:
            self.outbox.send(self._messages.order(command, arguments, tail))

    async def ask(self, command: str, arguments: Any, tail: bytes | None = None) -> Any:
        """Send an order, and return the body of its answer. Raises the error of the worker, and that of a lost one."""
        if self.is_over:
            raise self.error()
        number = self._messages.next_number()
        answer = self._asked[number] = self._loop.create_future()
        self.outbox.send(self._messages.order(command, arguments, tail, number))
        try:
            return msgspec.json.decode(await answer)
        finally:
            self._asked.pop(number, None)

    async def ask_living(self, command: str, arguments: Any, tail: bytes | None = None) -> Any:
        """`ask`, for what may take long. Raises `Unavailable` if the process is stopped or stuck."""
        asking = self._loop.create_task(self.ask(command, arguments, tail))
        asking.add_done_callback(_retrieve)
        try:
            while not (await asyncio.wait([asking], timeout=ANSWER_PATIENCE))[0]:
                if await self.is_silent():
                    raise await self.silence()
            return asking.result()
        finally:
            asking.cancel()

    async def status(self, patience: float = ANSWER_PATIENCE) -> Any:
        """What the process tells of its task; None if it does not in time, or has not answered an earlier question."""
        asking = self._overdue
        if asking is None:
            asking = self._loop.create_task(self.ask("worker_status", {}))
            asking.add_done_callback(_retrieve)
        elif patience <= ANSWER_PATIENCE:
            return None
        done, _ = await asyncio.wait([asking], timeout=patience)
        if done:
            return asking.result()
        if self._overdue is None:
            self._overdue = asking
            asking.add_done_callback(self._answers_again)
        return None

    def _answers_again(self, _: object) -> None:
        self._overdue = None

    async def is_silent(self) -> bool:
        """Whether the process does not answer: it was stopped, or is stuck for some seconds."""
        if self.is_over:
            return False
        try:
            return await self.link.is_stopped() or await self.status(SILENCE) is None
        except RrextError:
            return False  # the process has ended: its calls are answered with that error

    async def silence(self) -> Unavailable:
        """The error of what a silent process does not answer."""
        what = "The process of a pipeline" if self.task is None else f'The process of pipeline "{self.task.name}"'
        why = "it was stopped" if await self.link.is_stopped() else "it is stuck"
        return Unavailable(f"{what} does not answer: {why}", hint="terminate the pipeline, or ask again later")

    async def cut_off(self, call: Call) -> None:
        """Answer a call with an error when the process is silent; return when the call was answered."""
        while not call.settled:
            if await self.is_silent():
                call.cancel("cancelled", await self.silence())
            else:
                await asyncio.sleep(ANSWER_PATIENCE)

    @property
    def is_called(self) -> bool:
        """Whether it has calls, or some wait to be passed on to it."""
        return bool(self.calls) or self.gate.is_used

    def caller_of(self, caller: int) -> Caller | None:
        """The caller of a number."""
        return self._by_number.get(caller)

    @property
    def connections(self) -> Iterable[str]:
        """The connections that may have something in the worker."""
        return self._connections

    def _note_connection(self, connection_id: str) -> HopConnection:
        known = self._connections[connection_id] = HopConnection()
        self._home.note_connection(self, connection_id)
        return known

    def _caller(self, caller: Caller) -> int:
        """The number of a caller, which the worker knows."""
        return self._number_of(
            caller, self._connections.get(caller.connection_id) or self._note_connection(caller.connection_id)
        )

    def _number_of(self, caller: Caller, known: HopConnection) -> int:
        number = known.numbers.get(caller)
        if number is None:
            number = self._announce(caller, known.numbers)
        else:
            known.numbers.move_to_end(caller)
        known.latest, known.number = caller, number
        return number

    def _announce(self, caller: Caller, numbers: OrderedDict[Caller, int]) -> int:
        """Tell the worker a caller under a new number, in place of the one of its connection that called least recently.

        The number is new, because an old one may be in a question that is on its way.
        """
        number = next(self._caller_numbers)
        oldest = numbers.popitem(last=False)[1] if len(numbers) >= MAX_CALLERS else None
        if oldest is not None:
            del self._by_number[oldest]
        numbers[caller] = number
        self._by_number[number] = caller
        self.outbox.append(self._messages.order("worker_caller", {"number": number, "caller": caller, "instead": oldest}))
        return number

    def disconnect(self, connection_id: str) -> None:
        """Free what a connection has in the worker."""
        gone = self._connections.pop(connection_id, None)
        if gone is None:
            return
        for number in gone.numbers.values():
            del self._by_number[number]
        for number, call in list(self._waiting.items()):
            if call.caller.connection_id == connection_id:
                del self._waiting[number]
        for key in [key for key in self._gaps if key[0] == connection_id]:
            del self._gaps[key]
        if gone.credit is not None:
            gone.credit.end()
            for calls in (self.calls, self._cancelled):  # the worker forgets its answers too
                for number in [number for number, routed in calls.items() if routed.credit is gone.credit]:
                    del calls[number]
        self.is_used = True
        self.order("worker_forget", {"connection": connection_id})

    # -- in

    def readable(self) -> None:
        """Take what the worker has sent."""
        framer = self._messages.framer
        try:
            count = self.link.receive(framer.get_buffer())
        except BlockingIOError:
            return
        if count == 0:
            self._input_ended()
        elif any(event is not None for event in framer.buffer_updated(count)):
            log.error("worker %d sends what is no message: it is killed", self.number)
            self.kill()

    def _input_ended(self) -> None:
        if self._reads:
            self._reads = False
            self.link.stop_reading()
            self._loop.call_later(EXIT_PATIENCE, self.kill)

    def _take(self, message: Incoming, body: bytes, tail: bytes | None, nbytes: int) -> None:
        number = message.request_seq
        try:
            if not number:
                self._take_event(message.event, body, tail, nbytes)
                return
            routed = self.calls.pop(number, None) or (self._cancelled.pop(number, None) if self._cancelled else None)
            if routed is not None:
                self.is_used = True
                call = routed.call
                if self._questions:
                    self._cancel_questions(number)
                error = None if message.success else message.error
                if self._gaps:
                    body, error = self._behind_gap(number, call, body, error)
                if error is not None:
                    call.fail(error)
                elif not call.succeed(body, tail) and isinstance(call.operation, Open):
                    self._free(call, body)
                if routed.credit is not None:
                    routed.credit.took(nbytes)
            elif (answer := self._asked.get(number)) is not None and not answer.done():
                if message.success:
                    answer.set_result(body)
                else:
                    answer.set_exception(message.error)
        except Exception:
            log.exception("a bug of rrext, in a message of worker %d", self.number)

    def _behind_gap(self, number: int, call: Call, body: bytes, error: RrextError | None) -> tuple[bytes, RrextError | None]:
        """The answer of a request as the client has to read it: with a gap in front of it, its object has failed."""
        operation = call.operation
        pipe_id: Any = getattr(operation, "pipe_id", None)
        key = call.caller.connection_id, pipe_id
        gap = self._gaps.get(key)
        if gap is None or number < gap.number:
            return body, error
        if number == gap.number:
            if error is None or error.code not in ("cancelled", "tool_timeout"):  # the process did not stop it
                self.order("worker_missed", {"caller": self._caller(call.caller), "pipe": pipe_id, "reason": gap.reason})
        elif not isinstance(operation, Close):
            error = error or PipeFailed.of(pipe_id, stopped_write(gap.reason))
        elif error is None:
            del self._gaps[key]
            if _decode_failed(body).error is None:
                body = with_error(body, stopped_write(gap.reason))
        return body, error

    def _take_event(self, name: str, body: bytes, tail: bytes | None, nbytes: int) -> None:
        if (handler := self._handlers.get(name)) is not None:
            handler(self, body, tail)
        elif (pass_on := self._events_of_calls.get(name)) is not None:
            number = pass_on(self, name, body, tail)
            routed = self.calls.get(number) or self._cancelled.get(number)
            if routed is not None and routed.credit is not None:
                routed.credit.took(nbytes)

    def _feed_of(self, number: int) -> Feed | None:
        routed = self.calls.get(number)
        return None if routed is None else routed.call.feed

    def _free(self, call: Call, opened: bytes) -> None:
        """Close the pipe of an `open` that was cancelled while its answer was on its way."""
        if call.caller.connection_id in self._connections:  # the end of a connection closes all its pipes
            pipe_id = msgspec.json.decode(opened)["pipe_id"]
            self.run(Call(Close(pipe_id=pipe_id), DroppedAnswer(), call.caller))

    def _is_ready(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    def _on_event(self, body: bytes, tail: bytes | None) -> None:
        event = _decode_event(body)
        self.begun.note(event)
        self._home.publish(event)

    def _on_progress(self, event: str, body: bytes, tail: bytes | None) -> int:
        about = _decode_about(body)
        if (feed := self._feed_of(about.request)) is not None:
            feed.progress(about.progress, about.total, about.message)
        return about.request

    def _on_call_event(self, event: str, body: bytes, tail: bytes | None) -> int:
        given = msgspec.json.decode(body)
        number: int = given.pop("request")
        if (feed := self._feed_of(number)) is not None:
            feed.call_event(given)
        return number

    def _on_chunk(self, event: str, body: bytes, tail: bytes | None) -> int:
        about = _decode_about(body)
        if (feed := self._feed_of(about.request)) is not None:
            feed.chunk(about.index, bytes(about.chunk), tail)
        return about.request

    def _on_question(self, event: str, body: bytes, tail: bytes | None) -> int:
        given = msgspec.json.decode(body)
        number: int = given.pop("request")
        question = number_of(event, given)
        if given.get("withdrawn"):
            if (asking := self._questions.get(number, {}).pop(question, None)) is not None:
                asking.cancel()
        elif (routed := self.calls.get(number)) is not None and (feed := routed.call.feed) is not None:
            self.gate.leave(routed.call)
            asking = self._host.spawn(self._ask(feed, event, question, given), "a question")
            self._questions.setdefault(number, {})[question] = asking
        return number

    async def _ask(self, feed: Feed, event: str, question: int, body: dict[str, Any]) -> None:
        try:
            answer = await feed.ask(event, body)
        except RrextError as error:  # the client is asked too much at once
            log.debug("%s", error.message)
            answer = False if event == "rrext_permission" else {"action": "cancel"}
        self.order(*answering(event, question, answer))

    def _on_done(self, body: bytes, tail: bytes | None) -> None:
        given = msgspec.json.decode(body)
        if (routed := self.calls.get(given["request"])) is not None:
            routed.call.done = given["done"]

    def _on_looked(self, body: bytes, tail: bytes | None) -> None:
        """Take the status before the event that changed it."""
        if self.task is not None:
            self.task.take_statuses(msgspec.json.decode(body))

    def _on_retired(self, body: bytes, tail: bytes | None) -> None:
        given = msgspec.json.decode(body)
        self._home.task_retired(self, given["status"], given["totals"])

    def _on_ended(self, body: bytes, tail: bytes | None) -> None:
        given = msgspec.json.decode(body)
        self._home.task_ended(self, given["reason"], given["status"])

    _events_of_calls: ClassVar[dict[str, Callable[[Worker, str, bytes, bytes | None], int]]] = {
        "rrext_progress": _on_progress,
        "rrext_chunk": _on_chunk,
        "rrext_call": _on_call_event,
        **dict.fromkeys(QUESTIONS, _on_question),
    }
    """Event → what passes it on, and returns the number of the call."""
    _handlers: ClassVar[dict[str, Callable[[Worker, bytes, bytes | None], None]]] = {
        "worker_event": _on_event,
        "worker_paces": lambda self, body, tail: self.order("worker_go_on", {}),
        "worker_ask": lambda self, body, tail: self._home.asked(self, body, tail),
        "worker_ask_cancelled": lambda self, body, tail: self._home.ask_cancelled(self, msgspec.json.decode(body)["ask"]),
        "worker_done": _on_done,
        "worker_sources": lambda self, body, tail: self._home.note_sources(msgspec.json.decode(body)["paths"]),
        "worker_looked": _on_looked,
        "worker_retired": _on_retired,
        "worker_ended": _on_ended,
        "worker_ready": lambda self, body, tail: self._is_ready(),
    }

    # -- the end

    async def stop(self, seconds: float) -> None:
        """End the process, within `seconds`; then it is killed."""
        self.expects_end = True
        if not self._is_told_to_end:
            self._is_told_to_end = True
            self.order("shutdown", {})
        if not self.is_over:
            await asyncio.wait([self.ended], timeout=seconds)
        if not self.is_over:
            log.warning("worker %d did not end in time: it is killed", self.number)
            self.kill()
            await asyncio.wait([self.ended], timeout=seconds)

    def kill(self) -> None:
        """Kill the process and its descendants."""
        self.link.signal_group(signal.SIGKILL)

    def note_excess(self, excess: Excess) -> None:
        """Note the use of memory for which the process is killed with all that it started, and what ran."""
        self.excess = excess
        self.ran = list(dict.fromkeys(_name_of(each.call.operation) for each in self.calls.values()))[:MAX_RAN]

    def error(self, *, shows_stderr: bool = True) -> RrextError:
        """The error of calls that the process leaves without an answer."""
        if self.expects_end:
            return Cancelled("cancelled: the pipeline was terminated")
        link, name = self.link, None if self.task is None else self.task.name
        words = last_words(link.stderr, link.exit_code, self._home.redacted) if shows_stderr else None
        return process_lost(name, link.how, link.exit_code, words, self._excess_data(shows_ran=shows_stderr))

    def _excess_data(self, *, shows_ran: bool) -> dict[str, Any] | None:
        """The use of memory for which it was killed, for `data` of an error."""
        if self.excess is None:
            return None
        ran = {"ran": self.ran} if shows_ran else {}
        name = "task_memory" if self.excess.maximum == self._host.limits.task_memory else "resources.memory"
        return {"limit": name, "maximum": self.excess.maximum, "used": self.excess.used, **ran}

    @property
    def memory_limit(self) -> int:
        """The bytes that it may use: the least of the operator's and its pipeline's; 0 for any number."""
        given = (self._host.limits.task_memory, 0 if self.task is None else self.task.memory)
        return min(filter(None, given), default=0)

    def wrote_stderr(self, text: bytes) -> None:
        """Pass on what the process wrote to stderr."""
        self._home.write_stderr(self, text)

    def exited(self) -> None:
        """Take the answers that were written before the end, and fail the other calls."""
        while self._reads and self.link.has_input:
            self.readable()
        if self._reads:
            self._reads = False
            self.link.stop_reading()
        self.is_over = True
        left = self._sink.left
        self.link.close()
        self.outbox.break_off()
        self._home.lost(self)
        calls = list(self.calls.values())
        self.calls.clear()
        self._cancelled.clear()
        self._waiting.clear()
        for known in self._connections.values():
            if known.credit is not None:
                known.credit.end()
        for routed in calls:
            routed.call.fail(self._error_for(routed.call.caller, sent=routed.begin < left))
        for answer in list(self._asked.values()):
            if not answer.done():
                answer.set_exception(self.error())
        self._is_ready()
        self.ended.set_result(None)
        if self.expects_end:
            self.task = None  # it has the whole pipeline, and leads back here

    def _error_for(self, caller: Caller, *, sent: bool) -> RrextError:
        """The error of a call for its caller, which tells whether a part of the call may have left for the process. What the
        process wrote last is for those who are trusted or loaded the pipeline.
        """
        owner = None if self.task is None else self.task.owner
        error = self.error(shows_stderr=caller.trusted or (owner is not None and owner == caller.user_id))
        if isinstance(error, TaskLost):
            error.data["sent"] = sent
        return error


class WorkerLink(Protocol):
    """The process of a worker as its server reaches it: on this machine it is a `WorkerProcess`. On the loop."""

    pid: int
    """Its number, on the machine where it runs."""
    mark: int
    """The mark of all that it starts on this machine; 0 if there is none."""
    is_here: bool
    """Whether it runs on this machine, which looks at its memory then."""
    node_number: str
    """The number of the node where it runs; empty on this machine."""
    stderr: Stderr

    def sink(self, loop: asyncio.AbstractEventLoop) -> LinkSink:
        """Where bytes for it are written. `close` ends it."""
        ...

    def watch(self, loop: asyncio.AbstractEventLoop, worker: LinkEvents) -> None:
        """Tell what comes from the process, and its end, from now on."""
        ...

    def receive(self, buffer: memoryview) -> int:
        """Read bytes that have arrived; 0 at the end. Raises `BlockingIOError` when there are none."""
        ...

    @property
    def has_input(self) -> bool:
        """Whether bytes wait to be read, or their end."""
        ...

    def stop_reading(self) -> None:
        """Tell no more of bytes."""
        ...

    def bound(self, memory: int) -> None:
        """Limit the memory of the process with its descendants, in bytes. The engine watches the processes of this machine."""
        ...

    async def is_stopped(self) -> bool:
        """Whether a signal, or a debugger, has stopped it; False where nobody knows."""
        ...

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and its descendants, but for those in sessions of their own."""
        ...

    @property
    def how(self) -> str:
        """How it ended, for a message."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Its exit code; that of a killed one is the number of the signal, below zero. None if nobody saw it."""
        ...

    def close(self) -> None:
        """Let go of it. It has ended."""
        ...


class LinkSink(Sink, Protocol):
    """Where bytes for a worker are written."""

    written: int
    """The bytes that were written."""

    @property
    def left(self) -> int:
        """The bytes that may have left this process: at least all that `written` counts."""
        ...


class LinkEvents(Protocol):
    """Who hears of a process: its `Worker`. On the loop."""

    def readable(self) -> None:
        """Bytes have arrived, or their end."""
        ...

    def wrote_stderr(self, text: bytes) -> None:
        """The process wrote something to stderr."""
        ...

    def note_excess(self, excess: Excess) -> None:
        """The process is killed, because it uses too much memory with all that it started."""
        ...

    def exited(self) -> None:
        """The process has ended, and its stderr was told."""
        ...


class Home(Protocol):
    """The engine of a worker's calls, which hears what happens to its task."""

    def note_connection(self, worker: Worker, connection_id: str) -> None:
        """The worker has something of a connection from now on."""
        ...

    def asked(self, worker: Worker, body: bytes, tail: bytes | None) -> None:
        """Do what a tool of the worker asks of other pipelines."""
        ...

    def ask_cancelled(self, worker: Worker, number: int) -> None:
        """Stop that."""
        ...

    def task_retired(self, worker: Worker, status: dict[str, Any], totals: dict[str, int]) -> None:
        """The task ends: it takes no more calls."""
        ...

    def task_ended(self, worker: Worker, reason: Any, status: dict[str, Any]) -> None:
        """The task has ended."""
        ...

    def note_sources(self, paths: list[str]) -> None:
        """Note the files of the operator's code that the worker has loaded."""
        ...

    def publish(self, event: Any) -> None:
        """Publish an event."""
        ...

    def write_stderr(self, worker: Worker, text: bytes) -> None:
        """Write what the worker wrote to stderr."""
        ...

    def redacted(self, text: str) -> str:
        """A text of stderr without secrets."""
        ...

    def lost(self, worker: Worker) -> None:
        """The process has ended."""
        ...
