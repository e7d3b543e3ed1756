"""A thread for due actions: it stops slow statements and ends idle sessions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Final

Action = Callable[[], float | None]
"""Runs at its due time; returns the next due time, or None to end."""

log: Final = logging.getLogger("rrext.sql")


class TimerThread:
    """A thread with a timetable: actions and their due times, each under a key. The thread starts with the first action.

    Adding and removing cost a lock and a dict: nearly every entry is removed before it is due.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._due: dict[object, tuple[float, Action]] = {}
        self._wakes = inf
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def set(self, key: object, due: float, action: Action) -> None:
        """Run `action` at `due`, a time of `monotonic`, unless `drop` comes first. Replaces the earlier action of the key."""
        with self._condition:
            self._due[key] = (due, action)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="rrext-sql-watch", daemon=True)
                self._thread.start()
            elif due < self._wakes:
                self._condition.notify()

    def drop(self, key: object) -> None:
        """Remove the action of a key; harmless if it has run or is unknown."""
        with self._condition:
            self._due.pop(key, None)

    def close(self) -> None:
        """Remove all actions, and let the thread end."""
        with self._condition:
            self._is_closed = True
            self._due.clear()
            self._condition.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=1)  # an action may hang in a connection to a vanished server

    def _run(self) -> None:
        while (found := self._next()) is not None:
            key, action = found
            try:
                again = action()
            except Exception:
                log.exception("watch: %r failed", key)
                again = None
            with self._condition:
                if self._due.get(key, (0, None))[1] is not action:
                    continue
                if again is None:
                    del self._due[key]
                else:
                    self._due[key] = (again, action)

    def _next(self) -> tuple[object, Action] | None:
        """Wait for the next due action; None when closed."""
        with self._condition:
            while not self._is_closed:
                key, (due, action) = min(self._due.items(), key=_due_of, default=(None, (inf, None)))
                now = monotonic()
                if action is not None and due <= now:
                    return key, action
                self._wakes = due
                self._condition.wait(None if due == inf else due - now)
                self._wakes = -inf
        return None


def _due_of(entry: tuple[object, tuple[float, Action]]) -> float:
    return entry[1][0]
