"""The engine of a worker: one task; what belongs to other tasks is asked of the server."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.base_engine import EndReason
from rrext.engine.calls.object_calls import stopped_write
from rrext.engine.interface.call import ANONYMOUS, Call, Caller
from rrext.engine.interface.failures import internal_error
from rrext.engine.interface.operations import Close, Open, Operation, Tool, Write
from rrext.engine.local_engine import LocalEngine
from rrext.errors import RrextError, Unavailable

if TYPE_CHECKING:
    from rrext.engine.interface.totals import Totals
    from rrext.engine.tasks.task import Task
    from rrext.tasks.worker_session import WorkerSession
    from rrext.tools.context import CancelReason

PIPE_BITS: Final = 32
"""Bits of the number of a pipe or a call that count within a worker; those above are the number of the worker. Four thousand
million in each of two million workers fit into the whole numbers of a double."""


class TextType(Operation, frozen=True, kw_only=True):
    """Tell the MIME type of a text for a pipeline. → `{type}`"""


ASKED: Final[dict[str, type[Operation]]] = {kind.__name__: kind for kind in (Open, Write, Close, TextType)}
"""The operations that a worker asks of the server: a tool of its task calls another pipeline."""


class AskedBack:
    """The run of a call that the server has."""

    __slots__ = ("_engine", "_number")

    def __init__(self, engine: WorkerEngine, number: int) -> None:
        self._engine = engine
        self._number = number

    def stop(self, reason: CancelReason) -> None:
        self._engine.asked.pop(self._number, None)
        self._engine.notify("worker_ask_cancelled", {"ask": self._number})

    def stop_inner(self, number: int) -> None:
        """No caller knows of these."""

    def overstay(self) -> None:
        """Nothing runs here."""


class WorkerEngine(LocalEngine):
    """Runs one pipeline for a server, which it tells of the end of it. `number` is that of the worker, `session` its
    connection."""

    __slots__ = ("_numbers", "_when_told", "asked", "number", "session")

    def __init__(self, number: int, **options: Any) -> None:
        super().__init__(**options, first=(number << PIPE_BITS) + 1)
        self.number = number
        self.session: WorkerSession | None = None
        self.asked: dict[int, Call] = {}
        self.host.events.pace = self._pace
        self._when_told: Callable[[], object] = lambda: None
        self._numbers = count(1)

    def notify(self, name: str, body: dict[str, Any], tail: bytes | None = None) -> None:
        """Send the server an event. From any thread."""
        if self.session is not None:
            self.session.send(self.session.connection.event(name, msgspec.json.encode(body), tail))

    def note_done(self, call: Call, done: dict[str, Any]) -> None:
        """Tell the server, which answers a call that is stopped before this process knows of it."""
        super().note_done(call, done)
        self.notify("worker_done", {"request": call.key, "done": done})

    def _pace(self, action: Callable[[], object]) -> None:
        """Go on with the output of nodes when the server has told what it got: answers would wait behind all of it."""
        self._when_told = action
        self.notify("worker_paces", {})

    def go_on(self) -> None:
        """Take word that the server has told all events that were before the question. From any thread."""
        self.host.post(self._when_told)

    def use_connections(self, tables: dict[str, Any]) -> None:
        """Take the connections that the pipeline of this worker names, with their secrets."""
        from rrext.connections import Connections

        self.host.use(Connections.received(tables))

    # -- other pipelines

    def start(self, call: Call, *, alone: bool = False) -> bool:
        if type(call.operation) is not Tool and self._is_foreign(call.operation):
            self._ask_back(call)
            return False
        return super().start(call, alone=alone)

    def _is_foreign(self, operation: Operation) -> bool:
        match operation:
            case Open():
                return operation.token is not None and not self.has_token(operation.token)
            case Write() | Close():
                return operation.pipe_id >> PIPE_BITS != self.number
            case _:
                return isinstance(operation, TextType)

    def has_token(self, token: str) -> bool:
        """Whether this worker runs the pipeline of a token."""
        return any(task.token == token for task in self.tasks)

    def _ask_back(self, call: Call) -> None:
        session = self.session
        caller = None if session is None else session.number_of(call.caller)
        if caller is None:
            call.fail(Unavailable("the server does not know the connection of this call any more"))
            return
        number = next(self._numbers)
        self.asked[number] = call
        call.work = AskedBack(self, number)
        kind = type(call.operation).__name__
        self.notify("worker_ask", {"ask": number, "caller": caller, "operation": kind, "arguments": call.operation}, call.data)

    def answered(self, number: int, body: bytes | None, tail: bytes | None, error: RrextError | None) -> None:
        """Take the server's answer to a question."""
        call = self.asked.pop(number, None)
        if call is None:
            return
        if error is not None:
            call.fail(error)
        elif body is not None:
            call.succeed(body, tail)
        else:
            call.fail(internal_error())

    def fail_pipe(self, pipe_id: int, caller: Caller, reason: CancelReason) -> None:
        """Fail the object of a write that ended though the server had stopped it: what waits behind it must commit nothing."""
        pipe = self._pipes.get(pipe_id, caller.connection_id)
        if pipe is not None:
            pipe.fail_at(pipe.lock.enter(exclusive=True, first=True), stopped_write(reason))

    async def text_type(self, token: str, caller: Caller = ANONYMOUS) -> str:
        if self.has_token(token):
            return await super().text_type(token, caller)
        body, _ = await self.ask(TextType(token=token), caller)
        return str(msgspec.json.decode(body)["type"])

    def require_pipeline(self, token: str, caller: Caller) -> None:
        """Return: the server looked before it sent the call."""

    # -- what the server asks

    def status_of_all(self) -> list[dict[str, Any]]:
        """The status of the task, if it runs."""
        return [self._status_of(task) for task in self.tasks]

    def totals_now(self) -> Totals:
        """The numbers of the task."""
        return self.tasks.totals(len(self._pipes))

    async def unload_all(self, reason: EndReason, patience: float) -> None:
        """End the task."""
        for task in self.tasks:
            await self.unload(task, reason, patience)

    # -- the end of the task

    def _retire(self, task: Task) -> None:
        is_first, totals = not task.stopping, self.totals_now()._asdict()
        super()._retire(task)
        if is_first:
            self.notify("worker_retired", {"status": self._status_of(task), "totals": totals})

    async def unload(self, task: Task, reason: EndReason = "terminated", patience: float | None = None) -> None:
        await super().unload(task, reason, patience)
        self.notify("worker_ended", {"reason": reason, "status": self._status_of(task)})
