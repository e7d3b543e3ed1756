"""Newline framing: each line of UTF-8 is one message, as the stdio transport of the Model Context Protocol has it."""

from __future__ import annotations

from typing import TypeVar

from rrext.errors import FrameTooLarge, ParseError
from rrext.limits import DEFAULTS, READ_BUFFER, Limits
from rrext.wire.codec import no_memory
from rrext.wire.framing import Framer
from rrext.wire.messages import Fatal

E = TypeVar("E")

_NEWLINE, _BRACE = b"\n{"


class Lines(Framer[E]):
    """Messages that end with a newline. Blank lines, and a carriage return before the newline, mean nothing.

    The buffer begins small, doubles while a line does not fit, up to `max_frame`, and is small again after a large line. A
    longer line is refused, and skipped to its newline.
    """

    __slots__ = ("_buffer", "_end", "_refused", "_scanned", "_skips", "_start", "_view")

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__(limits)
        self._buffer = bytearray(limits.max_header)
        self._view = memoryview(self._buffer)
        self._start = 0  # where the next line begins
        self._end = 0  # where the bytes received end
        self._scanned = 0  # no newline stands before
        self._skips = False  # a refused line is not over yet
        self._refused: list[E | Fatal] = []  # the event of one for which there was no memory

    def state(self) -> str:
        return "skips a line" if self._skips else f"{self._end - self._start} bytes held"

    def frame(self, message: list[bytes], tail: bytes | None = None) -> list[bytes]:
        assert tail is None, "raw_tail was set on a connection of lines"
        if len(message) == 1 and len(message[0]) <= READ_BUFFER:
            return [message[0] + b"\n"] if message[0] else message
        return [*message, b"\n"]

    def get_buffer(self, hint: int = READ_BUFFER) -> memoryview:
        if self._start:
            self._hold_in(self._buffer)
        if self._end == len(self._buffer):
            try:
                self._hold_in(bytearray(min(2 * len(self._buffer), self.limits.max_frame + len(b"\r\n"))))
            except MemoryError:
                self._refused.append(self._on_refused(no_memory(), self._view[: self.limits.id_recovery]))
                self._skips = True
                self._end = self._scanned = 0
        return self._view[self._end :]

    def _hold_in(self, buffer: bytearray) -> None:
        """Move the bytes that are held to the front of a buffer."""
        held = self._end - self._start
        view = memoryview(buffer)
        view[:held] = self._view[self._start : self._end]
        self._buffer, self._view = buffer, view
        self._scanned -= self._start
        self._start, self._end = 0, held

    def buffer_updated(self, nbytes: int) -> list[E | Fatal]:
        self._end += nbytes
        events, self._refused = self._refused, []
        buffer, view, end = self._buffer, self._view, self._end
        while (newline := buffer.find(_NEWLINE, self._scanned, end)) >= 0:
            start, self._start = self._start, newline + 1
            self._scanned = self._start
            if self._skips:
                self._skips = False
                continue
            size = newline - start
            if size > self.limits.max_frame:
                events.append(self._refuse(start))
            elif size and (buffer[start] == _BRACE or buffer[start:newline].strip()):
                events.append(self._on_body(view[start:newline], None, size))
        self._scanned = end
        if self._skips:
            self._start = end
        elif end - self._start > self.limits.max_frame:
            events.append(self._refuse(self._start))
            self._start = end
            self._skips = True
        if self._start == end and len(buffer) > READ_BUFFER:
            self._buffer = bytearray(self.limits.max_header)
            self._view = memoryview(self._buffer)
            self._start = self._end = self._scanned = 0
        return events

    def _refuse(self, start: int) -> E:
        most = self.limits.max_frame
        error = FrameTooLarge(
            f"the line has over {most} bytes, which is max_frame",
            hint="send less in one message, or start the server with a larger --max-frame",
            data={"limit": "max_frame", "maximum": most},
        )
        return self._on_refused(error, self._view[start : start + self.limits.id_recovery])

    def receive_eof(self) -> list[E | Fatal]:
        held, self._start = self._end - self._start, self._end
        if self._skips or not held:
            return []
        return [Fatal(ParseError(f"the input ended inside a line: after {held} bytes without a newline"))]
