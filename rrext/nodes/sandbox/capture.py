"""Keeps the beginning and the end of an output stream of any size. Needs nothing but Python."""

from __future__ import annotations

_CONTINUATION = bytes(range(0x80, 0xC0))
_WIDEST = 4  # bytes of a character in UTF-8


class Capture:
    """Collects the bytes of a stream in bounded memory, and gives their text cut to `limit` characters."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._half = limit * _WIDEST // 2  # bytes that hold half of the characters, whatever they are
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; never holds more than six bytes for each character of the limit."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:  # in large steps, so that each byte is moved about once
            self._drop(len(self._tail) - self._half)

    def _drop(self, count: int) -> None:
        for _ in range(_WIDEST - 1):  # whole characters, so that each is counted once
            if self._tail[count] & 0xC0 == 0x80:
                count += 1
        gone = bytes(self._tail[:count])
        self._dropped += len(gone.translate(None, _CONTINUATION))  # characters: bytes that begin one
        del self._tail[:count]

    def text(self) -> str:
        """The text, at most `limit` characters; bytes that are no UTF-8 become U+FFFD."""
        if not self._dropped:
            return cut_middle((self._head + self._tail).decode("utf-8", "replace"), self._limit)
        head = self._head.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        return cut_middle(head + tail, self._limit, left_out=self._dropped)


def cut_middle(text: str, limit: int, *, left_out: int = 0) -> str:
    """`text`, with its middle replaced by a marker if it is longer than `limit` characters.

    The result is never longer than `limit`. `left_out` characters are missing from the middle already.
    """
    if len(text) <= limit and not left_out:
        return text
    total = len(text) + left_out
    marker = ""
    for _ in range(3):  # the marker takes room too, and its length depends on the number that it tells
        marker = f"\n… [{total - max(limit - len(marker), 0)} characters left out] …\n"
    room = max(limit - len(marker), 0)
    first = (room + 1) // 2
    last = room - first
    return (text[:first] + marker + (text[-last:] if last else ""))[:limit]
