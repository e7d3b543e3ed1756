"""The gate between the server and a worker: calls of users on a network pass while there is room for their results.

A result that a worker has sent is in the server until its client has read it, and a client over HTTP has a connection for each
of its calls. So the server counts what comes back, and lets pass what it has room for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rrext.engine.host.large_results import learnt_size
from rrext.engine.host.places import FREE, HeldPlace, Place, Places
from rrext.engine.interface.operations import CallTool, Tool
from rrext.errors import RrextError

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import AnswerSink, Call
    from rrext.tools.context import CancelReason

MAX_LARGE_TOOLS: Final = 1024
"""Tools of a worker whose results are known to be large; beyond them the one that was called least recently is forgotten."""

Key: TypeAlias = tuple[str, Any]
"""A user and a tool."""


class GatedCall:
    """A call of a worker between the gate and its answer: any answer, also a cancel, gives its place and its room back."""

    __slots__ = ("_answer", "_gate", "_pass", "call", "expected", "key", "place", "waiting")

    def __init__(self, gate: CallGate, call: Call, key: Key, pass_on: Callable[[Call], object]) -> None:
        self._gate = gate
        self._answer: AnswerSink = call.answer
        self._pass = pass_on
        self.call = call
        self.key = key
        self.expected = 0
        self.place: Place | HeldPlace = FREE
        self.waiting: asyncio.Task[None] | None = None
        call.answer = self

    def pass_on(self) -> None:
        """Give the call to the worker."""
        self._pass(self.call)

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self._answer.succeed(call, body, tail)
        self._gate.answered(self, len(body) + len(tail or b""))

    def fail(self, call: Call, error: RrextError) -> None:
        self._answer.fail(call, error)
        self._gate.answered(self, None)

    # as what runs, until the worker has it

    def stop(self, reason: CancelReason) -> None:
        """Wait no longer: the call was answered."""
        if self.waiting is not None:
            self.waiting.cancel()

    def stop_inner(self, number: int) -> None:
        """Nothing runs within a call that waits."""

    def overstay(self) -> None:
        """Nothing runs here."""


class CallGate:
    """The limit of the calls that a worker has of one user and one tool at once: the places of its pipeline. When the first of
    these calls returns, the gate knows the probable size of the other results. A call on a pipe passes at once: later requests
    on the pipe must not overtake the call, and the outbox of the connection bounds its results. On the loop.
    """

    __slots__ = ("_at_once", "_gated", "_host", "_places", "_sizes")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._at_once = host.limits.threads
        self._gated: dict[Call, GatedCall] = {}
        """The calls that have a place, or wait for one."""
        self._places: dict[Key, Places] = {}
        self._sizes: dict[Any, int] = {}
        """Tool → the size that its result will probably have, if it is large."""

    @staticmethod
    def is_for(call: Call) -> bool:
        """Whether a call may have to wait: that of a tool, for a user whose connections share a limit of memory."""
        operation = call.operation
        is_counted = call.caller.counts_for is not None and call.outlet is not None
        return is_counted and isinstance(operation, Tool | CallTool) and operation.pipe_id is None

    @property
    def is_used(self) -> bool:
        """Whether calls have a place, or wait for one."""
        return bool(self._gated)

    def run(self, call: Call, pass_on: Callable[[Call], object]) -> None:
        """Pass a call on, now or when there is room for its result."""
        operation, user = call.operation, call.caller.counts_for
        assert isinstance(operation, Tool | CallTool)
        assert user is not None
        key = user, _tool_of(operation)
        gated = self._gated[call] = GatedCall(self, call, key, pass_on)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = Places(self._at_once)
        gated.place = places.take(call.caller)
        if gated.place.when_granted(lambda: self._begin(gated)):
            call.work = gated
        else:
            self._begin(gated)

    def _begin(self, gated: GatedCall) -> None:
        key, call, results = gated.key, gated.call, self._host.results
        size = self._sizes.get(key[1], 0)
        assert call.outlet is not None
        if not size or (results.has_room(call.outlet, size, key[0]) and results.take(call.outlet, size, gated, key[0])):
            gated.pass_on()
        else:
            call.work = gated
            gated.waiting = self._host.spawn(self._wait(gated, size), f"room for the result of {call.name}")

    async def _wait(self, gated: GatedCall, size: int) -> None:
        call, results, user = gated.call, self._host.results, gated.key[0]
        assert call.outlet is not None
        try:
            while call.unsettled and not results.take(call.outlet, size, gated, user):
                await results.until_room(call.outlet, size, user)
        except RrextError as error:
            call.fail(error)
            return
        if call.unsettled:
            gated.pass_on()

    def answered(self, gated: GatedCall, size: int | None) -> None:
        """Give back the room of a call, and its place. `size` is that of a result."""
        outlet, key = gated.call.outlet, gated.key
        assert outlet is not None
        if gated.expected:
            self._host.results.give_back(outlet, gated)
        if size is not None:
            self._learn(key[1], size)
            self._host.results.note(outlet, size, key[0])
        self.leave(gated.call)

    def leave(self, call: Call) -> None:
        """Give the place of a call back, if it has one or waits for one: it was answered, or waits for a person."""
        gated = self._gated.pop(call, None)
        if gated is None:
            return
        gated.place.release()
        places = self._places.get(gated.key)
        if places is not None and not (places.used or places.waiting):
            del self._places[gated.key]

    def _learn(self, tool: Any, size: int) -> None:
        size = learnt_size(self._sizes.pop(tool, 0), size)
        if size:
            self._sizes[tool] = size
            if len(self._sizes) > MAX_LARGE_TOOLS:
                del self._sizes[next(iter(self._sizes))]


def _tool_of(operation: Tool | CallTool) -> Any:
    if isinstance(operation, Tool):
        return operation.node_id, operation.tool
    return operation.call_ref or operation.name
