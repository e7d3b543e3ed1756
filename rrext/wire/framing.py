"""Frames out of a stream of bytes that may be cut anywhere.

Bytes are read into one buffer that stays, and a body is handed on as a slice of it. A body that does not fit is read
straight into memory of its announced size; a raw tail into what becomes its `bytes`, so that it is not copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import Generic, TypeVar

from rrext.errors import FrameTooLarge, ParseError, RrextError
from rrext.limits import DEFAULTS, KIB, Limits
from rrext.wire.header import FORM, Header, parse_header
from rrext.wire.messages import Fatal

__all__ = ["BUFFER", "Framer"]

E = TypeVar("E")

BUFFER = 64 * KIB
"""What a pipe holds, and so what one read can bring. A frame that fits is parsed where it lies."""

_FOREVER = 1 << 62
"""Bytes to skip after a fatal error: all that will ever come."""

_usual_header = re.compile(rb"Content-Length: ([0-9]{1,9})\r\n(?:Json-Length: ([0-9]{1,9})\r\n)?\r\n").match
"""The header block that nearly everyone sends; any other one takes a longer way to the same result."""

_blank_line = re.compile(rb"\n\r?\n").search
_not_blank = re.compile(rb"[^\r\n]").search


class Framer(Generic[E]):
    """Splits a stream into frames, each of which becomes one event.

    `on_body(json, tail, nbytes)` makes it of a whole body, `on_refused(error, start)` of the first bytes of a body that
    cannot be used. Both get a view of memory that is used again: what they keep, they copy.

    Blank lines before a header block are passed over: people who type a frame by hand end it with Return.
    """

    __slots__ = ("_buffer", "_end", "_large", "_limits", "_need", "_skip", "_start", "_view", "on_body", "on_refused")

    def __init__(
        self,
        on_body: Callable[[memoryview, bytes | None, int], E],
        on_refused: Callable[[RrextError, memoryview], E],
        limits: Limits = DEFAULTS,
    ) -> None:
        self.on_body = on_body
        self.on_refused = on_refused
        self._limits = limits
        self._buffer = bytearray(max(BUFFER, limits.max_header + limits.id_recovery))
        self._view = memoryview(self._buffer)
        self._start = 0  # where the next frame begins
        self._end = 0  # where the bytes received end
        self._need = 0  # nothing can happen before `_end` gets here
        self._skip = 0  # bytes to come that nobody wants
        self._large: _LargeBody | None = None

    def __repr__(self) -> str:
        return f"<Framer {self._end - self._start} bytes held, skip={self._skip}, large={self._large!r}>"

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; never empty. Good until `buffer_updated`."""
        if self._large is not None:
            return self._large.room()
        if self._start:
            self._move_to_front()
        return self._view[self._end :] if self._end else self._view

    def _move_to_front(self) -> None:
        """Make room. What moves came with the last read, so each byte moves once at most."""
        start, rest = self._start, self._end - self._start
        if rest:
            self._view[:rest] = self._view[start : self._end]
        self._start = 0
        self._end = rest
        self._need -= start

    def buffer_updated(self, nbytes: int) -> list[E | Fatal]:
        """The events of what is complete, now that so many bytes more are in the buffer."""
        if self._large is not None:
            return self._fill_large(self._large, nbytes)
        end = self._end = self._end + nbytes
        events: list[E | Fatal] = []
        if end < self._need:
            return events
        if self._skip:
            self._drop()
        start = self._start
        buffer, view, max_frame = self._buffer, self._view, self._limits.max_frame
        while start < end:
            usual = _usual_header(buffer, start, end)
            if usual is not None and usual.lastindex == 1:
                size = int(usual[1])
                body = usual.end()
                stop = body + size
                if stop <= end and size <= max_frame:
                    events.append(self.on_body(view[body:stop], None, size))
                    start = stop
                    continue
            self._start = start
            if not self._step(events):
                return events
            start = self._start
        self._start = self._end = self._need = 0
        return events

    def receive_eof(self) -> list[E | Fatal]:
        """The end of the stream, which must not fall inside a frame."""
        missing = self._missing()
        self._large = None
        self._skip = _FOREVER
        return [Fatal(ParseError(f"the input ended inside a frame: {missing}", hint=FORM))] if missing else []

    def _missing(self) -> str | None:
        if self._large is not None:
            return f"{len(self._large.room())} bytes of its body are missing"
        if self._skip:
            return None  # a body that was refused, and answered, already
        if (found := self._header()) is not None:
            header, body = found
            return f"{header.length - (self._end - body)} bytes of its body are missing"
        return "its header block is not complete" if self._start < self._end else None

    def _step(self, events: list[E | Fatal]) -> bool:
        """Go on with anything but a whole frame with the usual header. False: more bytes must come first."""
        try:
            found = self._header()
        except ParseError as error:
            events.append(Fatal(error))
            self._skip = _FOREVER
            self._need = 0
            self._start = self._end
            return False
        if found is None:
            self._need = self._end + 1
            return False
        header, body = found
        if header.length > self._limits.max_frame:
            limit = self._limits.max_frame
            error = FrameTooLarge(f"a frame of {header.length} bytes is over max_frame ({limit})", data={"max_frame": limit})
            return self._refuse(error, header, body, events)
        if header.problem is not None:
            return self._refuse(ParseError(header.problem, hint=FORM), header, body, events)
        if body + header.length <= self._end:
            events.append(self._whole(header, body))
            return True
        return self._wait_for(header, body)

    def _header(self) -> tuple[Header, int] | None:
        """The next header block and where its body begins; None if it is not complete. Raises `ParseError`."""
        first = _not_blank(self._buffer, self._start, self._end)
        self._start = start = self._end if first is None else first.start()
        if self._buffer[start : start + 1] in (b"{", b"["):
            raise ParseError("a message without a header block", hint=FORM)
        limit = start + self._limits.max_header
        blank = _blank_line(self._buffer, start, min(self._end, limit))
        if blank is not None:
            return parse_header(bytes(self._buffer[start : blank.end()]), self._limits.max_length), blank.end()
        if self._end >= limit:
            raise ParseError(f"a header block over {self._limits.max_header} bytes", hint=FORM)
        return None

    def _whole(self, header: Header, body: int) -> E:
        stop = self._start = body + header.length
        if header.json_length is None:
            return self.on_body(self._view[body:stop], None, header.length)
        cut = body + header.json_length
        return self.on_body(self._view[body:cut], bytes(self._view[cut:stop]), header.length)

    def _refuse(self, error: RrextError, header: Header, body: int, events: list[E | Fatal]) -> bool:
        """Show the start of a body, where its id may be, and skip it all."""
        shown = min(header.length, self._limits.id_recovery)
        if body + shown > self._end:
            self._need = body + shown
            return False
        if header.json_length is not None:
            shown = min(shown, header.json_length)
        events.append(self.on_refused(error, self._view[body : body + shown]))
        self._start = body
        self._skip = header.length
        self._drop()
        return True

    def _drop(self) -> None:
        dropped = min(self._skip, self._end - self._start)
        self._start += dropped
        self._skip -= dropped

    def _wait_for(self, header: Header, body: int) -> bool:
        """Say how much of an incomplete body is to come here, or let what is too large for here come elsewhere."""
        capacity = self._start + len(self._buffer)
        stop = body + header.length
        json_stop = stop if header.json_length is None else body + header.json_length
        if stop <= capacity:
            self._need = stop
        elif json_stop > capacity:
            self._large = _LargeBody.whole(header, self._view[body : self._end])
        elif json_stop > self._end:
            self._need = json_stop
        else:
            self._large = _LargeBody.tail(header, self._view[body:json_stop], self._view[json_stop : self._end])
        return False

    def _fill_large(self, large: _LargeBody, nbytes: int) -> list[E | Fatal]:
        if not large.filled_by(nbytes):
            return []
        self._large = None
        self._start = self._end = self._need = 0
        return [self.on_body(*large.parts())]


