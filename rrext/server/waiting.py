"""The requests of a session that wait: for room in the outbox, or until fewer of them are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from rrext.engine.interface.operations import Open
from rrext.errors import Cancelled, RrextError
from rrext.limits import WAKES_PER_ITERATION
from rrext.server.arguments import decode
from rrext.server.inflight import HeldRequest, InFlight

if TYPE_CHECKING:
    from rrext.server.session import Session


class WaitingRequests:
    """Begins the waiting requests of one session, some in each iteration of the loop. On the loop's thread, but for `wake`."""

    __slots__ = ("_is_awake", "_loop", "_session", "inflight")

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self._session = session
        self.inflight = InFlight()
        self._loop = loop
        self._is_awake = False

    def has_to_wait(self) -> bool:
        """Whether an `open` has to wait for its turn."""
        inflight = self.inflight
        return bool(inflight.waiting) or not inflight.has_room_for_open(self._session.limits.max_inflight)

    def add_open(self, request_held: HeldRequest) -> None:
        """Let an `open` wait, at most until its deadline, which then answers it. Raises `TooManyRequests`."""
        limits, request = self._session.limits, request_held.request
        timeout = decode(request.arguments, Open, limits).timeout if "timeout" in request.arguments else None
        self.inflight.wait(request_held, limits)
        if timeout is not None:
            self._loop.call_later(timeout, self._end_wait, request_held)

    def _end_wait(self, held: HeldRequest) -> None:
        if self.inflight.waiting.get(held.request.id) is held:
            self._session.begin_held(self.inflight.next_waiting(held.request.id))

    def wake(self) -> None:
        """Begin `open` requests soon, because one in flight was answered. From any thread."""
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon_threadsafe(self._begin_opens)

    def _begin_opens(self) -> None:
        self._is_awake = False
        inflight, session = self.inflight, self._session
        for _ in range(WAKES_PER_ITERATION):
            if not inflight.waiting or session.outbox.is_full or not inflight.has_room_for_open(session.limits.max_inflight):
                return
            session.begin_held(inflight.next_waiting())
        if inflight.waiting:
            self.wake()

    def begin_some(self) -> None:
        """Begin some requests, now that the outbox has room; their answers count before the next ones begin."""
        inflight, outbox = self.inflight, self._session.outbox
        for _ in range(WAKES_PER_ITERATION):
            if inflight.held and not outbox.is_full:
                self._session.begin_held(inflight.next_held())
        if inflight.held:
            outbox.want_room()
        if inflight.waiting:
            self.wake()

    def cancel(self, request_id: int | str) -> bool:
        """Cancel a waiting request; False if none waits under this id."""
        inflight = self.inflight
        if request_id in inflight.waiting:
            self._session.refuse(inflight.next_waiting(request_id).request, Cancelled())
            return True
        held = inflight.take_held(request_id)
        if held is None:
            return False
        self._session.refuse(held.request, Cancelled())
        return True

    def refuse_all(self, error: Callable[[], RrextError]) -> None:
        """Answer all of them with an error."""
        inflight = self.inflight
        while inflight.held:
            self._session.refuse(inflight.next_held().request, error())
        while inflight.waiting:
            self._session.refuse(inflight.next_waiting().request, error())
