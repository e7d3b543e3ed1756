"""The requests of one connection that are not answered yet, and what they weigh."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from rrext.engine.interface import Call
from rrext.errors import InvalidRequest, TooManyRequests
from rrext.wire.messages import Request

__all__ = ["WEIGHT", "DuplicateId", "InFlight"]

WEIGHT: Final = 4096
"""Bytes that a request costs while it is in flight, whatever its size."""


class DuplicateId(InvalidRequest):
    """An id that is in flight: answered without usable id, so that the first call's answer stays its own."""


class InFlight:
    """Calls that run, in two tables by request id, and requests that are held back.

    `calls` are those that count against `max_inflight`; a call without id is its own key. `held` waits for
    room in the outbox. `leaving` are the calls that are out of their table, and not in the outbox yet. Requests come in
    on the thread that reads, one at a time; calls leave on any thread.
    """

    __slots__ = ("_large", "calls", "held", "leaving", "others")

    def __init__(self) -> None:
        self.calls: dict[Any, Call] = {}
        self.others: dict[Any, Call] = {}
        self.held: deque[Request] = deque()
        self.leaving: list[Call] = []
        self._large: dict[Call, int] = {}

    def weigh(self, call: Call, nbytes: int) -> None:
        """Note the size of a call's request; to be told of large ones."""
        self._large[call] = nbytes

    def remove(self, call: Call) -> None:
        """The call is answered."""
        key = call if call.request_id is None else call.request_id
        if self.calls.pop(key, None) is None:
            self.others.pop(key, None)
        if self._large:
            self._large.pop(call, None)

    def find(self, request_id: int | str) -> Call | None:
        """The call that runs under this id."""
        return self.calls.get(request_id) or self.others.get(request_id)

    def find_held(self, request_id: int | str) -> Request | None:
        """The request that is held back under this id."""
        return next((request for request in self.held if request.id == request_id), None)

    def has(self, request_id: int | str) -> bool:
        """Whether a request under this id is not answered yet."""
        return request_id in self.calls or request_id in self.others or self.find_held(request_id) is not None

    def check_id(self, request_id: int | str | None) -> None:
        """Raise `DuplicateId` if the id is in use."""
        if request_id is not None and self.has(request_id):
            raise DuplicateId(f"request {request_id} is in flight already", data={"id": request_id})

    def check_room(self, maximum: int) -> None:
        """Raise `TooManyRequests` if one more `open` or `tool` request would be one too many."""
        if len(self.calls) + len(self.held) >= maximum:
            raise TooManyRequests(
                f"{maximum} open and tool requests of this connection are in flight (max_inflight)",
                hint="wait for answers before sending more",
                data={"limit": "max_inflight", "maximum": maximum},
            )

    def running(self) -> list[Call]:
        """Every call that runs."""
        return [*self.calls.values(), *self.others.values()]

    @property
    def is_busy(self) -> bool:
        """Whether anything is not answered yet."""
        return bool(self.calls or self.others or self.held or self.leaving)

    @property
    def nbytes(self) -> int:
        """What the requests that are not answered weigh."""
        held = sum(request.nbytes for request in self.held)
        number = len(self.calls) + len(self.others) + len(self.held)
        return number * WEIGHT + held + sum(list(self._large.values()))

    def __repr__(self) -> str:
        return f"<InFlight calls={len(self.calls)} others={len(self.others)} held={len(self.held)}>"
