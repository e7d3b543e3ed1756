"""The door of a port: the connections whose clients have shown no key, and the addresses that show wrong ones."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rrext.errors import NotAuthenticated, TooManyRequests
from rrext.faces.http.address import counted
from rrext.faces.http.budget import unsent_bytes

if TYPE_CHECKING:
    from asyncio import Transport

    from rrext.faces.http.exchange import Exchange

STRANGERS_SHARE: Final = 2
"""One part in so many of the connections may be without a key; beyond it the oldest go."""
KNOWN_RESERVE: Final = 16
"""One part in so many of the connections is kept from clients with a key, so that life signs are always answered."""
MAX_STRANGERS_OF_ADDRESS: Final = 1024
"""Connections without a key at once of one address: all clients of a company may come from one and start at the same moment."""
CROWD: Final = 64
"""Connections without a key of one address from which they have less time."""
CROWD_PATIENCE: Final = 10.0
"""Seconds for a client to show its key in a crowd; published clients need far less, also on a busy machine."""
FREE_WRONG_KEYS: Final = 5
"""Wrong keys of one address that are answered at once: people make mistakes."""
WRONG_KEY_DELAY: Final = 0.1
"""Seconds by which each further wrong key is answered later than the one before."""
MAX_WRONG_KEYS: Final = 20
"""Wrong keys of one address beyond which each is answered as one too many, not later than the last one."""
WRONG_KEY_MEMORY: Final = 2.0
"""Seconds until one wrong key of an address is forgotten: a guesser gets 30 answers a minute, people wait less than one."""
MAX_SUSPECTS: Final = 4096
"""Addresses whose wrong keys are counted, in some hundred KiB; the one that was quiet longest is forgotten."""
TALLY_INTERVAL: Final = 1.0
"""Seconds between two lines of the log about the same deed of strangers."""
TOLD_ADDRESSES: Final = 8
"""Addresses in one such line; of further ones only the number, for a line has an end."""

ARRIVAL: Final = "rrext.arrival"
"""The member of the state of a scope with the `Arrival` of its connection."""

T = TypeVar("T")

log: Final = logging.getLogger("rrext.server")


def arrival_of(scope: Any) -> Arrival:
    """The connection of a request."""
    found: Arrival = scope["state"][ARRIVAL]
    return found


def address_of(scope: Any) -> str | None:
    """The address of the client of a request; behind a proxy that which the proxy tells."""
    client = scope["client"]
    return None if client is None else str(client[0])


async def found_by_key(scope: Any, key: str, find: Callable[[str], T | None], wanted: str = "a key of this server") -> T:
    """The result of `find` for the key of a request. Raises `NotAuthenticated`, for a wrong key late, and `TooManyRequests`."""
    found = find(key) if key else None
    if found is None:
        delay, too_many = arrival_of(scope).refuse_wrong_key() if key else (0.0, None)
        await asyncio.sleep(delay)
        raise too_many or NotAuthenticated(f"{wanted} is required as a bearer token")
    arrival_of(scope).accept_client()
    return found


class Arrival:
    """A connection, from its accept to its end: that of a stranger until its client has shown a key.

    `address` is that of its client, as strangers are counted. `cut` ends the connection at once, in whatever state it is.
    `transport` is that of its requests, `exchange` the latest of these that counts for a user.
    """

    __slots__ = ("_door", "address", "cut", "exchange", "since", "transport")

    def __init__(self, door: Door, address: str, since: float) -> None:
        self._door = door
        self.address = address
        self.since = since
        self.cut: Callable[[], object] = lambda: None
        self.transport: Transport | None = None
        self.exchange: Exchange | None = None

    @property
    def unsent_bytes(self) -> int:
        """Bytes for the client that the system has not taken yet."""
        return 0 if self.transport is None else unsent_bytes(self.transport)

    @property
    def is_closing(self) -> bool:
        """Whether the client gets no further answer."""
        return self.transport is None or self.transport.is_closing()

    def accept_client(self) -> None:
        """Count the client as known: it has shown a key, or needs none."""
        self._door.promote(self)

    def mark_stranger(self) -> None:
        """Count the client as a stranger: it has shown no key, or its key is no longer valid."""
        self._door.demote(self)

    def comes_from(self, address: str) -> None:
        """A proxy passes on a request of this address."""
        self._door.move(self, counted(address))

    def refuse_wrong_key(self) -> tuple[float, TooManyRequests | None]:
        """Count a wrong key of the client: the seconds until its answer, and the error instead of that if they are too many."""
        return self._door.count_wrong_key(self.address)

    def cut_off(self) -> None:
        """End the connection, and count that for the log."""
        self._door.cut_off(self)

    def gone(self) -> None:
        """The connection has ended; repeated calls are allowed."""
        self._door.leave(self)
        self.transport = self.exchange = None


class Door:
    """Lets every connection in, and cuts off the oldest strangers where there are too many: a client that shows its key soon
    finds a place, however many others wait in silence. The address that has most strangers loses one.

    `most` is the number of connections at once. Used on the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._most = most
        self._known: set[Arrival] = set()
        self._strangers: dict[str, dict[Arrival, None]] = {}
        """By address, oldest first."""
        self._count = 0
        self._suspects: dict[str, tuple[float, float]] = {}
        """How many wrong keys of an address count, and since when; the address that was quiet longest is first."""
        self._cuts = LogSummary(loop, "connections cut off without a key or a whole request")
        self._wrong_keys = LogSummary(loop, "wrong keys")

    # the line

    def enter(self, address: str) -> Arrival:
        """A connection was accepted. `address` is empty for one of a proxy, whose requests tell the clients."""
        address = address and counted(address)
        if address and len(self._strangers.get(address, ())) >= MAX_STRANGERS_OF_ADDRESS:
            self._cut_oldest(address)
        elif self._count >= self._most // STRANGERS_SHARE or self._count + len(self._known) >= self._most:
            self.make_room()
        arrival = Arrival(self, address, self._loop.time())
        self._add(arrival)
        return arrival

    def make_room(self) -> None:
        """Cut off the oldest stranger of the address that has most of them, if there is any."""
        if self._strangers:
            self._cut_oldest(max(self._strangers, key=lambda address: len(self._strangers[address])))

    def _cut_oldest(self, address: str) -> None:
        self.cut_off(next(iter(self._strangers[address])))

    def cut_off(self, arrival: Arrival) -> None:
        """End a connection, and count that for the log."""
        self.leave(arrival)
        self._cuts.note(arrival.address)
        arrival.cut()

    def cut_off_crowds(self) -> None:
        """Cut off the strangers that have been there for a while, where there are many."""
        before = self._loop.time() - CROWD_PATIENCE
        is_crowd = self._count > self._most // STRANGERS_SHARE // 2
        crowds = [line for address, line in self._strangers.items() if is_crowd or (address and len(line) > CROWD)]
        for arrival in [arrival for line in crowds for arrival in line if arrival.since < before]:
            self.cut_off(arrival)

    def _add(self, arrival: Arrival) -> None:
        self._strangers.setdefault(arrival.address, {})[arrival] = None
        self._count += 1

    def leave(self, arrival: Arrival) -> None:
        """Forget a connection; repeated calls are allowed."""
        self._known.discard(arrival)
        line = self._strangers.get(arrival.address, {})
        if arrival in line:
            del line[arrival]
            self._count -= 1
            if not line:
                del self._strangers[arrival.address]

    def promote(self, arrival: Arrival) -> None:
        """Take a stranger for known, unless so many are that strangers would find no place: then it goes on in their line."""
        is_stranger = arrival in self._strangers.get(arrival.address, ())
        if is_stranger and len(self._known) < self._most - self._most // KNOWN_RESERVE:
            self.leave(arrival)
            self._known.add(arrival)

    def demote(self, arrival: Arrival) -> None:
        """Take a known client for a stranger, from now on."""
        if arrival in self._known:
            self._known.remove(arrival)
            arrival.since = self._loop.time()
            self._add(arrival)

    def move(self, arrival: Arrival, address: str) -> None:
        """A connection of a proxy carries a request of this address from now on."""
        if arrival in self._known:
            arrival.address = address
        elif arrival in self._strangers.get(arrival.address, ()):
            self.leave(arrival)
            arrival.address, arrival.since = address, self._loop.time()
            self._add(arrival)

    # wrong keys

    def count_wrong_key(self, address: str) -> tuple[float, TooManyRequests | None]:
        """Count a wrong key of an address: the seconds until its answer, and the error instead of that if they are too many.

        Only who has shown a wrong key asks: a right one is let in at once, whatever others of its address show.
        """
        now = self._loop.time()
        self._wrong_keys.note(address)
        count, since = self._suspects.pop(address, (0.0, now))
        count = min(max(0.0, count - (now - since) / WRONG_KEY_MEMORY) + 1, 2.0 * MAX_WRONG_KEYS)
        self._suspects[address] = count, now
        if len(self._suspects) > MAX_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]
        delay = max(0.0, min(count, MAX_WRONG_KEYS) - FREE_WRONG_KEYS) * WRONG_KEY_DELAY
        if count <= MAX_WRONG_KEYS:
            return delay, None
        seconds = int((count - MAX_WRONG_KEYS) * WRONG_KEY_MEMORY) + 1
        message = f"too many wrong keys of your address; try again in {seconds} seconds"
        is_crowd = len(self._strangers.get(address, ())) > CROWD  # who waits here has a place in the line
        return 0.0 if is_crowd else delay, TooManyRequests(message, data={"retryAfter": seconds})

    def close(self) -> None:
        """Log what is not told yet."""
        self._cuts.log_counts()
        self._wrong_keys.log_counts()


class LogSummary:
    """Acts of strangers, counted by address: at most one line of the log a second, however many there are."""

    def __init__(self, loop: asyncio.AbstractEventLoop, what: str) -> None:
        self._loop = loop
        self._what = what
        self._counts: Counter[str] = Counter()
        self._quiet_until = 0.0

    def note(self, address: str) -> None:
        """Count one."""
        if not self._counts:
            self._loop.call_at(self._quiet_until, self.log_counts)
        self._counts[address] += 1

    def log_counts(self) -> None:
        """Log the counts since the last line, if there are any."""
        counts, self._counts = self._counts, Counter()
        if counts:
            self._quiet_until = self._loop.time() + TALLY_INTERVAL
            told = [f"{count} of {address or 'a proxy'}" for address, count in counts.most_common(TOLD_ADDRESSES)]
            if rest := len(counts) - len(told):
                told.append(f"{counts.total() - sum(dict(counts.most_common(TOLD_ADDRESSES)).values())} of {rest} others")
            log.warning("%s: %s", self._what, ", ".join(told))
