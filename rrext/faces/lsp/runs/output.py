"""The stderr of the engine process: the output of tools, and the engine's log."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Final

from rrext.limits import KIB

MAX_UNFINISHED_LINE: Final = 4 * KIB
"""Characters of an unfinished line, after which it is shown."""
MAX_RUN_OUTPUT: Final = 64 * KIB
"""Bytes shown per run: an endless output must not fill the editor's log or the pipe to the editor."""


class EngineOutput:
    """Shows the output line by line, up to a limit; `refill` resets the limit."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._left = MAX_RUN_OUTPUT

    def refill(self) -> None:
        """Reset the limit at the start of a run."""
        self._left = MAX_RUN_OUTPUT

    def __call__(self, piece: bytes) -> None:
        """Take a piece of output."""
        if self._left <= 0:
            return
        self._left -= len(piece)
        *lines, self._rest = (self._rest + self._decoder.decode(piece)).split("\n")
        if len(self._rest) > MAX_UNFINISHED_LINE:
            lines, self._rest = [*lines, self._rest], ""
        if lines:
            self._tell("\n".join(lines))
        if self._left <= 0:
            self._rest = ""
            self._tell(f"(There is more output. Of each run, {MAX_RUN_OUTPUT} bytes are shown.)")
