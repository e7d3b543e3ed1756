"""Receives a body that is too large for the receive buffer, in memory of its own size."""

from __future__ import annotations

from io import BytesIO

from rrext.wire.header import Header


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
