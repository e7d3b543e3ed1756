"""A queue of requests to a process: it keeps their order, and no caller waits for a process that does not read."""

from __future__ import annotations

import contextlib
import io
import os
import select
import threading
from collections import deque


class RequestQueue:
    """Writes frames to a pipe. A thread of the queue writes the bytes that the pipe does not take at once."""

    def __init__(self, pipe: io.FileIO) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe
        self._lock = threading.Lock()
        self._left: deque[memoryview] = deque()
        self._is_writing = False  # whether the thread runs; then the thread closes the pipe
        self._is_closed = False

    def send(self, data: bytes | bytearray) -> None:
        """Send a frame. No error if the process is gone: the thread that reads the answers notices that."""
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
                threading.Thread(target=self._write_on, name="rrext-child-requests", daemon=True).start()

    def close(self) -> None:
        """Refuse new frames, and close the pipe when all earlier ones are written."""
        with self._lock:
            self._is_closed = True
            if not self._is_writing:
                self._pipe.close()

    def _rest(self, view: memoryview) -> memoryview:
        """Write to the pipe and return the bytes that it does not take now."""
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
