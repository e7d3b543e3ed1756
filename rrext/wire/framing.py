"""Framers: cut a stream of bytes into messages, and put messages into frames, with a header or by newlines.

Bytes are read into a buffer, and a body is a slice of it. A larger body is read straight into memory of its announced size,
a raw tail into the memory of its `bytes`, without a copy.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from io import BytesIO
from typing import Final, Generic, TypeVar

import msgspec

from rrext.errors import FrameTooLarge, ParseError, RrextError
from rrext.limits import DEFAULTS, MAX_COPIED_PAYLOAD, MAX_LENGTH_DIGITS, READ_BUFFER, Limits
from rrext.wire.codec import Bytes, no_memory, within_memory
from rrext.wire.messages import Fatal

E = TypeVar("E")

_FOREVER = 1 << 62
"""The number of bytes to skip after a fatal error: all later bytes."""

_usual_header = re.compile(rb"Content-Length: ([0-9]{1,9})\r\n\r\n").match
"""The usual header block, read with one pattern; other blocks are read line by line, with the same result."""

_usual_tail_header = re.compile(rb"Content-Length: ([0-9]{1,9})\r\nJson-Length: ([0-9]{1,9})\r\n\r\n").match
"""The same for a frame with a raw tail."""


class Framer(ABC, Generic[E]):
    """The framing of one connection: makes an event of each received message, and a frame of each sent message.

    Read bytes into `get_buffer()` and tell `buffer_updated` how many; or hand them to `receive_data`, which copies them.
    One thread at a time may read. Returned events stay valid; the buffer does not.
    """

    __slots__ = ("_on_body", "_on_refused", "limits")

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        self.limits = limits
        self._on_body: Callable[[memoryview, bytes | None, int], E]
        self._on_refused: Callable[[RrextError, memoryview], E]

    def deliver(
        self, on_body: Callable[[memoryview, bytes | None, int], E], on_refused: Callable[[RrextError, memoryview], E]
    ) -> None:
        """From now on `on_body(json, tail, nbytes)` makes the event of a whole message, and `on_refused(error, start)` that
        of the first bytes of an unusable one. Both get a view of memory that is used again, and copy the parts that they keep.
        """
        self._on_body = within_memory(on_body, on_refused, self.limits.id_recovery)
        self._on_refused = on_refused

    @abstractmethod
    def get_buffer(self, hint: int = READ_BUFFER) -> memoryview:
        """The memory for the next bytes, never empty. Valid until `buffer_updated`."""

    @abstractmethod
    def buffer_updated(self, nbytes: int) -> list[E | Fatal]:
        """The events of the messages that `nbytes` more bytes in the buffer complete."""

    @abstractmethod
    def receive_eof(self) -> list[E | Fatal]:
        """End the input: `Fatal` if a message is incomplete."""

    @abstractmethod
    def frame(self, message: list[bytes], tail: bytes | None = None) -> list[bytes]:
        """Put a message and its raw tail into a frame: pieces to be written in order. From any thread."""

    @abstractmethod
    def state(self) -> str:
        """A description of the incomplete message, for a `repr`."""

    def receive_data(self, data: Bytes) -> list[E | Fatal]:
        """The events of the messages that these bytes complete."""
        events: list[E | Fatal] = []
        rest = memoryview(data)
        while rest:
            room = self.get_buffer()
            size = min(len(room), len(rest))
            room[:size] = rest[:size]
            rest = rest[size:]
            events += self.buffer_updated(size)
        return events


MAX_SPARE: Final = 4
"""Buffers that are kept for the next connections that read: few threads read at once."""

_spare: list[tuple[bytearray, memoryview]] = []
_NOTHING: Final = bytearray(), memoryview(b"")


class ContentLength(Framer[E]):
    """Frames with a header block: `Content-Length`, and `Json-Length` where a raw tail follows the message.

    There is a buffer while bytes are read and a frame is incomplete, one of a few that all connections share: most connections
    are idle. Blank lines before a header block are ignored, because a frame that is typed by hand ends with Return.
    """

    __slots__ = ("_buffer", "_end", "_large", "_need", "_skip", "_start", "_view")

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__(limits)
        self._buffer, self._view = _NOTHING
        self._start = 0  # where the next frame begins
        self._end = 0  # where the bytes received end
        self._need = 0  # nothing can happen before `_end` gets here
        self._skip = 0  # bytes to come that are dropped
        self._large: LargeBody | None = None

    def state(self) -> str:
        if self._large is not None:
            return repr(self._large)
        return f"{self._skip} bytes to skip" if self._skip else f"{self._end - self._start} bytes held"

    def frame(self, message: list[bytes], tail: bytes | None = None) -> list[bytes]:
        first = message[0]
        size = len(first)
        if tail is None and len(message) == 1 and size <= MAX_COPIED_PAYLOAD:
            return [b"Content-Length: %d\r\n\r\n%b" % (size, first)]
        size = sum(map(len, message))
        if tail is None:
            return [b"Content-Length: %d\r\n\r\n" % size, *message]
        head = b"Content-Length: %d\r\nJson-Length: %d\r\n\r\n" % (size + len(tail), size)
        return [b"".join([head, *message, tail])] if size + len(tail) <= MAX_COPIED_PAYLOAD else [head, *message, tail]

    def get_buffer(self, hint: int = READ_BUFFER) -> memoryview:
        if self._large is not None:
            return self._large.room()
        if self._start:
            self._move_to_front()
        return self._view[self._end :] if self._end else self._view or self._take_buffer()

    def _take_buffer(self) -> memoryview:
        try:
            self._buffer, self._view = _spare.pop()
        except IndexError:
            self._buffer = bytearray(READ_BUFFER)
            self._view = memoryview(self._buffer)
        return self._view

    def _give_back(self) -> None:
        """Let other connections have the buffer: nothing is in it."""
        self._start = self._end = self._need = 0
        if len(_spare) < MAX_SPARE:
            _spare.append((self._buffer, self._view))
        self._buffer, self._view = _NOTHING

    def _move_to_front(self) -> None:
        """Make room in the buffer. Only bytes of the last read are moved, so each byte moves at most once."""
        start, rest = self._start, self._end - self._start
        if rest:
            self._view[:rest] = self._view[start : self._end]
        self._start = 0
        self._end = rest
        self._need -= start

    def buffer_updated(self, nbytes: int) -> list[E | Fatal]:
        if self._large is not None:
            return self._fill_large(self._large, nbytes)
        end = self._end = self._end + nbytes
        events: list[E | Fatal] = []
        if end < self._need:
            return events
        if self._skip:
            self._drop()
        start = self._start
        buffer, view, max_frame = self._buffer, self._view, self.limits.max_frame
        while start < end:
            usual = _usual_header(buffer, start, end)
            if usual is not None:
                size = int(usual[1])
                body = usual.end()
                stop = body + size
                if stop <= end and size <= max_frame:
                    events.append(self._on_body(view[body:stop], None, size))
                    start = stop
                    continue
            self._start = start
            if not self._step(events):
                return events
            start = self._start
        self._give_back()
        return events

    def receive_eof(self) -> list[E | Fatal]:
        missing = self._missing()
        self._large = None
        self._skip = _FOREVER
        return [Fatal(ParseError(f"the input ended inside a frame: {missing}", hint=FORM))] if missing else []

    def _missing(self) -> str | None:
        if self._large is not None:
            return f"{self._large.missing} bytes of its body are missing"
        if self._skip:
            return None  # a body that was refused, and answered, already
        if (found := self._header()) is not None:
            header, body = found
            return f"{header.length - (self._end - body)} bytes of its body are missing"
        return "its header block is not complete" if self._start < self._end else None

    def _step(self, events: list[E | Fatal]) -> bool:
        """Continue after a frame that is incomplete or has an unusual header. False if more bytes are needed."""
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
        if header.length > self.limits.max_frame:
            return self._refuse(_too_large(header.length, self.limits.max_frame), header, body, events)
        if header.problem is not None:
            return self._refuse(ParseError(header.problem, hint=FORM), header, body, events)
        if body + header.length <= self._end:
            events.append(self._whole(header, body))
            return True
        try:
            self._wait_for(header, body)
        except MemoryError:
            return self._refuse(no_memory(), header, body, events)
        return False

    def _header(self) -> tuple[Header, int] | None:
        """The next header block, and the offset of its body; None if the block is incomplete. Raises `ParseError`."""
        tailed = _usual_tail_header(self._buffer, self._start, self._end)
        if tailed is not None and (json_length := int(tailed[2])) <= (length := int(tailed[1])):
            return Header(length, json_length), tailed.end()
        start = self._start
        while start < self._end and self._buffer[start] in b"\r\n":
            start += 1
        self._start = start
        if self._buffer[start : start + 1] in (b"{", b"["):
            raise ParseError("a message without a header block", hint=FORM)
        limit = start + self.limits.max_header
        body = _after_blank_line(self._buffer, start, min(self._end, limit))
        if body:
            return parse_header(bytes(self._buffer[start:body]), self.limits.max_length), body
        if self._end >= limit:
            raise ParseError(f"a header block over {self.limits.max_header} bytes", hint=FORM)
        return None

    def _whole(self, header: Header, body: int) -> E:
        stop = self._start = body + header.length
        if header.json_length is None:
            return self._on_body(self._view[body:stop], None, header.length)
        cut = body + header.json_length
        return self._on_body(self._view[body:cut], bytes(self._view[cut:stop]), header.length)

    def _refuse(self, error: RrextError, header: Header, body: int, events: list[E | Fatal]) -> bool:
        """Make the event of a refused body from its first bytes, which may have the id, and skip the body."""
        shown = min(header.length, self.limits.id_recovery)
        if body + shown > self._end:
            self._need = body + shown
            return False
        if header.json_length is not None:
            shown = min(shown, header.json_length)
        events.append(self._on_refused(error, self._view[body : body + shown]))
        self._start = body
        self._skip = header.length
        self._drop()
        return True

    def _drop(self) -> None:
        dropped = min(self._skip, self._end - self._start)
        self._start += dropped
        self._skip -= dropped

    def _wait_for(self, header: Header, body: int) -> None:
        """Set the size at which the body in the buffer is complete, or begin to read a body that is too large for the
        buffer.
        """
        stop = body + header.length
        json_stop = stop if header.json_length is None else body + header.json_length
        capacity = self._start + len(self._buffer)
        if stop <= capacity:
            self._need = stop
        elif json_stop > capacity:
            self._large = LargeBody(header, None, self._view[body : self._end])
        elif json_stop > self._end:
            self._need = json_stop
        else:
            self._large = LargeBody(header, self._view[body:json_stop], self._view[json_stop : self._end])

    def _fill_large(self, large: LargeBody, nbytes: int) -> list[E | Fatal]:
        if not large.filled(nbytes):
            return []
        self._large = None
        try:
            parts = large.parts()
        except MemoryError:
            event: E | Fatal = self._on_refused(no_memory(), large.start(self.limits.id_recovery))
        else:
            event = self._on_body(*parts)
        self._give_back()
        return [event]


def _after_blank_line(buffer: bytearray, start: int, stop: int) -> int:
    """The end of the first blank line; 0 without a blank line."""
    crlf, lf = buffer.find(b"\n\r\n", start, stop), buffer.find(b"\n\n", start, stop)
    if crlf >= 0 and (lf < 0 or crlf < lf):
        return crlf + 3
    return lf + 2 if lf >= 0 else 0


def _too_large(size: int, maximum: int) -> FrameTooLarge:
    return FrameTooLarge(
        f"the frame has {size} bytes; max_frame is {maximum}",
        hint="send large data in several writes, or start the server with a larger --max-frame",
        data={"limit": "max_frame", "maximum": maximum, "size": size},
    )


FORM = "A frame is `Content-Length: N`, a blank line, and N bytes of JSON."


class Header(msgspec.Struct, frozen=True, gc=False):
    """The lengths that a header block announces, in bytes; `problem` says why a frame of known length is unusable."""

    length: int
    json_length: int | None = None
    problem: str | None = None


def parse_header(block: bytes, max_length: int) -> Header:
    """The lengths in a header block.

    Names are taken in any case, space around names and values does not count, other headers are passed over, and a length
    may be repeated. Raises `ParseError` if `Content-Length` is missing, not decimal, contradictory, or beyond `max_length`:
    then the start of the next frame is unknown.
    """
    lengths: list[bytes] = []
    json_lengths: list[bytes] = []
    problem: str | None = None
    for line in block.split(b"\n"):
        name, colon, value = line.partition(b":")
        match name.strip().lower():
            case b"content-length":
                lengths.append(value.strip())
            case b"json-length":
                json_lengths.append(value.strip())
            case text if text and not colon:
                problem = 'a header line has no ":"'
            case _:
                pass
    if not lengths:
        raise ParseError("the header block has no Content-Length", hint=FORM)
    length = _number("Content-Length", lengths, max_length)
    if problem or not json_lengths:
        return Header(length, None, problem)
    try:
        return Header(length, _number("Json-Length", json_lengths, length))
    except ParseError as error:
        return Header(length, None, error.message)


def _number(name: str, values: list[bytes], most: int) -> int:
    if not all(value.isdigit() for value in values):
        raise ParseError(f"{name} is not a decimal number", hint=FORM)
    numbers = {int(value.lstrip(b"0")[:MAX_LENGTH_DIGITS] or b"0") for value in values}
    if len(numbers) > 1:
        raise ParseError(f"{name} is given more than once, with different values")
    number = numbers.pop()
    if number > most:
        raise ParseError(f"{name} is over {most}")
    return number


class LargeBody:
    """Memory for a body, or only for its raw tail if the JSON before it is received already.

    `json` is that JSON. `received` are the first bytes of the tail, or of the whole body without `json`. A tail is read into
    the memory of its `bytes`: an `io.BytesIO` returns the bytes it was made of without a copy, if it has the only reference.
    """

    __slots__ = ("_filled", "_header", "_json", "_lent", "_owner", "_target")

    def __init__(self, header: Header, json: memoryview | None, received: memoryview) -> None:
        self._header = header
        self._json = json
        self._owner = None if json is None else BytesIO(bytes(header.length - len(json)))
        self._target = self._owner.getbuffer() if self._owner else memoryview(bytearray(header.length))
        self._target[: len(received)] = received
        self._filled = len(received)
        self._lent: memoryview | None = None

    def __repr__(self) -> str:
        return f"<LargeBody {self._filled} of {len(self._target)}>"

    @property
    def missing(self) -> int:
        """The number of missing bytes."""
        return len(self._target) - self._filled

    def room(self) -> memoryview:
        """The memory for the next bytes; valid until `filled`."""
        self._lent = self._target[self._filled :]
        return self._lent

    def filled(self, nbytes: int) -> bool:
        """Count bytes that were written into `room()`. True if the body is complete."""
        if self._lent is not None:
            self._lent.release()
        self._filled += nbytes
        return self._filled == len(self._target)

    def start(self, most: int) -> memoryview:
        """The first bytes of the JSON."""
        return (self._target[: self._header.json_length] if self._json is None else self._json)[:most]

    def parts(self) -> tuple[memoryview, bytes | None, int]:
        """The JSON, the raw tail, and the size of the whole body."""
        size, cut = self._header.length, self._header.json_length
        if self._owner is not None and self._json is not None:
            self._target.release()
            return self._json, self._owner.getvalue(), size
        if cut is None:
            return self._target, None, size
        return self._target[:cut], bytes(self._target[cut:]), size


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
