"""Rules of the embedded graph that need no import of Ladybug: settings, errors, checks of statements."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.graph.limits import MESSAGE_MAX

QUOTES: Final = re.compile(r"<.*?>:? ?", re.S)


_BY_TEXT: Final[tuple[tuple[str, FailureKind], ...]] = (
    ("Parser exception", "syntax"),
    ("Interrupted", "cancelled"),
    ("read-only", "read_only"),
    ("Only one write transaction", "locked"),
)


class EmbeddedSettings(msgspec.Struct, frozen=True):
    """`path` is empty for a database in memory. `lock_timeout` is in seconds, and so is `wait`, for other processes.

    `owner` is the process id shown to other processes.
    """

    path: str
    read_only: bool
    memory_mb: int
    threads: int
    lock_timeout: float
    procedures: tuple[str, ...] = ()
    wait: float = 10.0
    owner: int = 0


class EmbeddedError(Exception):
    """An error of Ladybug, which has no types of errors."""


def failure_of(error: Exception) -> Failure | None:
    """The failure of an error of Ladybug; None for any other exception."""
    if not isinstance(error, EmbeddedError):
        return None
    text = str(error)
    kinds: list[FailureKind] = [kind for sign, kind in _BY_TEXT if sign in text]
    return Failure(kinds[0] if kinds else "statement", sentence(text))


def sentence(message: str) -> str:
    """Ladybug's message, without the quoted statement."""
    lines = QUOTES.sub("", message).split("\n", 1)
    return lines[0].strip()[:MESSAGE_MAX]
