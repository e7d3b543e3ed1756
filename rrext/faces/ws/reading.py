"""The messages of one client on their way to its session: a few in each iteration of the loop, while there is room."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rrext.faces.ws.protocol import SocketProtocol
from rrext.limits import REQUESTS_PER_ITERATION
from rrext.server.session import Session

Received: TypeAlias = tuple[bytes, bool]
"""A message, and whether it is binary."""

log: Final = logging.getLogger("rrext.server")


class SocketReading:
    """Gives the messages of a connection to `handle`, and pauses reading while too much of them waits for answers."""

    def __init__(
        self,
        session: Session,
        protocol: SocketProtocol,
        loop: asyncio.AbstractEventLoop,
        handle: Callable[[Sequence[Received]], object],
    ) -> None:
        self._session = session
        self._protocol = protocol
        self._loop = loop
        self._handle = handle
        self._waiting: deque[Received] = deque()
        self._is_due = False
        self._is_paused = False
        self._is_stopped = False
        protocol.on_messages = self.take

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
        if session.unread_bytes > session.limits.max_inflight_bytes:
            log.debug("reading pauses: too much waits for an answer")
            self._is_paused = session.reports_answers = True
            self._protocol.let_read(reads=False)
            self._loop.call_soon(self.unpause)  # an answer may have come just before
        elif waiting:
            self._is_due = True
            self._protocol.let_read(reads=False)
            self._loop.call_soon(self._go_on)
        else:
            self._protocol.let_read(reads=True)

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
        self._protocol.let_read(reads=True)  # for the answer to the end of the WebSocket

    @property
    def has_more(self) -> bool:
        return bool(self._waiting) and not self._is_paused
