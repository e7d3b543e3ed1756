"""The terminal behind a stream, its width, and progress: one line rewritten in place on a terminal, occasional lines
elsewhere.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from threading import Lock
from typing import IO, Final, TextIO

from rrext.columns import cut, printable
from rrext.limits import CLIENT_DEFAULTS

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


def print_listening(address: str, *, page: str | None = None) -> None:
    """Announce that clients can connect, and people at the status page, if there is one."""
    end = ". Ctrl-C ends it" if sys.stderr.isatty() else ""
    print(f"rrext: listening at {address}{end}", file=sys.stderr, flush=True)
    if page is not None:
        print(f"rrext: status page: {page}", file=sys.stderr, flush=True)


ERASE = "\r\x1b[K"


class ProgressLine:
    """The latest state of a running work; thread-safe.

    Frequent states are skipped, except the last: `end` writes it where lines stay, and erases the line where it is rewritten.
    If a `summary_follows`, lines begin late and omit the last state, because work of a second needs only the summary.
    """

    def __init__(
        self, file: TextIO | None = None, *, summary_follows: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = file if file is not None else sys.stderr
        self.in_place = is_terminal(self._file)
        self._pause = CLIENT_DEFAULTS.progress_redraw if self.in_place else CLIENT_DEFAULTS.progress_line
        self._now = now
        self._summary_follows = summary_follows
        self._next = now() + self._pause if summary_follows and not self.in_place else 0.0
        self._hidden: str | None = None
        self._shown = False
        self._ended = False
        self._lock = Lock()

    def show(self, text: str) -> None:
        """Show a state."""
        now = self._now()
        with self._lock:
            self._hidden = text
            if now >= self._next and not self._ended:
                self._next = now + self._pause
                self._write()

    def clear(self) -> None:
        """Erase the line before other output. The next state is shown at once."""
        with self._lock:
            if self._shown:
                self._shown = False
                self._next = 0.0
                self._file.write(ERASE)
                self._file.flush()

    def end(self) -> None:
        """Show no more states, not even those of a thread that is left behind."""
        with self._lock:
            self._ended = True
            if self._hidden is not None and not (self.in_place or self._summary_follows):
                self._write()
        self.clear()

    def _write(self) -> None:
        text, self._hidden = printable(self._hidden or "").replace("\n", " "), None
        if self.in_place:
            self._shown = True
            self._file.write(ERASE + cut(text, terminal_width() - 1))
        else:
            self._file.write(text + "\n")
        self._file.flush()


def amount(value: float, total: float | None) -> str:
    """`3/10 (30%)`, or `3` without a total."""
    if total is None:
        return f"{value:.12g}"
    share = f" ({min(value / total, 1.0):.0%})" if total > 0 else ""
    return f"{value:.12g}/{total:.12g}{share}"


def size(nbytes: float) -> str:
    """A number of bytes in readable units: `980 B`, `1.5 MiB`."""
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        nbytes /= 1024
        if nbytes < 1000:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1024:.1f} TiB"


def pace(done: float, total: float, seconds: float) -> str:
    """The rate of bytes and the time that is left, as `1.5 MiB/s, 12 s left`; nothing in the first second."""
    if seconds < 1 or done <= 0:
        return ""
    left = f", {duration((total - done) / done * seconds)} left" if total > done else ""
    return f"{size(done / seconds)}/s{left}"


def duration(seconds: float) -> str:
    """A time in readable units: `12 s`, `3 min`, `2 h 5 min`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


MIN_WRAPPED_WIDTH: Final = 16
"""The minimal width of a wrapped column; below it, rows are lists."""
