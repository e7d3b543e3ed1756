"""`Secret`: a password or key of a connection, read where its operator keeps it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rrext.errors import ConnectionInvalid

if TYPE_CHECKING:
    from rrext.redaction import Redactor

KINDS: Final = ("env", "file", "keyring")


class Secret:
    """A text of a connection that nobody but its server may see.

    Written in the file as `env:NAME`, `file:PATH`, `keyring:SERVICE/USER`, or as the text itself.
    """

    __slots__ = ("_kind", "_place", "_redactors", "_value", "name")

    def __init__(self, written: str) -> None:
        kind, colon, place = written.partition(":")
        self._kind, self._place = (kind, place) if colon and kind in KINDS else ("", "")
        self._value: str | None = None if self._kind else written
        self._redactors: list[Redactor] = []
        self.name = "secret"
        """The name that stands for the value in texts: `CONNECTION.KEY`."""

    @property
    def variable(self) -> str | None:
        """The environment variable with the text, if it is in one."""
        return self._place if self._kind == "env" else None

    def check(self, variables: Mapping[str, str]) -> str | None:
        """Take the value of a variable; return what is wrong with the place of the text."""
        if self._kind == "env":
            self._value = variables.get(self._place)
            if self._value is None:
                return f"the variable {self._place} is not set"
        return None

    def known_to(self, redactor: Redactor) -> None:
        """Let a redactor learn the text, now or when it is read."""
        self._redactors.append(redactor)
        if self._value is not None:
            redactor.learn(self.name, self._value)

    def reveal(self) -> str:
        """The text. Reads a file or the keyring at first, so call it in a thread. Raises `ConnectionInvalid`."""
        value = self._value
        if value is None:
            value = self._read()
            for redactor in self._redactors:
                redactor.learn(self.name, value)
            self._value = value
        return value

    def _read(self) -> str:
        if self._kind == "file":
            try:
                with open(os.path.expanduser(self._place), encoding="utf-8") as file:
                    return file.read().rstrip("\r\n")
            except (OSError, ValueError) as error:
                raise ConnectionInvalid(f"{self.name}: {self._place} cannot be read: {error}") from None
        raise ConnectionInvalid(f"{self.name}: {self._kind}:{self._place} has no value")

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"