class _LargeBody:
    """A body on its way into memory of its own."""

    __slots__ = ("_filled", "_header", "_json", "_owner", "_room", "_target")

    def __init__(self, header: Header, json: memoryview | None, owner: BytesIO | None, target: memoryview) -> None:
        self._header = header
        self._json = json
        self._owner = owner
        self._target = target
        self._filled = 0
        self._room = target

    @classmethod
    def whole(cls, header: Header, received: memoryview) -> _LargeBody:
        """Room for the whole body."""
        return cls(header, None, None, memoryview(bytearray(header.length)))._begin(received)

    @classmethod
    def tail(cls, header: Header, json: memoryview, received: memoryview) -> _LargeBody:
        """Room for the raw tail alone; `json` stays where it is."""
        owner = BytesIO(bytes(header.length - len(json)))  # gives these bytes back without a copy
        return cls(header, json, owner, owner.getbuffer())._begin(received)

    def __repr__(self) -> str:
        return f"<{self._filled} of {len(self._target)}>"

    def _begin(self, received: memoryview) -> _LargeBody:
        self._target[: len(received)] = received
        self._filled = len(received)
        return self

    def room(self) -> memoryview:
        """What is not filled yet."""
        self._room = self._target[self._filled :]
        return self._room

    def filled_by(self, nbytes: int) -> bool:
        """Count bytes that were put into `room()`; whether that was all."""
        self._filled += nbytes
        self._room.release()
        return self._filled == len(self._target)

    def parts(self) -> tuple[memoryview, bytes | None, int]:
        """JSON, raw tail, and size of the body."""
        header = self._header
        if self._json is None or self._owner is None:
            if header.json_length is None:
                return self._target, None, header.length
            return self._target[: header.json_length], bytes(self._target[header.json_length :]), header.length
        self._target.release()
        return self._json, self._owner.getvalue(), header.length
