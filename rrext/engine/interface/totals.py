"""The numbers of an engine."""

from __future__ import annotations

from typing import NamedTuple


class Totals(NamedTuple):
    """The numbers of an engine: of what is loaded, and of all that ever was."""

    tasks: int
    pipes: int
    running: int
    calls: int
    completed: int
    failed: int
