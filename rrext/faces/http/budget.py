"""The memory of a user: what its connections keep of received and of unread bytes, and who of them may read on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol
from weakref import WeakValueDictionary

from rrext.engine.host.places import Places

NOTED: Final = 1 << 16
"""Bytes of a connection below which it is not counted for its user: thousands of idle ones cost less than one message."""

BUDGET_LOOK: Final = 0.1
"""Seconds between two looks at connections that keep much: answers that come take room, and those that are read make some."""
ROOM_TIMEOUT: Final = 30.0
"""Seconds until a client is cut off whose message gets no room."""


def encrypted_end(transport: asyncio.BaseTransport) -> asyncio.WriteTransport | None:
    """With TLS the transport of the encrypted bytes: what waits there neither counts above nor pauses writing."""
    tls = getattr(transport, "_ssl_protocol", None)
    return None if tls is None else tls._transport


def unsent_bytes(transport: asyncio.WriteTransport) -> int:
    """Bytes for a client that the system has not taken yet."""
    below = encrypted_end(transport)
    if below is None:
        return transport.get_write_buffer_size()
    above = 0 if transport.is_closing() else transport.get_write_buffer_size()  # one that closes may know none
    return above + below.get_write_buffer_size()


class Holder(Protocol):
    """One who keeps bytes of a user: a WebSocket, or a request over HTTP with its answer."""

    @property
    def held_bytes(self) -> int:
        """Bytes that it keeps now."""
        ...

    @property
    def is_unfinished(self) -> bool:
        """Whether it keeps the beginning of a message."""
        ...

    def hold_up(self, *, is_held_up: bool) -> None:
        """Read no more until told otherwise."""
        ...

    def refuse(self) -> None:
        """End: there was no room for its message."""
        ...


class UserBudget:
    """The bytes that all connections of a user keep, at most `limit`. On the loop.

    Over the limit, holders with more than their share read no more, but one of them with an unfinished message goes on: else
    all could wait for each other. None does while those with complete messages are over the limit by themselves: their calls
    may run for long, and message after message would be added. While some are counted, they are looked at again now and then:
    answers come, and are read.
    """

    __slots__ = ("__weakref__", "_favoured", "_held", "_loop", "_since", "_timer", "limit", "total")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._loop = loop
        self._held: dict[Holder, int] = {}
        self._since: dict[Holder, float] = {}
        """Those who are held up, and since when."""
        self._favoured: Holder | None = None
        self._timer: asyncio.TimerHandle | None = None

    def note(self, holder: Holder) -> bool:
        """Look at what a holder keeps now, and who may read on. False if it keeps little, and is not counted."""
        self._count(holder)
        if self._since:
            self._settle()
        elif self.total > self.limit:
            self._count_all()  # others may have given back some of theirs
            self._settle()
        self._schedule_check()
        return holder in self._held

    @property
    def is_spent(self) -> bool:
        """Whether the user keeps more than its limit now."""
        if self.total > self.limit:
            self._count_all()
        return self.total > self.limit

    def remove(self, holder: Holder) -> None:
        """Forget a holder."""
        self.total -= self._held.pop(holder, 0)
        if self._since.pop(holder, None) is not None:
            holder.hold_up(is_held_up=False)
        if self._favoured is holder:
            self._favoured = None
        if self._since:
            self._settle()

    def _count(self, holder: Holder) -> None:
        held = holder.held_bytes
        self.total += held - self._held.pop(holder, 0)
        if held >= NOTED:
            self._held[holder] = held
        else:
            self.total -= held

    def _count_all(self) -> None:
        for holder in list(self._held):
            self._count(holder)

    def _settle(self) -> None:
        favoured = self._favoured
        if favoured is not None and not favoured.is_unfinished:
            favoured = None
        share = self.limit // max(1, len(self._held))
        is_over = self.total > self.limit
        over = {holder for holder, held in self._held.items() if is_over and held > share}
        complete = sum(held for holder, held in self._held.items() if not holder.is_unfinished)
        if favoured is None and complete <= self.limit:
            waiting = (*self._since, *self._held)  # who waits longest comes first
            favoured = next((holder for holder in waiting if holder in over and holder.is_unfinished), None)
        self._favoured = favoured
        over.discard(favoured)  # type: ignore[arg-type]
        for holder in [holder for holder in self._since if holder not in over]:
            del self._since[holder]
            holder.hold_up(is_held_up=False)
        for holder in over - self._since.keys():
            self._since[holder] = self._loop.time()
            holder.hold_up(is_held_up=True)

    def _schedule_check(self) -> None:
        if self._held and self._timer is None:
            self._timer = self._loop.call_later(BUDGET_LOOK, self._check_late)

    def _check_late(self) -> None:
        self._timer = None
        self._count_all()
        self._settle()
        self._schedule_check()
        late = self._loop.time() - ROOM_TIMEOUT
        for holder in [holder for holder, since in self._since.items() if since <= late and holder.is_unfinished]:
            holder.refuse()
            self.remove(holder)


class Budgets:
    """The budgets of users, as long as they have connections. Without keys each connection has its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, *, has_users: bool) -> None:
        self._make: Callable[[], UserBudget] = lambda: UserBudget(loop, limit)
        self._has_users = has_users
        self._of: WeakValueDictionary[str, UserBudget] = WeakValueDictionary()
        self.turns = Places(1, "large answers")
        """The turn of the one large answer over HTTP that is made now."""

    def counts_for(self, user: str) -> str | None:
        """The user whose connections share one limit with this one."""
        return user if self._has_users else None

    def of(self, user: str) -> UserBudget:
        """The budget of a connection of a user."""
        if not self._has_users:
            return self._make()
        budget = self._of.get(user)
        if budget is None:
            budget = self._of[user] = self._make()
        return budget
