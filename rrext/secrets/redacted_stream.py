"""Standard streams that hide the values of variables in all output."""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Any, Final, TextIO

from rrext.secrets.redaction import Redactor

MAX_UNFINISHED: Final = 8192
"""Characters of a line that wait for its end: more than one write of a tool's line has; a longer one goes out in pieces."""


class RedactedStream:
    """A text stream that passes texts without secrets to another stream, wherever the texts are cut.

    An unfinished line of a thread waits for its end, for `flush` or `end`, so that lines of two threads do not mix. Its end
    waits on if it may be the beginning of a secret.
    """

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor
        self._rest = ""
        self._unfinished: dict[int, str] = {}
        """The unfinished lines, by thread."""
        self._lock = threading.RLock()  # a signal may print between two lines of ours

    def write(self, text: str, /) -> int:
        """Write a text; returns its length, as streams do."""
        with self._lock:
            thread = threading.get_ident()
            whole = self._unfinished.pop(thread, "") + text
            end = len(whole) if len(whole) > MAX_UNFINISHED else whole.rfind("\n") + 1
            if end < len(whole):
                self._unfinished[thread] = whole[end:]
            if end or not text:
                self._tell(whole[:end])
        return len(text)

    def _tell(self, text: str) -> None:
        told, self._rest = self._redactor.piece(self._rest + text)
        self._stream.write(told)

    def writelines(self, lines: Any, /) -> None:
        """Write texts, one by one."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the line of this thread, and the other stream. What may begin a secret waits on."""
        with self._lock:
            line = self._unfinished.pop(threading.get_ident(), "")
            if line:
                self._tell(line)
        self._stream.flush()

    def end(self) -> None:
        """Write what waits."""
        with self._lock:
            rest, self._rest = "".join([self._rest, *self._unfinished.values()]), ""
            self._unfinished.clear()
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
