"""The terminal behind a stream, and its width."""

from __future__ import annotations

import os
import sys
from typing import IO, Final

MIN_TERMINAL_WIDTH: Final = 40
"""The assumed width of a narrower terminal."""


def is_terminal(file: IO[str]) -> bool:
    """Whether a stream is a terminal that can move its cursor."""
    return file.isatty() and os.environ.get("TERM") != "dumb"


def has_terminal() -> bool:
    """Whether a terminal controls this process, whose end SIGHUP tells then."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def is_coloured(file: IO[str]) -> bool:
    """Whether output on a stream has colours: on a terminal, unless `NO_COLOR` is set."""
    return is_terminal(file) and not os.environ.get("NO_COLOR")


def terminal_width() -> int:
    """Columns of the terminal, or of `COLUMNS`."""
    from shutil import get_terminal_size  # a server never asks, and starts two milliseconds sooner without

    return max(get_terminal_size().columns, MIN_TERMINAL_WIDTH)


def painted(text: str, colour: str | None) -> str:
    """The text in a colour, given by its SGR parameters; None leaves it as it is."""
    return text if colour is None else f"\x1b[{colour}m{text}\x1b[0m"


def tell_listening(address: str) -> None:
    """Announce that clients can connect."""
    end = ". Ctrl-C ends it" if sys.stderr.isatty() else ""
    print(f"rrext: listening at {address}{end}", file=sys.stderr, flush=True)
