"""`Secret`: a password or key of a connection, read where its operator keeps it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from rrext.errors import ConnectionInvalid
from rrext.limits import MIN_LITERAL_SECRET
from rrext.secrets.names import is_secret_setting
from rrext.secrets.private_file import NotPrivate, open_private, read_private

if TYPE_CHECKING:
    from rrext.secrets.redaction import Redactor, ResultRedactor

_SWITCHES: Final = frozenset({"true", "false"})
KINDS: Final = ("env", "file", "keyring")
"""What may stand before the colon of a secret that is kept elsewhere."""


class Secret:
    """A text of a connection that nobody but its server may see.

    Written as `env:NAME`, `file:PATH`, `keyring:SERVICE/USER`, or as the text itself. `key` is that of its setting, and `name`
    stands for it in other texts.
    """

    __slots__ = ("_kind", "_place", "_redactors", "_value", "key", "name")

    def __init__(self, written: str) -> None:
        kind, _, place = written.partition(":")
        self._kind, self._place = (kind, place) if kind in KINDS and place else ("", "")
        self._value = None if self._kind else written
        self._redactors: list[Redactor | ResultRedactor] = []
        self.name = self.key = "secret"

    def look(self, variables: Mapping[str, str], folder: str) -> str | None:
        """Take the text from a variable; return why it cannot be found, if so. Paths begin at `folder`."""
        try:
            match self._kind:
                case "env":
                    self._value = variables.get(self._place) or None
                    return None if self._value else f"the variable {self._place} is not set"
                case "file":
                    self._place = os.path.join(folder, os.path.expanduser(self._place))
                    open_private(self._place).close()
                case "keyring" if "/" not in self._place:
                    return "expected keyring:SERVICE/USER"
                case "keyring" if find_spec("keyring") is None:
                    return 'keyring cannot be imported; install with: pip install "rrext[keyring]"'
                case _:
                    pass
        except NotPrivate as error:
            return str(error)
        return None

    @property
    def is_marked(self) -> bool:
        """Whether it is kept elsewhere, or its key or form tells that it is secret: other texts may be in any result."""
        return bool(self._kind) or is_secret_setting(self.key, self._value or "")

    def known_to(self, redactor: Redactor | ResultRedactor) -> None:
        """Let a redactor learn the text, now or when it is read."""
        self._redactors.append(redactor)
        if self._value is not None:
            self._tell(redactor, self._value)

    def reveal(self) -> str:
        """The text. Reads a file or the keyring at first, so call it in a thread. Raises `ConnectionInvalid`."""
        value = self._value
        if value is None:
            try:
                value = self._read()
            except (ConnectionInvalid, NotPrivate) as error:
                raise ConnectionInvalid(f"{self.name}: {error}") from None
            for redactor in self._redactors:
                self._tell(redactor, value)
            self._value = value
        return value

    def _tell(self, redactor: Redactor | ResultRedactor, value: str) -> None:
        """Let a redactor learn a text that is a secret: settings such as `true` stand in the same place."""
        if (self.is_marked or len(value) >= MIN_LITERAL_SECRET) and value.lower() not in _SWITCHES:
            redactor.learn(self.name, value, always=True)

    def _read(self) -> str:
        value: str | None = None
        if self._kind == "file":
            value = read_private(self._place).rstrip("\r\n")
        elif self._kind == "keyring":
            value = _from_keyring(*self._place.split("/", 1))
        if not value:
            raise ConnectionInvalid(f"there is nothing in {self._kind}:{self._place}")
        return value

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"


def _from_keyring(service: str, user: str) -> str | None:
    try:
        import keyring

        return keyring.get_password(service, user)
    except Exception as error:  # its backends raise whatever their systems do
        raise ConnectionInvalid(f"the keyring does not answer: {error or type(error).__name__}") from None
