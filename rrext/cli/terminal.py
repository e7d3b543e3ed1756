"""The terminal at the other end, if there is one, and how wide it is."""

from __future__ import annotations

import os
import shutil
from typing import IO

__all__ = ["is_terminal", "terminal_width"]

NARROWEST = 40
"""Columns that are used even if the terminal says that it has fewer."""


def is_terminal(file: IO[str]) -> bool:
    """Whether a line may be written anew there: a terminal that can move its cursor."""
    return file.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Columns of the terminal, or of `COLUMNS`."""
    return max(shutil.get_terminal_size().columns, NARROWEST)
