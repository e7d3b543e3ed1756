"""One request that is not answered yet, and how long its caller waits for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
import msgspec

from rrext.client.outbox import Frame
from rrext.client.slots import Slots
from rrext.client.updates import Updates
from rrext.errors import ToolTimeout
from rrext.wire.messages import RequestId, Response

__all__ = ["Body", "Call", "Deadline", "Watch"]

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

    def error(self) -> ToolTimeout:
        """What the caller reads when time is up."""
        if not self.idle:
            return ToolTimeout(f"{self.what} did not finish within {self.seconds:g} s")
        or_total = "" if self.total is None else f", or within {self.total:g} s in all"
        return ToolTimeout(f"{self.what} did not finish: no progress within {self.seconds:g} s{or_total}")


class Watch:
    """A deadline that runs: a cancel scope that progress can push away."""

    __slots__ = ("_deadline", "_end", "scope")

    def __init__(self, deadline: Deadline) -> None:
        now = anyio.current_time()
        self._deadline = deadline
        self._end = math.inf if deadline.total is None else now + deadline.total
        self.scope = anyio.CancelScope(deadline=min(now + deadline.seconds + deadline.margin, self._end))

    def refresh(self) -> None:
        """The call showed a sign of life."""
        if self._deadline.idle:
            self.scope.deadline = min(anyio.current_time() + self._deadline.seconds, self._end)

    def stop(self) -> None:
        """The answer is there: what callbacks still do is not under the deadline."""
        self.scope.deadline = math.inf


class Call:
    """A request in flight. An abandoned one has no caller any more, but its answer still comes.

    `on_late` gets the body of a success that nobody waits for. A `final` one has to reach the server, waited for or not.
    """

    __slots__ = ("abandoned", "answer", "command", "final", "frame", "id", "on_late", "slots", "updates", "wake", "watch")

    def __init__(
        self,
        command: str,
        *,
        slots: Slots | None = None,
        updates: Updates | None = None,
        on_late: Callable[[Body], None] | None = None,
        final: bool = False,
    ) -> None:
        self.id: RequestId = 0
        self.command = command
        self.slots = slots
        self.updates = updates
        self.on_late = on_late
        self.final = final
        self.watch: Watch | None = None
        self.frame: Frame | None = None
        self.answer: Response | None = None
        self.abandoned = False
        self.wake = anyio.Event()

    async def wait(self) -> None:
        """Return when it is answered and its callbacks have had all updates."""
        updates = self.updates
        if updates is None:
            await self.wake.wait()
            return
        while self.answer is None or updates.pending:
            if not updates.pending:
                self.wake = anyio.Event()
                await self.wake.wait()
            await updates.deliver()

    def settle(self, answer: Response) -> None:
        """Wake the caller with its answer."""
        self.answer = answer
        if self.watch is not None:
            self.watch.stop()
        self.wake.set()

    def leave(self) -> None:
        """The server has answered, or never will: the place is free for another request."""
        if self.slots is not None:
            self.slots.give()
            self.slots = None

    def lapse(self) -> None:
        """The caller went away with the answer already there."""
        answer = self.answer
        if answer is not None and answer.error is None and self.on_late is not None:
            self.on_late(answer.body)

    def __repr__(self) -> str:
        state = "abandoned" if self.abandoned else "answered" if self.answer is not None else "waiting"
        return f"<Call {self.id} {self.command} {state}>"
