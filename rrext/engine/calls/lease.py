"""What a call has in its hands while it runs: node objects, and the turn or the place that came with them.

It goes back when the last user lets go. A call that is answered while a thread of its still runs leaves the lease
spoiled: the objects are never used again, and the place comes back with the thread.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rrext.engine.calls.places import Place
from rrext.engine.flow.gate import Pass
from rrext.engine.flow.pipes import Pipe

if TYPE_CHECKING:
    from rrext.engine.flow.objects import NodeObjects
    from rrext.engine.task import Task

__all__ = ["Borrowed", "Lease"]


class Borrowed:
    """A borrowed place with pooled objects in one coroutine's hands: nothing waited for it, no thread can share it."""

    __slots__ = ("_is_tainted", "_objects", "task")

    def __init__(self, task: Task) -> None:
        self.task = task
        self._objects: NodeObjects | None = None
        self._is_tainted = False

    @property
    def objects(self) -> NodeObjects:
        """The node objects, taken when the call runs: calls of a batch that run one after the other share them."""
        if self._objects is None:
            self._objects = self.task.take_spare()
        return self._objects

    def taint(self) -> None:
        """The call was stopped half-way: nobody gets these objects after it."""
        self._is_tainted = True

    def drop(self) -> None:
        """Give everything back."""
        if self._objects is not None and not self._is_tainted:
            self.task.give_spare(self._objects)
        self.task.places.give_back_one()

    def __repr__(self) -> str:
        return f"<Borrowed of {self.task!r}>"


class Lease:
    """Either a borrowed place with pooled objects, or a turn on an open pipe with that pipe's objects."""

    __slots__ = ("_is_tainted", "_lock", "_objects", "_users", "pipe", "spoiled", "task", "ticket")

    def __init__(self, task: Task, ticket: Place | Pass, pipe: Pipe | None = None) -> None:
        self.task = task
        self.ticket = ticket
        self.pipe = pipe
        self.spoiled = False
        self._is_tainted = False
        self._objects: NodeObjects | None = None if pipe is None else pipe.objects
        self._users = 1
        self._lock = threading.Lock()

    @property
    def objects(self) -> NodeObjects:
        """The node objects; borrowed ones are taken from the spare ones at first use."""
        if self._objects is None:
            self._objects = self.task.take_spare()
        return self._objects

    def keep(self) -> None:
        """One more user: a thread."""
        with self._lock:
            self._users += 1

    def drop(self) -> None:
        """One user less; the last one gives everything back."""
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self._give_back()

    def taint(self) -> None:
        """The call was stopped half-way: nobody gets borrowed objects after it."""
        self._is_tainted = True

    def spoil(self) -> None:
        """The call is answered, but a thread goes on: let others onto the pipe, which can only be closed now."""
        with self._lock:
            if self.spoiled or not self._users:
                return
            self.spoiled = True
        if self.pipe is not None:
            self.pipe.leave_thread_behind()
            self.ticket.release()

    def _give_back(self) -> None:
        if self.pipe is not None:
            if self.spoiled:
                self.pipe.thread_returned()
            else:
                self.pipe.last_used = self.task.now()
                self.ticket.release()
            return
        if self._objects is not None and not (self.spoiled or self._is_tainted):
            self.task.give_spare(self._objects)
        self.ticket.release()

    def __repr__(self) -> str:
        return f"<Lease {'spoiled ' if self.spoiled else ''}users={self._users} {self.ticket!r}>"
