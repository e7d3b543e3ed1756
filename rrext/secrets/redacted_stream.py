"""Standard streams that hide the values of variables in all output."""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Any, TextIO

from rrext.secrets.redaction import Redactor


class RedactedStream:
    """A text stream that passes texts without secrets to another stream, wherever the texts are cut.

    The end of an unfinished line waits if it may be the beginning of a secret: for the next text, or for `end`.
    """

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor
        self._rest = ""
        self._lock = threading.RLock()  # a signal may print between two lines of ours

    def write(self, text: str, /) -> int:
        """Write a text; returns its length, as streams do."""
        with self._lock:
            told, self._rest = self._redactor.piece(self._rest + text)
            if told or not text:
                self._stream.write(told)
        return len(text)

    def writelines(self, lines: Any, /) -> None:
        """Write texts, one by one."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the other stream. What may begin a secret waits on."""
        self._stream.flush()

    def end(self) -> None:
        """Write what waits."""
        with self._lock:
            rest, self._rest = self._rest, ""
            if rest:
                self._stream.write(self._redactor.text(rest))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def redact_streams(redactor: Redactor) -> None:
    """Hide secrets in all output of this process, to its end."""
    for name in ("stdout", "stderr"):
        stream = RedactedStream(getattr(sys, name), redactor)
        setattr(sys, name, stream)
        atexit.register(stream.end)
