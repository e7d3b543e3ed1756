"""`ServerLog`: what a server says beside the protocol, in our log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

LOGGED_LINES: Final = 100
"""Lines of a server's stderr and of other text on its stdout that are logged in `LOGGED_TIME`; the rest is counted."""
LOGGED_TIME: Final = 10.0
"""Seconds to which `LOGGED_LINES` applies."""
LOGGED_LINE: Final = 2000
"""Characters of one logged line."""


log = logging.getLogger("rrext.providers.mcp")


class ServerLog:
    """Logs whole lines of bounded size and number, without secrets; the lines beyond that number are counted."""

    def __init__(self, connection: str, redact: Callable[[str], str]) -> None:
        self._connection = connection
        self._redact = redact
        self._rest = ""
        self._begun = 0.0
        self._count = 0

    def piece(self, data: bytes) -> None:
        """A piece of the server's stderr, cut anywhere."""
        *lines, rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        self._rest = rest[: 2 * LOGGED_LINE]  # the rest of a long line is left out, and no secret is cut into two lines
        for line in lines:
            self.line("stderr", line)

    def end(self) -> None:
        """The end of the server's stderr."""
        self.line("stderr", self._rest)

    def line(self, origin: str, text: str) -> None:
        """A line that the server wrote to `origin`."""
        text = text[: 2 * LOGGED_LINE].strip()  # before the redaction, which takes time, and with room for cut secrets
        if not text:
            return
        if monotonic() - self._begun > LOGGED_TIME:
            if self._count > LOGGED_LINES:
                log.warning("connection %s: %d more lines were not logged", self._connection, self._count - LOGGED_LINES)
            self._begun, self._count = monotonic(), 0
        self._count += 1
        if self._count <= LOGGED_LINES:
            log.info("connection %s, %s: %s", self._connection, origin, self._redact(text)[:LOGGED_LINE])
