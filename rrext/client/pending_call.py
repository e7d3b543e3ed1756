"""One request that is not answered yet, and how long its caller waits for it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, TypeAlias

import msgspec

from rrext.client.event_loop import Waiter
from rrext.client.frame_queue import QueuedFrame
from rrext.client.request_slots import Slots
from rrext.client.updates import Updates
from rrext.errors import ToolTimeout
from rrext.wire.messages import RequestId, Response

Body: TypeAlias = dict[str, Any]


class Deadline(msgspec.Struct, frozen=True):
    """How long a call may take on the client's side, in seconds; `margin` is added, and not spoken of.

    With `idle`, each report of progress starts `seconds` anew, until `total` is over.
    """

    what: str
    seconds: float
    margin: float = 0.0
    idle: bool = False
    total: float | None = None

    def due(self, now: float) -> float:
        """When the time of a call that begins now is up."""
        due = now + self.seconds + self.margin
        return due if self.total is None else min(due, now + self.total)

    def error(self) -> ToolTimeout:
        """The error of a call whose time is up."""
        if not self.idle:
            return ToolTimeout(f"{self.what} did not finish within {self.seconds:g} s")
        or_total = "" if self.total is None else f", or within {self.total:g} s in all"
        return ToolTimeout(f"{self.what} did not finish: no progress within {self.seconds:g} s{or_total}")


class PendingCall(msgspec.Struct, eq=False):
    """A request in flight. An abandoned one has no caller any more, but its answer still comes.

    `slots` gets a slot back at the end. `on_late` gets the body of a success that comes after the caller left. A `final`
    request reaches the server, waited for or not. `due` is the time of `deadline`, and `end` the latest to which progress
    can push that.
    """

    command: str
    waiter: Waiter | None = None
    updates: Updates | None = None
    on_late: Callable[[Body], None] | None = None
    final: bool = False
    abandoned: bool = False
    id: RequestId = 0
    slots: Slots | None = None
    deadline: Deadline | None = None
    due: float = inf
    end: float = inf
    frame: QueuedFrame | None = None
    answer: Response | None = None
    expired: bool = False

    def check(self) -> None:
        """Raise `ToolTimeout` if the deadline ended the wait."""
        if self.expired and self.answer is None:
            assert self.deadline is not None
            raise self.deadline.error()

    def begin(self, deadline: Deadline, now: float) -> None:
        """Its time runs from now on."""
        self.deadline = deadline
        self.due = deadline.due(now)
        if deadline.total is not None:
            self.end = now + deadline.total

    def refresh(self, now: float) -> None:
        """The call showed a sign of life."""
        deadline = self.deadline
        if deadline is not None and deadline.idle and self.due != inf:
            self.due = min(now + deadline.seconds, self.end)

    def expire(self) -> None:
        """Its time is up: the caller, and the callback that it may wait for, go on."""
        self.expired = True
        if self.updates is not None:
            self.updates.interrupt()
        self.wake()

    def wake(self) -> None:
        """Something happened that the caller waits for."""
        if self.waiter is not None:
            self.waiter.wake()

    def leave(self) -> None:
        """Give the slot back, once: the server has answered, or the connection is lost."""
        if self.slots is not None:
            self.slots.give()
            self.slots = None

    def lapse(self, answer: Response | None) -> None:
        """The answer came after its caller had left."""
        if answer is not None and answer.error is None and self.on_late is not None:
            self.on_late(answer.body)

    def __repr__(self) -> str:
        state = "abandoned" if self.abandoned else "answered" if self.answer is not None else "waiting"
        return f"<PendingCall {self.id} {self.command} {state}>"
