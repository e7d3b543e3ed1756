"""A lease: the node objects of a running call, with its turn on a pipe or its place in the limit.

The last user gives the lease back. If a call is answered while one of its threads still runs, its lease is spoiled: the
objects are never used again, and the place is released when the thread returns.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from rrext.engine.host.fair_lock import LockTurn
from rrext.engine.host.places import HeldPlace, Place
from rrext.engine.tasks.pipes import OpenPipe

if TYPE_CHECKING:
    from rrext.engine.flow.objects import NodeObjects
    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Call
    from rrext.engine.tasks.task import Task
    from rrext.nodes.base.node import Node


_LOCK: Final = threading.Lock()
"""Shared by all leases: it is held for a few instructions, and making a lock costs as much."""


class Lease:
    """Either a borrowed place with pooled objects, or a turn on an open pipe with that pipe's objects."""

    __slots__ = ("_is_left", "_is_tainted", "_objects", "_users", "pipe", "spoiled", "task", "turn")

    def __init__(self, task: Task, turn: Place | HeldPlace | LockTurn, pipe: OpenPipe | None = None) -> None:
        self.task = task
        self.turn = turn
        self.pipe = pipe
        self.spoiled = self._is_left = self._is_tainted = False
        self._users = 1
        self._objects: NodeObjects | None = None if pipe is None else pipe.objects

    def node(self, node_id: str) -> Node:
        """The object of a node. Without a pipe, node objects are borrowed from the task's spare ones at first use."""
        objects = self._objects
        if objects is None:
            objects = self._objects = self.task.take_spare()
        made = objects.made.get(node_id)
        return objects.object(node_id) if made is None else made

    def keep(self) -> None:
        """Add a user: a thread."""
        with _LOCK:
            self._users += 1

    def drop(self) -> None:
        """Remove a user. The last one gives back the objects and the place or turn."""
        with _LOCK:
            self._users -= 1
            if self._users:
                return
        if self._is_left:
            self.returned()
        if self.pipe is not None:
            self._leave(self.pipe)
            return
        if self._objects is not None and not (self.spoiled or self._is_tainted):
            self.task.give_spare(self._objects)
        self.turn.release()

    def hand_over(self) -> LockTurn:
        """The turn on the pipe, which another holder releases from now on."""
        turn, self.turn = self.turn, Place.free()
        assert isinstance(turn, LockTurn)
        return turn

    def taint(self) -> None:
        """Mark the call as stopped half-way: its borrowed objects are not used again."""
        self._is_tainted = True

    def leave(self, host: Host, call: Call, label: str, thread: int | None = None) -> None:
        """Record an answered call that still runs: its places are missing until it returns. On the loop's thread.

        `thread` is given for a run in a thread, which has a place among the running sync calls: the thread's id if it may
        lend that place, else 0.
        """
        task = self.task
        with _LOCK:
            if not self._users:
                return
            self._is_left = True
            host.left_behind(task.places).add(self, label, holder=self.pipe, call=call)
            if thread is not None:
                host.left_behind(task.sync_places).add(self, label, thread=thread)

    def returned(self) -> None:
        """Remove the record of a left-behind call: all its threads have returned."""
        if self._is_left:
            for places in (self.task.places, self.task.sync_places):
                if places.left_behind is not None:
                    places.left_behind.remove(self)

    def spoil(self) -> None:
        """Release the pipe's turn though an answered call still runs on it: from now on the pipe can only be closed."""
        with _LOCK:
            if self.spoiled or not self._users:
                return
            self.spoiled = True
        if self.pipe is not None:
            self.pipe.leave_thread_behind()
            self.turn.release()

    def _leave(self, pipe: OpenPipe) -> None:
        if self.spoiled:
            pipe.thread_returned()
        else:
            pipe.last_used = self.task.now()
            self.turn.release()
