"""The retries of a request, and the pauses before them."""

from __future__ import annotations

import random
from typing import Final

import msgspec

RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses of temporary failures: too early, too many, or an overloaded server. Others do not change with a retry."""


class Retries(msgspec.Struct, frozen=True):
    """The number of attempts of a request and the pauses between them."""

    count: int = 2
    """Retries after the first attempt."""
    delay: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    longest: float = 20.0
    """The longest such pause: a person would not wait longer."""
    longest_asked: float = 60.0
    """The longest pause of a `Retry-After` that is obeyed; a longer one is reported instead."""

    def pause(self, tried: int, asked: float | None) -> float | None:
        """Seconds until the next try, after `tried` tries failed; None: do not try again.

        `asked` is the pause that the server asked for. Otherwise the pause grows, and a random part of up to a half is left
        out, so that callers that failed together do not come back together.
        """
        if tried > self.count:
            return None
        if asked is not None:
            return asked if asked <= self.longest_asked else None
        longest = min(self.longest, self.delay * 2 ** (tried - 1))
        return random.uniform(longest / 2, longest)
