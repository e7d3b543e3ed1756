"""Objects of a text that are strict JSON: the fast decoder reads them, and nobody looks at each of their characters.

Where the values in such a piece stand is worked out when it is asked for.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rrext.engine.source import is_plain
from rrext.engine.tree import Located

__all__ = ["Pieces"]

LONGEST: Final = 65_536
"""Characters of a piece."""


def _balanced(levels: int) -> str:
    """An object whose brackets and quotes match, as far as so many levels; whether it is JSON is for others to say."""
    plain = r'[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"'
    inside = plain
    for _ in range(levels - 1):
        inside = rf"{plain}|[{{\[](?:{inside})*+[}}\]]"
    return rf"\{{(?:{inside})*+\}}"


_BALANCED: Final = re.compile(_balanced(7), re.DOTALL)


class Pieces:
    """The pieces of one text.

    What turns out to be none is read again in the slow way, so that looking for pieces ends when that was in vain for a few
    times the length of the text.
    """

    __slots__ = ("_left", "_max_depth", "_text")

    def __init__(self, text: str, max_depth: int) -> None:
        self._text = text
        self._max_depth = max_depth
        self._left = 4 * len(text) + LONGEST

    def at(self, start: int, depth: int) -> Located | None:
        """The object that begins at `start` below `depth` brackets, if it is a piece."""
        if self._left <= 0:
            return None
        found = _BALANCED.match(self._text, start, start + LONGEST)
        if found is None:
            self._left -= min(LONGEST, len(self._text) - start)
            return None
        piece = found[0]
        try:
            value = msgspec.json.decode(piece)
        except ValueError:
            value = None
        if value is None or not is_plain(value, piece, self._max_depth - depth):
            self._left -= len(piece)
            return None
        return Located("object", value, start, found.end(), inside=Unread(piece, start))

    def __repr__(self) -> str:
        return f"<Pieces of {len(self._text)} characters>"


class Unread(msgspec.Struct, frozen=True, gc=False):
    """The children of a piece that begins at `start`, before anybody asked for them."""

    text: str
    start: int

    def children(self) -> list[Located]:
        """Read the piece."""
        from rrext.engine.jsonc import Scanner
        from rrext.engine.problems import Problems

        root = Scanner(self.text, Problems(), len(self.text), None).run()
        return [child.moved(self.start) for child in root.children]
