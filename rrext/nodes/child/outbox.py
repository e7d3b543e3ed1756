"""Requests on their way to a process: in order, and without anybody waiting for a process that does not read."""

from __future__ import annotations

import contextlib
import io
import os
import select
import threading
from collections import deque


class RequestQueue:
    """Writes frames to a pipe. What the pipe does not take at once, a thread of its own writes later."""

    def __init__(self, pipe: io.FileIO) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe
        self._lock = threading.Lock()
        self._left: deque[memoryview] = deque()
        self._is_writing = False  # whether the thread runs; it is the one that closes the pipe then
        self._is_closed = False

    def send(self, data: bytes) -> None:
        """Send a frame, whether it arrives or not: who reads answers hears that the process is gone."""
        view = memoryview(data)
        with self._lock:
            if self._is_closed:
                return
            if not self._is_writing:
                view = self._rest(view)
            if not view:
                return
            self._left.append(view)
            if not self._is_writing:
                self._is_writing = True
                threading.Thread(target=self._write_on, name="rrext-child-outbox", daemon=True).start()

    def close(self) -> None:
        """Take no more, and close the pipe when all is written that was taken."""
        with self._lock:
            self._is_closed = True
            if not self._is_writing:
                self._pipe.close()

    def _rest(self, view: memoryview) -> memoryview:
        """What the pipe does not take now."""
        try:
            while view and (count := self._pipe.write(view)) is not None:
                view = view[count:]
        except OSError:  # the process is gone
            return view[:0]
        return view

    def _write_on(self) -> None:
        ready = select.poll()
        ready.register(self._pipe.fileno(), select.POLLOUT)
        while True:
            ready.poll()
            with self._lock:
                while self._left:
                    rest = self._rest(self._left[0])
                    if rest:
                        self._left[0] = rest
                        break
                    self._left.popleft()
                else:
                    self._is_writing = False
                    if self._is_closed:
                        with contextlib.suppress(OSError):
                            self._pipe.close()
                    return
