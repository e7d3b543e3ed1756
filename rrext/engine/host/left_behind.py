"""Left-behind calls: they were answered, their code has not returned, and they still hold places.

While left-behind calls hold all places of a limit, a waiting call could wait for ever. Most of them return within a grace
period. After it the calls that wait for a place fail, and so do later ones, until a left-behind call has returned.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from rrext.errors import Unavailable

if TYPE_CHECKING:
    from rrext.clock import Timer
    from rrext.engine.host.host import Host
    from rrext.engine.host.places import Places
    from rrext.engine.interface.call import Call


HINT: Final = "they go on after their deadline or cancel; try again when they have returned, or restart the server"

log: Final = logging.getLogger("rrext.engine")


class _Stay(NamedTuple):
    """The record of one left-behind call, or of one of its threads.

    `holder` holds the place: the call, or a pipe with several calls. The place counts as missing after the answer of `call`,
    unless `thread` lends it to another call. A holder that itself waits for one of the places `other` makes its own place
    missing only while all of these are missing.
    """

    label: str
    since: float
    holder: object
    call: Call | None
    thread: int
    other: Places | None


class LeftBehind:
    """The left-behind calls that hold places of one limit. Threads: `add` on the loop's, `remove` and `joined` on any."""

    def __init__(self, places: Places, host: Host) -> None:
        self._places = places
        self._host = host
        self._stays: dict[object, _Stay] = {}
        self._timer: Timer | None = None
        self._is_told = False

    def add(
        self,
        key: object,
        label: str,
        *,
        holder: object = None,
        call: Call | None = None,
        thread: int = 0,
        other: Places | None = None,
    ) -> None:
        """Record a call that was answered and still runs. `remove` with the same `key` ends the record."""
        self._stays.setdefault(
            key, _Stay(label, self._host.clock.now(), key if holder is None else holder, call, thread, other)
        )
        self._watch(self._host.limits.return_grace)

    def remove(self, key: object) -> None:
        """Remove a call that returned."""
        self._stays.pop(key, None)
        if len(self._stays) < self._places.limit:
            self._is_told = False

    def joined(self) -> None:
        """A call began to wait for a place."""
        if len(self._stays) >= self._places.limit:
            self._host.post(self._check)

    def counts(self) -> dict[str, int]:
        """The number of left-behind calls by label."""
        return dict(Counter(stay.label for stay in list(self._stays.values()) if stay.other is None))

    @property
    def are_all(self) -> bool:
        """Whether all places have been missing for the grace period."""
        return self._wait_on(self._missing()) <= 0

    def _missing(self) -> list[_Stay]:
        """The earliest left-behind call of each missing place."""
        found: dict[object, _Stay] = {}
        for stay in list(self._stays.values()):
            is_answered = stay.call is None or stay.call.settled
            if is_answered and stay.thread not in self._places.lent and (stay.other is None or stay.other.are_missing):
                found.setdefault(stay.holder, stay)
        return list(found.values())

    def _wait_on(self, missing: list[_Stay]) -> float:
        """Seconds until all places will have been missing for the grace period; the whole period while some are not missing."""
        if len(missing) < self._places.limit:
            return self._host.limits.return_grace
        return max(stay.since for stay in missing) + self._host.limits.return_grace - self._host.clock.now()

    def _watch(self, seconds: float) -> None:
        if self._timer is None and len(self._stays) >= self._places.limit:
            self._timer = self._host.clock.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._check()

    def _check(self) -> None:
        missing = self._missing()
        wait = self._wait_on(missing)
        if wait > 0:
            if self._places.waiting or len(missing) >= self._places.limit:
                self._watch(wait)
            return
        if not self._is_told:
            self._is_told = True
            log.warning("%s", self._error(missing).message)
        for call in self._places.waiting_calls():
            call.cancel("cancelled", self._error(missing))

    def _error(self, missing: list[_Stay]) -> Unavailable:
        now = self._host.clock.now()
        counts = Counter(stay.label for stay in missing)
        longest = {label: max(now - stay.since for stay in missing if stay.label == label) for label in counts}
        names = ", ".join(f"{label} ({count}, for {longest[label]:.1f} s)" for label, count in counts.items())
        held = "it is" if len(missing) == 1 else f"all {len(missing)} are"
        return Unavailable(
            f"No {self._places.name} is free: {held} held by calls that were answered and have not returned: {names}",
            hint=HINT,
            data={"leftBehind": dict(counts), "seconds": round(max(longest.values()), 1)},
        )
