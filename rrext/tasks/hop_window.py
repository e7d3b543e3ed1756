"""The messages of one connection on their way from a worker to the server: no more than its client has room for.

A worker sends the messages of the calls of a connection while few bytes of it are on the way; the rest waits in the worker, and
calls of that connection that have not begun wait too. The server gives credit as the outbox of the client has room. So a client
that does not read keeps neither memory of the server nor the pipe, which all connections of the worker share.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final

from rrext.server.outbox import Outbox
from rrext.tasks.limits import HOP_WINDOW, MAX_ANY

if TYPE_CHECKING:
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Outlet
    from rrext.server.call_feed import FeedPort, LateEvent
    from rrext.server.permissions import Permissions
    from rrext.wire.connection import ServedConnection

CREDIT: Final = HOP_WINDOW // 4
"""Bytes for which credit is given at once: a message for each answer would cost more than the answer."""


class HopWindow(Outbox):
    """What waits of a connection in a worker, in order, and the sizes of its messages that are on the way.

    `send` and `has_room_for` may be called from any thread. It is full while anything waits.
    """

    __slots__ = ("_action", "_guard", "_late", "_on_the_way", "_port", "_sizes", "_window")

    def __init__(self, port: FeedPort, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(self, 0, loop, self._room)
        self._port = port
        self._guard = Lock()
        self._sizes: deque[int] = deque()
        self._on_the_way = 0
        self._window = HOP_WINDOW
        self._action: Callable[[], None] | None = None
        self._late: set[LateEvent] = set()

    def has_room_for(self, pieces: Sequence[bytes]) -> bool:
        """Whether a message may leave at once, which the caller sends then; it counts from now on."""
        size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        with self._guard:
            if self.size or self._on_the_way >= self._window:
                return False
            self._on_the_way += size
            self._sizes.append(size)
        return True

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send a message of the connection, now or when there is credit for it."""
        if self.has_room_for(pieces):
            self._port.send(pieces)
        else:
            self.keep(pieces)

    def keep(self, pieces: Sequence[bytes]) -> None:
        """Let a message wait, in one piece: it leaves as a whole."""
        super().send(pieces if len(pieces) == 1 else [b"".join(pieces)])

    def give(self, messages: int) -> None:
        """Take credit for that many messages, which the server has passed on. On the loop."""
        with self._guard:
            for _ in range(messages):
                self._on_the_way -= self._sizes.popleft()
        self._go_on()

    def open(self) -> None:
        """Let all leave from now on: the connection to the server ends."""
        self._window = MAX_ANY
        self._go_on()

    def _go_on(self) -> None:
        with self._guard:
            action, self._action = self._action, None
        if action is not None:
            action()

    # as the sink of its own queue

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Pass messages on, as far as the credit goes."""
        taken: list[bytes] = []
        with self._guard:
            for piece in pieces:
                if self._on_the_way >= self._window:
                    break
                self._on_the_way += len(piece)
                self._sizes.append(len(piece))
                taken.append(piece)  # type: ignore[arg-type]  # a whole message
        if taken:
            self._port.send(taken)
        return sum(map(len, taken))

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` when there is credit."""
        with self._guard:
            if self._on_the_way >= self._window:
                self._action = action
                return
        self._loop.call_soon_threadsafe(action)

    # as the port of the feeds of its calls

    @property
    def outbox(self) -> Outbox:
        """Itself."""
        return self

    @property
    def connection(self) -> ServedConnection:
        """What gives messages their form."""
        return self._port.connection

    @property
    def permissions(self) -> Permissions:
        """The questions that wait for an answer."""
        return self._port.permissions

    def late_event(self, event: LateEvent) -> None:
        """Remember an event that waits for room."""
        self._late.add(event)
        self.want_room()

    def _room(self) -> None:
        while self._late and not self.is_full:
            self._late.pop().catch_up()


class HopCredit:
    """The credit of a connection that the server owes a worker. `give` sends it some for that many messages. On the loop."""

    __slots__ = ("_give", "_host", "_is_over", "_is_waiting", "_outlet", "messages", "nbytes")

    def __init__(self, outlet: Outlet, host: Host, give: Callable[[int], object]) -> None:
        self._outlet = outlet
        self._host = host
        self._give = give
        self.messages = self.nbytes = 0
        self._is_waiting = self._is_over = False

    def took(self, nbytes: int) -> None:
        """Count a message of the connection, and return credit if there is room for more."""
        self.messages += 1
        self.nbytes += nbytes
        if self.nbytes > CREDIT and not self._is_waiting:
            self._settle()

    def _settle(self) -> None:
        if self._outlet.is_full:
            self._is_waiting = True
            self._host.spawn(self._wait(), "credit of a slow client")
        else:
            self._return()

    async def _wait(self) -> None:
        await self._outlet.room()
        self._is_waiting = False
        self._return()

    def _return(self) -> None:
        messages, self.messages, self.nbytes = self.messages, 0, 0
        if not self._is_over:
            self._give(messages)

    def end(self) -> None:
        """Give no more: the connection has ended."""
        self._is_over = True
