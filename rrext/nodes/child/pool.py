"""`ProcessPool`: child processes that serve one call at a time each, and are kept for the next ones."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from rrext.errors import ShuttingDown
from rrext.nodes.child.process import NodeProcess
from rrext.tools.context import ToolContext

CLOSING_TIMEOUT: Final = 5.0
"""Seconds for an idle process to end, before it is killed."""

P = TypeVar("P", bound=NodeProcess)


class ProcessPool(Generic[P]):
    """Up to `most` processes, started by `start` when needed. Methods block; call them from any number of threads."""

    def __init__(self, start: Callable[[], P], most: int) -> None:
        self._start = start
        self._most = most
        self._changed = threading.Condition()
        self._idle: deque[P] = deque()
        self._running: set[P] = set()
        self._is_closed = False

    @contextmanager
    def lent(self, ctx: ToolContext) -> Iterator[P]:
        """A process for this call alone. Waits for one; raises the error of `ctx.check` if the call is cancelled meanwhile."""
        process = self._take(ctx)
        try:
            yield process
        finally:
            self._give_back(process)

    def close(self) -> None:
        """End all processes; waiting calls fail with an error."""
        with self._changed:
            self._is_closed = True
            running, idle = list(self._running), list(self._idle)
            self._idle.clear()
            self._changed.notify_all()
        for process in running:
            process.terminate()
        for process in (*running, *idle):
            process.close(CLOSING_TIMEOUT)

    def check_open(self) -> None:
        """Raise `ShuttingDown` after `close`."""
        if self._is_closed:
            raise ShuttingDown("The pipeline ends")

    def _take(self, ctx: ToolContext) -> P:
        ctx.on_cancel(self._wake)
        try:
            with self._changed:
                while not self._is_closed and not ctx.cancelled and len(self._running) >= self._most:
                    self._changed.wait()
                ctx.check()
                self.check_open()
                process = self._idle_one() or self._start()
                self._running.add(process)
                return process
        finally:
            ctx.token.forget(self._wake)

    def _idle_one(self) -> P | None:
        while self._idle:
            process = self._idle.pop()
            if not process.is_over:
                return process
        return None

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _give_back(self, process: P) -> None:
        if process.is_over:
            process.wait()
        with self._changed:
            self._running.discard(process)
            if not process.is_over and not self._is_closed:
                self._idle.append(process)
            self._changed.notify_all()  # the thread that `notify` would wake may not need the process any more
