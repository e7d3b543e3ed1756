"""The name of a tool anywhere: `tools.{provider}.{integration}.{action}.{connection}`, and the same as a function name.

In a function name `__` stands for the dots. Both forms of plain segments can be read; other segments, and function names
over 64 characters, end in a hash, and are understood through the table that made them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from rrext.limits import MAX_EXPORTED_NAME
from rrext.tools.names import SEPARATOR, hashed_name, is_plain

PREFIX: Final = "tools"
OWN: Final = "self"
"""The connection of a tool of this engine."""
DEFAULT: Final = "default"
"""The connection of a provider that has one for each integration."""


class CallRef(NamedTuple):
    """The five-part name of a tool, without the prefix."""

    provider: str
    integration: str
    action: str
    connection: str = OWN

    @property
    def is_plain(self) -> bool:
        """Whether all segments stand as they are."""
        return all(map(is_plain, self))

    @property
    def text(self) -> str:
        """The name with dots. Only a plain one can be read again."""
        return ".".join((PREFIX, *self))

    @property
    def names_a_wrapper(self) -> bool:
        """Whether the last segment is none of a tool as it is, so that only the table that made the name knows it."""
        own = {"node": OWN, "pipeline": OWN, "mcp": DEFAULT, "http": DEFAULT}.get(self.provider)
        return own is not None and self.connection != own

    @classmethod
    def read(cls, name: str) -> CallRef | None:
        """Read either form of a plain name; None for any other text."""
        return _read(name)


@lru_cache
def _read(name: str) -> CallRef | None:
    for separator in (".", SEPARATOR):
        parts = name.split(separator)
        if len(parts) == 5 and parts[0] == PREFIX and all(map(is_plain, parts)):
            return CallRef(*parts[1:])
    return None


class CallRefNames:
    """Two names for each of some call refs, different from those of all others: a text, and a function name."""

    def __init__(self, refs: Iterable[CallRef] = ()) -> None:
        self._names: dict[CallRef, tuple[str, str]] = {}
        self._refs: dict[str, CallRef] = {}
        for ref in sorted(refs, key=lambda ref: not ref.is_plain):
            self.add(ref)

    def add(self, ref: CallRef) -> tuple[str, str]:
        """The text and the function name of a ref, the same ones each time."""
        names = self._names.get(ref)
        if names is None:
            names = self._names[ref] = self._unused(ref)
            self._refs.update(dict.fromkeys(names, ref))
        return names

    def discard(self, ref: CallRef) -> None:
        """Forget the names of a ref."""
        for name in self._names.pop(ref, ()):
            del self._refs[name]

    def find(self, name: str) -> CallRef | None:
        """The ref of a text or function name of this table, or the one that a plain name says."""
        return self._refs.get(name) or CallRef.read(name)

    def _unused(self, ref: CallRef) -> tuple[str, str]:
        text, function, attempt = ref.text, SEPARATOR.join((PREFIX, *ref)), 0
        is_readable = ref.is_plain and text not in self._refs
        if is_readable and len(function) <= MAX_EXPORTED_NAME and function not in self._refs:
            return text, function
        segments = (PREFIX, ref.provider, "\0".join(ref[1:]))  # less than five, so that it never reads as a plain name
        while True:
            function = hashed_name(segments, attempt)
            dotted = text if is_readable else function.replace(SEPARATOR, ".")
            if function not in self._refs and dotted not in self._refs:
                return dotted, function
            attempt += 1
