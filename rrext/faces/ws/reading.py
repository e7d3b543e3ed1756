"""The messages of one client on their way to its session: a few in each iteration of the loop, while there is room."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

from rrext.faces.http.budget import NOTED, UserBudget
from rrext.faces.ws.protocol import SocketProtocol
from rrext.limits import REQUESTS_PER_ITERATION
from rrext.server.session import Session

Received: TypeAlias = tuple[bytes, bool]
"""A message, and whether it is binary."""

_data_of = itemgetter(0)

log: Final = logging.getLogger("rrext.server")


class SocketReading:
    """Gives the messages of a connection to `handle`, and pauses reading while too much of them waits for answers."""

    __slots__ = (
        "_budget", "_handle", "_is_due", "_is_held_up", "_is_noted", "_is_paused", "_is_stopped", "_loop", "_on_no_room",
        "_protocol", "_session", "_waiting", "_wants_more",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        protocol: SocketProtocol,
        loop: asyncio.AbstractEventLoop,
        handle: Callable[[Sequence[Received]], object],
        on_no_room: Callable[[], object],
    ) -> None:
        self._session = session
        self._protocol = protocol
        self._loop = loop
        self._handle = handle
        self._on_no_room = on_no_room
        self._waiting: deque[Received] = deque()
        self._is_due = False
        self._is_paused = False
        self._is_stopped = False
        self._wants_more = True
        self._is_held_up = False
        self._budget: UserBudget | None = None
        self._is_noted = False
        protocol.on_messages = self.take
        protocol.on_more = self.look

    def take(self, messages: Sequence[Received]) -> None:
        """Take messages that arrived."""
        if self._is_stopped:
            return
        self._waiting.extend(messages)
        if not (self._is_due or self._is_paused):
            self._go_on()

    def _go_on(self) -> None:
        """Handle some messages, after other work of the loop."""
        self._is_due = False
        waiting, session = self._waiting, self._session
        if self._is_stopped:
            return
        self._handle([waiting.popleft() for _ in range(min(len(waiting), REQUESTS_PER_ITERATION))])
        if self._is_stopped:
            return
        unread = session.unread_bytes
        if self._is_noted or unread + session.outbox.size >= NOTED:
            self.look()
        if unread > session.limits.max_inflight_bytes:
            log.debug("reading pauses: too much waits for an answer")
            self._is_paused = session.reports_answers = True
            self._let_read(wants_more=False)
            self._loop.call_soon(self.unpause)  # an answer may have come just before
        elif waiting:
            self._is_due = True
            self._let_read(wants_more=False)
            self._loop.call_soon(self._go_on)
        else:
            self._let_read(wants_more=True)

    def _let_read(self, *, wants_more: bool) -> None:
        self._wants_more = wants_more
        self._protocol.let_read(reads=wants_more and not self._is_held_up)

    def unpause(self) -> None:
        session = self._session
        if self._is_paused and not self._is_stopped and session.unread_bytes <= session.limits.max_inflight_bytes:
            self._is_paused = False
            session.reports_answers = session.is_draining
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def stop(self) -> None:
        self._is_stopped = True
        self._waiting.clear()
        self._let_read(wants_more=True)  # for the answer to the end of the WebSocket

    # the memory of its user

    def belong_to(self, budget: UserBudget) -> None:
        """Count for that budget from now on, and for no other. It ends when nothing is kept: after the end, or a sign-off."""
        if self._budget is not None:
            self._budget.leave(self)
        self._budget = budget
        self.look()

    def look(self) -> None:
        """Let the budget look: the connection may keep more than before, or less."""
        if self._budget is not None:
            self._is_noted = self._budget.note(self)

    @property
    def held_bytes(self) -> int:
        """The beginning of a message, the requests in flight, and the answers that were not read."""
        protocol, session = self._protocol, self._session
        waiting = sum(map(len, map(_data_of, self._waiting)))
        return protocol.unfinished_bytes + waiting + session.held_bytes

    @property
    def is_unfinished(self) -> bool:
        """Whether it has the beginning of a message."""
        return self._protocol.unfinished_bytes > 0

    @property
    def is_held_up(self) -> bool:
        """Whether it reads no more, because its user has no room."""
        return self._is_held_up

    def hold_up(self, *, is_held_up: bool) -> None:
        """Read no more until told otherwise, and let calls wait for the answers of earlier ones to be read."""
        if is_held_up != self._is_held_up:
            self._is_held_up = is_held_up
            session = self._session
            session.outbox.be_full_beyond(0 if is_held_up else session.limits.outbox_bytes)
            self._protocol.let_read(reads=self._wants_more and not is_held_up)

    def give_up(self) -> None:
        """End the connection, whose message got no room."""
        self._on_no_room()

    @property
    def has_more(self) -> bool:
        return bool(self._waiting) and not self._is_paused
