"""`LineReader`: cuts the stdout of a server into lines of bounded size."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rrext.providers.mcp.limits import LINE_ENDS

_ID: Final = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,64}")\s*'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ANSWER: Final = rb'"(?:result|error)"\s*:'
_ID_FIRST: Final = re.compile(rb"\s*\{\s*(?:%b,\s*)?%b,\s*%b" % (_VERSION, _ID, _ANSWER))
_ANSWER_FIRST: Final = re.compile(rb"\s*\{\s*(?:%b,\s*)?%b" % (_VERSION, _ANSWER))
_ID_LAST: Final = re.compile(rb"%b(?:,\s*%b)?\}\s*\Z" % (_ID, _VERSION))


class LongLine(msgspec.Struct, frozen=True):
    """Stands in place of a line over the limit: its size, and the bytes at its ends."""

    size: int
    head: bytes
    tail: bytes


class LineReader:
    """Holds the beginning of an unfinished line, at most `limit` bytes; of a longer line only its ends."""

    __slots__ = ("_head", "_limit", "_line", "_skipped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._head = b""
        self._skipped = 0

    @property
    def skipped(self) -> int:
        """Bytes of the present line that were thrown away; 0 for a line within the limit."""
        return self._skipped

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """Take bytes as they come, and return the lines that they finish, without line feeds."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | LongLine] = []
        for end in ends:
            if self._line or self._skipped:
                self._add(end)
                lines.append(self._finished())
            elif len(end) <= self._limit:
                lines.append(end)
            else:
                lines.append(LongLine(len(end), end[:LINE_ENDS], end[-LINE_ENDS:]))
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._line += piece
        if self._skipped == 0 and len(self._line) <= self._limit:
            return
        if self._skipped == 0:
            self._head = bytes(self._line[:LINE_ENDS])
        cut = max(0, len(self._line) - LINE_ENDS)
        self._skipped += cut
        del self._line[:cut]

    def _finished(self) -> bytes | LongLine:
        line, self._line = bytes(self._line), bytearray()
        skipped, self._skipped = self._skipped, 0
        return LongLine(skipped + len(line), self._head, line) if skipped else line


def answered_id(head: bytes, tail: bytes) -> int | str | None:
    """The id of the request that an unreadable message answers, found at its ends; None if that is not certain."""
    found = _ID_FIRST.match(head)
    if found is None and _ANSWER_FIRST.match(head):
        found = _ID_LAST.search(tail)
    return None if found is None else msgspec.json.decode(found[1])
