"""Standard streams that hide the values of variables in all output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO


class RedactedStream:
    """A text stream that passes each text through `redact` to another stream."""

    def __init__(self, stream: TextIO, redact: Callable[[str], str]) -> None:
        self._stream = stream
        self._redact = redact

    def write(self, text: str, /) -> int:
        """Write a text; returns its length, as streams do."""
        self._stream.write(self._redact(text))
        return len(text)

    def writelines(self, lines: Any, /) -> None:
        """Write texts, one by one."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the other stream."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
