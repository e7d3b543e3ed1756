"""The unanswered requests of one connection, and their size."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import Close, Operation, Write
from rrext.errors import InvalidRequest, TooManyRequests
from rrext.limits import OPEN_RESERVE, REQUEST_COST, Limits
from rrext.wire.messages import Request


class DuplicateId(InvalidRequest):
    """The id of a request is in flight already. The error is answered without the id, which belongs to the first request."""


class HeldRequest(msgspec.Struct, frozen=True):
    """A request that waits for room in the outbox: its operation (None: a command of the session) and its arrival time.

    One that `is_withdrawn` was cancelled, and has its effect on the pipe at its turn: requests before it go first.
    """

    request: Request
    shape: type[Operation] | None
    received: float
    is_withdrawn: bool = False

    @property
    def counts(self) -> bool:
        """Whether the request counts against `max_inflight`."""
        return self.shape is not None and self.shape.counts


class InFlight:
    """The running calls, in two tables by request id, and the held requests.

    `calls` are those that count against `max_inflight`; a call without id is its own key. `held` waits for room in the
    outbox, in order; `waiting` are the `open` requests that wait until fewer are in flight. `leaving` are the
    calls that are out of their table, and not in the outbox yet. `answered_over` counts what was answered at once though the
    outbox was full.
    Requests come in on the thread that reads, one at a time; calls leave on any thread.
    """

    __slots__ = (
        "_held_bytes", "_held_calls", "_held_keys", "_large", "_waiting_bytes", "answered_over", "calls", "held", "leaving",
        "others", "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.calls: dict[Any, Call] = {}
        self.others: dict[Any, Call] = {}
        self.held: OrderedDict[Any, HeldRequest] = OrderedDict()
        self.waiting: OrderedDict[Any, HeldRequest] = OrderedDict()
        self._held_keys: dict[int | str, object] = {}
        """Request id → key in `held`."""
        self._held_bytes = 0
        self._held_calls = 0
        self._waiting_bytes = 0
        self.leaving: list[Call] = []
        self._large: dict[Call, int] = {}
        self.answered_over = 0

    def add(self, call: Call, nbytes: int, *, counts: bool) -> None:
        """Add a call that begins; `counts` says whether it counts against `max_inflight`."""
        table = self.calls if counts else self.others
        table[call if call.key is None else call.key] = call
        if nbytes > REQUEST_COST:
            self._large[call] = nbytes

    def remove(self, call: Call) -> None:
        """Remove an answered call."""
        key = call if call.key is None else call.key
        if self.calls.pop(key, None) is None:
            self.others.pop(key, None)
        if self._large:
            self._large.pop(call, None)

    def find(self, request_id: int | str) -> Call | None:
        """The running call with this id, or None."""
        return self.calls.get(request_id) or self.others.get(request_id)

    def hold(self, held: HeldRequest) -> None:
        """Add a request that waits for room."""
        key, request_id = object(), held.request.id
        self.held[key] = held
        if request_id is not None:
            self._held_keys[request_id] = key
        self._held_bytes += held.request.nbytes
        self._held_calls += held.counts

    def has_room_for_open(self, maximum: int) -> bool:
        """Whether one more `open` may begin; some of the places are kept from them."""
        return len(self.calls) + self._held_calls < maximum - maximum // OPEN_RESERVE

    def wait(self, held: HeldRequest, limits: Limits) -> None:
        """Add an `open` that waits until fewer requests are in flight. Raises `TooManyRequests` if too many wait already."""
        if len(self.waiting) >= limits.max_waiting_opens:
            raise _too_many("max_waiting_opens", limits.max_waiting_opens, "open requests of this connection wait")
        if self._waiting_bytes + held.request.nbytes > limits.max_inflight_bytes:
            raise _too_many("max_inflight_bytes", limits.max_inflight_bytes, "bytes of open requests of this connection wait")
        self.waiting[held.request.id] = held
        self._waiting_bytes += held.request.nbytes

    def next_waiting(self, request_id: Any = None) -> HeldRequest:
        """Remove and return the `open` that waits longest, or the one with this id."""
        held = self.waiting.pop(next(iter(self.waiting)) if request_id is None else request_id)
        self._waiting_bytes -= held.request.nbytes
        return held

    def next_held(self) -> HeldRequest:
        """Remove and return the request that waits longest."""
        held = self.held.popitem(last=False)[1]
        if held.request.id is not None:
            del self._held_keys[held.request.id]
        return self._no_longer(held)

    def take_held(self, request_id: int | str) -> HeldRequest | None:
        """Remove and return the held request with this id. A `write` or `close` leaves its effect on the pipe in its place."""
        key = self._held_keys.pop(request_id, None)
        if key is None:
            return None
        held = self._no_longer(self.held[key])
        if held.shape is Write or held.shape is Close:
            request = held.request
            effect = Request(None, request.command, {"pipe_id": request.arguments.get("pipe_id"), "data": ""}, None, 0)
            self.held[key] = HeldRequest(effect, held.shape, held.received, is_withdrawn=True)
        else:
            del self.held[key]
        return held

    def _no_longer(self, held: HeldRequest) -> HeldRequest:
        self._held_bytes -= held.request.nbytes
        self._held_calls -= held.counts
        return held

    def has(self, request_id: int | str) -> bool:
        """Whether a request with this id is unanswered."""
        return any(request_id in table for table in (self.calls, self.others, self._held_keys, self.waiting))

    def check_id(self, request_id: int | str | None) -> None:
        """Raise `DuplicateId` if the id is in use."""
        known = request_id in self.calls or request_id in self.others or request_id in self._held_keys  # an id is never None
        if known or (self.waiting and request_id in self.waiting):
            raise DuplicateId(f"request {request_id} is in flight already", data={"id": request_id})

    def check_room(self, maximum: int) -> None:
        """Raise `TooManyRequests` if one more `open` or `tool` request would exceed the limit."""
        if len(self.calls) + self._held_calls >= maximum:
            raise _too_many("max_inflight", maximum, "open and tool requests of this connection are in flight")

    def running(self) -> list[Call]:
        """All running calls."""
        return [*self.calls.values(), *self.others.values()]

    @property
    def is_busy(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self.calls or self.others or self.held or self.waiting or self.leaving)

    @property
    def nbytes(self) -> int:
        """The size of the unanswered requests, and of those answered though the outbox was full.

        Waiting `open` requests are not among them: they would pause reading, and the writes that they wait for are behind.
        """
        number = len(self.calls) + len(self.others) + len(self.held) + self.answered_over
        return number * REQUEST_COST + self._held_bytes + (sum(list(self._large.values())) if self._large else 0)


def _too_many(limit: str, maximum: int, what: str) -> TooManyRequests:
    return TooManyRequests(
        f"{maximum} {what} ({limit})",
        hint="wait for answers before sending more",
        data={"limit": limit, "maximum": maximum},
    )
