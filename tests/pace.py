"""A limit of processor time that holds on every machine: as much longer as this processor is slower now than an idle one.

    assert is_within(0.1, lambda: seconds_of(work))

Work beside a thread takes the caches and half of the core from it, so that its own processor time grows too, for a while.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import thread_time
from typing import Final

__all__ = ["is_within"]

TRIES: Final = 6
USUAL: Final = 0.008
"""Seconds that the reference takes on the slowest processor for which the limits were written, when it is idle."""
REFERENCE: Final = re.compile(r"\w+|\s+|.")
TEXT: Final = "select a, 'b' from c; " * 5000


def is_within(limit: float, seconds: Callable[[], float]) -> bool:
    """Whether the work, which returns its seconds, ever takes no longer than the limit at the pace of the moment."""
    return any((taken := seconds()) < limit or taken < limit * slowness() for _ in range(TRIES))


def slowness() -> float:
    """How many times longer than usual the reference takes now; at least 1."""
    began = thread_time()
    for _ in REFERENCE.finditer(TEXT):
        pass
    return max(1.0, (thread_time() - began) / USUAL)
