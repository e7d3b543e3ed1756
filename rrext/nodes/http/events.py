"""Server-sent events: parses the data of each event from bytes in pieces of any size."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from rrext.errors import ToolError

MAX_EVENT: Final = 4 * 1024 * 1024
"""Characters of one event, or of a line without an end; an event of a model has a few hundred."""

ENDS: Final = re.compile(r"[\r\n]")


class EventReader:
    """Takes pieces of a stream and returns the data of the events that they complete.

    Lines end with LF, CR LF or CR. Names, ids, pauses and comments are passed over; lines of data in one event are
    joined by LF. An event that no blank line completes is none.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest: list[str] = []
        self._rest_size = 0
        self._data: list[str] = []
        self._size = 0
        self._limit = limit

    def feed(self, piece: bytes) -> Iterator[str]:
        """The data of each event that ends within this piece. Raises `ToolError` for one that is far too long."""
        text = self._decoder.decode(piece)
        if not text:
            return
        self._rest_size += len(text)
        # A line in many pieces is joined once, when it ends: joining after each piece would take quadratic time.
        if not (ENDS.search(text) or (self._rest and self._rest[-1].endswith("\r"))):
            self._require(self._rest_size)
            self._rest.append(text)
            return
        text = "".join([*self._rest, text])
        # A CR at the end may be half of a line's end.
        held = "\r" if text.endswith("\r") else ""
        lines = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rest = lines.pop() + held
        self._rest, self._rest_size = [rest] if rest else [], len(rest)
        self._require(self._rest_size)
        for line in lines:
            if line:
                self._take(line)
            elif self._data:
                data, self._data, self._size = "\n".join(self._data), [], 0
                yield data

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._size += len(value)
            self._require(self._size)
            self._data.append(value.removeprefix(" "))

    def _require(self, size: int) -> None:
        if size > self._limit:
            raise ToolError(
                f"An event of the stream has over {self._limit} characters",
                code="model_answer_too_large",
                data={"limit": "max_event", "maximum": self._limit},
            )
