"""What workers write to stderr, on its way to that of the server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rrext.limits import MAX_KEPT_SECRETS
from rrext.secrets.redaction import Redactor
from rrext.server.logs import keep_lines

if TYPE_CHECKING:
    from rrext.connections import Connections
    from rrext.pipefile.environment import Environment


class WorkerStderr:
    """Writes whole lines without secrets. It knows every variable, because code in C prints what no redactor sees."""

    def __init__(self, environment: Environment, connections: Connections, most: int) -> None:
        self._redactor = Redactor()
        self._used = environment.redactor
        self._most = most
        self._rests: dict[int, bytes] = {}
        for name in environment.names:
            self._redactor.learn(name, environment.get(name) or "", always=True)
        connections.known_to(self._redactor)

    def learn(self, values: Mapping[str, str]) -> None:
        """Learn the values of variables of a pipeline: of very many the last ones, since the first would be forgotten again."""
        for name, value in list(values.items())[-MAX_KEPT_SECRETS:]:
            self._redactor.learn(name, value)

    def redacted(self, text: str) -> str:
        """A text without secrets."""
        return self._redactor.text(self._used.text(text))

    def write(self, number: int, piece: bytes) -> None:
        """Write the lines that a piece of a worker's stderr completes."""
        *lines, rest = (self._rests.get(number, b"") + piece).split(b"\n")
        if len(rest) > self._most:
            text = rest.decode("utf-8", "surrogateescape")
            begun = min(self._redactor.begun(text), self._used.begun(text))  # a secret may go on in the next piece
            told, rest = (part.encode("utf-8", "surrogateescape") for part in (text[:begun], text[begun:]))
            lines += [told] if told else []
        self._rests[number] = rest
        if lines:
            shown = self.redacted(b"\n".join(lines).decode("utf-8", "replace"))
            keep_lines(shown.encode().split(b"\n"))
            sys.stderr.write(f"{shown}\n")
            sys.stderr.flush()

    def end(self, number: int) -> None:
        """Write the rest of a worker that has ended."""
        if self._rests.get(number):
            self.write(number, b"\n")
        self._rests.pop(number, None)
