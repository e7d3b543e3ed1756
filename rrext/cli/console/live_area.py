"""The end of a terminal's screen that is drawn anew while it changes, and text as it is shown there.

Lines that are finished are written once, above the area. Only what may still change is in the area: a whole text that is drawn
anew with each piece costs time by the square of its length.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from io import TextIOBase
from shutil import get_terminal_size
from threading import Lock
from typing import Final, TextIO, TypeAlias

from rrext.cli.console.lines import MIN_TERMINAL_WIDTH, terminal_width
from rrext.cli.console.output import Results
from rrext.columns import printable, wrapped

Render: TypeAlias = Callable[[str, int], list[str]]
"""The lines of a text, for a terminal of that width."""

MAX_RENDERED: Final = 500
"""Lines of a block that is shown as Markdown; a longer one, whose drawing would stop the loop, is shown as it is."""

MAX_RENDERED_TEXT: Final = 40_000
"""Characters of such a block."""

FENCES: Final = ("```", "~~~")
STYLES: Final = re.compile(r"\x1b\[[0-9;]*m")


class LiveArea:
    """The lines at the end of the screen. From any thread."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._height = 0
        self._lock = Lock()

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines in place of the area's; of more than the screen has, the last."""
        columns, height = get_terminal_size()
        room = max(height - 1, 1)
        # of a terminal so narrow that lines would be broken, nobody knows how many there are
        self._replace((), lines[-room:] if columns >= MIN_TERMINAL_WIDTH else ())

    def put(self, lines: Sequence[str]) -> None:
        """Write finished lines in the place of the area, which is empty then."""
        self._replace(lines, ())

    def _replace(self, lines: Sequence[str], area: Sequence[str]) -> None:
        written = "".join(f"{line}\n" for line in (*lines, *area))
        with self._lock:
            erase = f"\x1b[{self._height}F\x1b[J" if self._height else ""
            if erase or written:
                self._results.write((erase + written).encode("utf-8", "replace"))
            self._height = len(area)


class AboveArea(TextIOBase):
    """A stream of messages on the same terminal: what nodes print stands above the area, which is drawn again later."""

    def __init__(self, stream: TextIO, area: LiveArea) -> None:
        self._stream = stream
        self._area = area

    def write(self, text: str, /) -> int:
        self._area.put(())
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()


class LiveText:
    """A text that grows: its finished blocks are written once, the last one is drawn anew."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._rest = ""
        self._fence = -1
        """Where the fence begins in which the rest ends; -1 outside of one."""
        self._has_block = False

    def add(self, piece: str) -> list[str]:
        """Add a piece; the lines of what is finished now."""
        self._rest += printable(piece)
        if "\n" not in piece:  # only the end of a line ends a block, and the lines before it are looked at again
            return []
        end, fence = end_of_blocks(self._rest)
        self._fence = fence - end if fence >= 0 else -1
        finished, self._rest = self._rest[:end], self._rest[end:]
        return self._block(finished)

    @property
    def last(self) -> list[str]:
        """The lines of the block that may still grow; of one that is higher than the screen, about the last that fit."""
        room = get_terminal_size().lines
        lines = self._rest.split("\n")
        if len(lines) <= room:
            return self._spaced(self._shown(self._rest))
        if self._fence < 0:
            return plain("\n".join(lines[-room:]), terminal_width() - 1)
        opening, *code = self._rest[self._fence :].split("\n")
        return self._shown("\n".join([opening, *code[-room:]]))

    def end(self) -> list[str]:
        """The lines of the last block; the text begins anew."""
        lines, self._rest = self._block(self._rest), ""
        self._fence = -1
        self._has_block = False
        return lines

    def _block(self, text: str) -> list[str]:
        lines = self._spaced(self._shown(text))
        self._has_block = self._has_block or bool(lines)
        return lines

    def _spaced(self, lines: list[str]) -> list[str]:
        return ["", *lines] if lines and self._has_block else lines

    def _shown(self, text: str) -> list[str]:
        text = text.strip("\n")
        is_long = len(text) > MAX_RENDERED_TEXT or text.count("\n") >= MAX_RENDERED
        return (plain if is_long else self._render)(text, terminal_width() - 1) if text.strip() else []


def end_of_blocks(text: str) -> tuple[int, int]:
    """Where the finished blocks of a Markdown text end, at its last empty line outside of a fence, and where the fence begins
    in which it ends: -1 outside of one.
    """
    end = at = 0
    begin = -1
    fence = ""
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        content = line.strip()
        if fence:
            fence = "" if content.startswith(fence) else fence
        elif content.startswith(FENCES):
            fence, begin = content[:3], start
        elif not content and line.endswith("\n"):
            end = at
    return end, begin if fence else -1


def plain(text: str, width: int) -> list[str]:
    """The lines of a text, as they are."""
    return [part for line in text.split("\n") for part in (wrapped(line, width) if len(line) > width else [line])]


def markdown() -> Render:
    """A function that shows Markdown. Raises `ImportError` without its package."""
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    def render(text: str, width: int) -> list[str]:
        file = StringIO()
        system = None if os.environ.get("NO_COLOR") else "standard"
        console = Console(file=file, width=width, force_terminal=True, color_system=system, legacy_windows=False)
        console.print(Markdown(text, hyperlinks=False, code_theme="ansi_dark"))
        lines = [line.rstrip() for line in file.getvalue().split("\n")]
        shown = [place for place, line in enumerate(lines) if STYLES.sub("", line).strip()]  # tables and code have a margin
        return lines[shown[0] : shown[-1] + 1] if shown else []

    return render
