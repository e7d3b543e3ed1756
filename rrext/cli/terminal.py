"""The terminal behind a stream, and its width."""

from __future__ import annotations

import os
import shutil
from typing import IO

from rrext.cli.limits import MIN_TERMINAL_WIDTH


def is_terminal(file: IO[str]) -> bool:
    """Whether a stream is a terminal that can move its cursor."""
    return file.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Columns of the terminal, or of `COLUMNS`."""
    return max(shutil.get_terminal_size().columns, MIN_TERMINAL_WIDTH)
