"""The server's connection to a worker, on the worker's side: requests of many callers, and orders of the server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from rrext.engine.events.records import Filter, ObjectEnded
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.operations import FEEDS, Close, Fed, Operation, Write
from rrext.errors import Cancelled, RrextError, error_from_wire
from rrext.server.call_feed import SessionFeed
from rrext.server.commands import OWN_COMMANDS
from rrext.server.session import Session
from rrext.tasks.hop import HopWindow, LargeTurns
from rrext.tasks.settings import ROUTE
from rrext.tasks.worker_engine import WorkerEngine
from rrext.threads import note_dropped
from rrext.tools.context import CancelReason
from rrext.wire.messages import Request


class WorkerSession(Session):
    """A session whose requests name their callers by number. The server told each caller before."""

    __slots__ = ("_callers", "_numbers", "_numbers_of", "_subscriptions", "_turns", "_windows")

    commands: ClassVar[Mapping[str, Callable[[Any, Request], None]]]

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._callers: dict[int, Caller] = {}
        self._numbers: dict[Caller, int] = {}
        self._numbers_of: dict[str, set[int]] = {}
        """Connection → the numbers of its callers."""
        self._windows: dict[str, HopWindow] = {}
        """By connection."""
        self._turns = LargeTurns(self.outbox, self.engine.host)
        self._subscriptions: list[Any] = []

    @property
    def engine(self) -> WorkerEngine:
        """The engine of the worker."""
        assert isinstance(self._engine, WorkerEngine)
        return self._engine

    def number_of(self, caller: Caller) -> int | None:
        """The number under which the server knows a caller."""
        return self._numbers.get(caller)

    def _admit(self, request: Request, shape: type[Operation], received: float | None = None) -> Call:
        arguments = request.arguments
        number, request_id, left, has_outbox = arguments.pop(ROUTE)
        operation: Any = msgspec.convert(arguments, shape)
        caller = self._callers[number]
        outlet: HopWindow | None = None
        if has_outbox:
            outlet = self._windows.get(caller.connection_id) or self._opened_window(caller.connection_id)
        call = Call(
            operation,
            self,
            caller,
            request_id,
            request.command,
            request.tail,
            outlet=outlet,
            key=request.id,
        )
        if left is not None:
            call.received = self.now() - (operation.timeout - left)
        if isinstance(operation, Fed) and not FEEDS.isdisjoint(arguments) and operation.is_fed and request.id is not None:
            call.feed = SessionFeed(outlet or self, request.id)
        self._inflight.add(call, request.nbytes, counts=shape.counts)
        return call

    def _opened_window(self, connection: str) -> HopWindow:
        window = self._windows[connection] = HopWindow(self, self._loop, self._turns)
        return window

    def _answer(self, pieces: Sequence[bytes], call: Call | None = None) -> None:
        outlet: Any = None if call is None else call.outlet  # else a `HopWindow`
        if outlet is None or outlet.has_room_for(pieces):
            Session._answer(self, pieces)  # `super()` would be made for each answer
        else:
            outlet.keep(pieces)

    def end_with(self) -> None:
        for window in self._windows.values():
            window.open()
        super().end_with()

    # -- orders of the server

    def _take_caller(self, request: Request) -> None:
        number, instead = request.arguments["number"], request.arguments["instead"]
        known = self._callers.pop(instead, None)
        if known is not None:
            self._numbers_of[known.connection_id].discard(instead)
            if self._numbers.get(known) == instead:
                del self._numbers[known]
        caller = self._callers[number] = msgspec.convert(request.arguments["caller"], Caller)
        self._numbers[caller] = number
        self._numbers_of.setdefault(caller.connection_id, set()).add(number)

    def _forget(self, request: Request) -> None:
        """Free what a connection has that ended."""
        connection = request.arguments["connection"]
        for number in self._numbers_of.pop(connection, ()):
            self._numbers.pop(self._callers.pop(number), None)
        if (window := self._windows.pop(connection, None)) is not None:
            note_dropped(self._loop, window.held)  # what is on the way was here
            window.break_off()
        self.engine.disconnect(connection)

    def _stop_call(self, request: Request) -> None:
        given = request.arguments
        reason: CancelReason = given["reason"]
        call = self._inflight.find(given["call"])
        if call is not None:
            call.cancel(reason, Cancelled())
        elif "pipe" in given:  # it never came
            pipe_id = given["pipe"]
            operation = Close(pipe_id=pipe_id) if given["closes"] else Write(pipe_id=pipe_id, data="")
            self.engine.withdraw(operation, self._callers[given["caller"]], reason)

    def _stop_inner(self, request: Request) -> None:
        given = request.arguments
        call = self._inflight.find(given["call"])
        if call is not None and call.work is not None:
            call.work.stop_inner(given["inner"])

    def _miss(self, request: Request) -> None:
        """Fail the object of a write that ended before the server's stop came."""
        given = request.arguments
        self.engine.fail_pipe(given["pipe"], self._callers[given["caller"]], given["reason"])

    def _give_credit(self, request: Request) -> None:
        window = self._windows.get(request.arguments["connection"])
        if window is not None:
            window.give(request.arguments["nbytes"])

    def _subscribe(self, request: Request) -> None:
        """Tell the server events of these kinds from now on, some with their data, and no others."""
        before, data = self._subscriptions, frozenset(request.arguments["data"])
        plain = frozenset(request.arguments["kinds"]) - data
        self._subscriptions = [
            self.engine.subscribe(Filter(kinds=kinds, data=kinds is data), self._send_event) for kinds in (plain, data) if kinds
        ]
        for subscription in before:
            subscription.cancel()

    def _send_event(self, event: Any) -> None:
        if isinstance(event, ObjectEnded):
            self.engine.notify("worker_looked", self._statuses())
        self.send(self.connection.event("worker_event", msgspec.json.encode(event)))

    def _go_on(self, request: Request) -> None:
        self.engine.go_on()

    def _take_answer(self, request: Request) -> None:
        given = request.arguments
        error = given.get("error")
        if error is not None:
            self.engine.answered(given["ask"], None, None, error_from_wire(*error))
        else:
            self.engine.answered(given["ask"], msgspec.json.encode(given["body"]), request.tail, None)

    def _load(self, request: Request) -> None:
        self._answer_later(request, self._loaded(request))

    async def _loaded(self, request: Request) -> dict[str, Any]:
        given = request.arguments
        text = given["pipeline"] if request.tail is None else request.tail
        engine = self.engine
        if "connections" in given:
            engine.use_connections(given["connections"])
        task = engine.load(text, **given["options"])
        task.is_restarted = given["isRestart"]
        return {
            "token": task.token,
            "publicToken": task.public_token,
            "name": task.name,
            "projectId": task.project_id,
            "source": task.source,
            "provider": task.provider,
            "description": task.description,
            "pipeline": task.pipeline,
            "offers": task.offers,
            "textType": task.text_type,
            "toolNames": task.tool_names,
            "unavailable": task.unavailable(engine.environment.redactor.text),
            "status": engine.status_of_all()[0],
            "memory": task.resources.memory,
        }

    def _answer_status(self, request: Request) -> None:
        self.answer_own(request, self._statuses())

    def _statuses(self) -> dict[str, Any]:
        return {"statuses": self.engine.status_of_all(), "totals": self.engine.totals_now()._asdict()}

    def _unload(self, request: Request) -> None:
        self._answer_later(request, self._unloaded(request.arguments["reason"], request.arguments["patience"]))

    async def _unloaded(self, reason: Any, patience: float) -> dict[str, Any]:
        await self.engine.unload_all(reason, patience)
        return {}

    def _answer_later(self, request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> None:
        async def answer() -> None:
            try:
                body = await work
            except RrextError as error:
                self.engine.environment.redactor.error(error)
                self.refuse(request, error)
            except Exception as error:
                self.refuse(request, error)
            else:
                self.answer_own(request, body)
            self.outbox.flush()

        self.engine.host.spawn(answer(), request.command)


_ORDERS: dict[str, Callable[[Any, Request], None]] = {
    "worker_caller": WorkerSession._take_caller,
    "worker_forget": WorkerSession._forget,
    "worker_cancel": WorkerSession._stop_call,
    "worker_cancel_inner": WorkerSession._stop_inner,
    "worker_missed": WorkerSession._miss,
    "worker_credit": WorkerSession._give_credit,
    "worker_subscribe": WorkerSession._subscribe,
    "worker_go_on": WorkerSession._go_on,
    "worker_answered": WorkerSession._take_answer,
    "worker_load": WorkerSession._load,
    "worker_status": WorkerSession._answer_status,
    "worker_unload": WorkerSession._unload,
}
WorkerSession.commands = {**OWN_COMMANDS, **_ORDERS}
WorkerSession.inline_commands = frozenset(("worker_caller", "worker_credit", "worker_go_on"))
WorkerSession.never_held = frozenset(WorkerSession.commands)
WorkerSession.with_tail = frozenset(("worker_load", "worker_answered"))
