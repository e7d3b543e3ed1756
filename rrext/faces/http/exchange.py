"""A request over HTTP and its answer, in the memory of a user: the body until the request is answered, and the answer until the
client has read it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from starlette.types import Message, Receive, Scope

from rrext.engine.host.large_results import no_room
from rrext.faces.http.budget import Budgets, UserBudget
from rrext.faces.http.door import Arrival, arrival_of

EXCHANGE: Final = "rrext.exchange"
"""The member of a request's scope with its `Exchange`, if it counts for a user."""
NOBODY: Final = ""
"""The user for whom requests without one count, as those to the server's own pipelines; no key has it."""
UNREAD_LOOK: Final = 0.1
"""Seconds between two looks whether a client has read an answer; nothing tells it under TLS."""


class Exchange:
    """The latest request of a connection: it keeps bytes of a user. On the loop, but for `keep`."""

    size = 0
    """No other answer waits in front of it: a connection has one request at a time."""
    is_full = False

    def __init__(self, arrival: Arrival, budget: UserBudget, user: str | None) -> None:
        """`user` is that whose connections share the budget; None if the connection has it for itself."""
        self._arrival: Arrival | None = arrival
        self._budget = budget
        self.user = user
        self._body = self._kept = 0
        self.most_unread = 0
        """The bytes of its answer that the client had not read when it was on its way."""
        self.is_unfinished = True
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()
        self._is_given_up = False

    # the body

    async def grow(self, size: int) -> None:
        """Count a piece of the body, and wait until there is room for more. Raises `TooManyRequests`."""
        self._body += size
        self._budget.note(self)
        await self._may_go_on.wait()
        if self._is_given_up:
            raise no_room(self._budget.limit)

    async def whole_body(self, receive: Receive, most: int) -> Receive:
        """An ASGI `receive` with the whole body of the request at once; of one over `most` bytes the beginning.

        Raises `TooManyRequests`.
        """
        pieces: list[bytes] = []
        message = await receive()
        while message["type"] == "http.request":
            pieces.append(message.get("body", b""))
            await self.grow(len(pieces[-1]))
            if not message.get("more_body") or self._body > most:
                message = {**message, "body": b"".join(pieces)}
                break
            message = await receive()
        self.is_unfinished = False
        first = [message]

        async def next_message() -> Message:
            return first.pop() if first else await receive()

        return next_message

    def require_room(self) -> None:
        """Raise `TooManyRequests` if the user keeps more than its limit now, most of it answers that were not read."""
        if self._budget.is_spent:
            raise no_room(self._budget.limit)

    # the answer

    def keep(self, size: int) -> None:
        """Count the result of a call until the answer with it is on its way. From any thread."""
        self._kept = size

    def answered(self) -> None:
        """The answer is on its way: what the client has not read of it counts, until the next request of its connection."""
        self._body = self._kept = 0
        self.most_unread = self.held
        self.is_unfinished = False
        self._budget.note(self)

    def release(self) -> None:
        """Count for the connection no more: it has a new request."""
        self._arrival = None
        self._budget.remove(self)

    @property
    def held(self) -> int:
        """The bytes of its answer that the client has not read."""
        return self._kept + (0 if self._arrival is None else self._arrival.unsent_bytes)

    @property
    def is_gone(self) -> bool:
        """Whether the client gets no answer any more."""
        return self._arrival is None or self._arrival.is_closing

    is_broken = False
    """The call of a client that is gone is cancelled: it needs no room to be told so."""

    def want_room(self) -> None:
        """Do nothing: `until` looks by itself."""

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached()`; a cancel ends the wait of a client that is gone."""
        while not reached():
            look = asyncio.Event()
            asyncio.get_running_loop().call_later(UNREAD_LOOK, look.set)
            await look.wait()

    async def room(self) -> None:
        """Return at once: it is never full."""

    # in the budget

    @property
    def held_bytes(self) -> int:
        """The bytes of its body and of its answer."""
        return self._body + self.held

    def hold_up(self, *, is_held_up: bool) -> None:
        """Read no more until told otherwise."""
        if is_held_up:
            self._may_go_on.clear()
        else:
            self._may_go_on.set()

    def refuse(self) -> None:
        """Refuse the request: there was no room for its body."""
        self._is_given_up = True


def exchange_of(scope: Any) -> Exchange | None:
    """The exchange of a request; None if it counts for no user."""
    found: Exchange | None = scope.get(EXCHANGE)
    return found


def new_exchange(scope: Scope, budgets: Budgets, user: str) -> Exchange:
    """A request of a user, which counts for that user together with what is unread of its answer, once that is `answered`."""
    arrival = arrival_of(scope)
    if arrival.exchange is not None:
        arrival.exchange.release()
    exchange = arrival.exchange = scope[EXCHANGE] = Exchange(arrival, budgets.of(user), budgets.counts_for(user))
    return exchange
