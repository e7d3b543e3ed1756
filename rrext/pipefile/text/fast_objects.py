"""Reads objects of a text that are strict JSON with the fast decoder instead of the scanner.

The positions of their values are computed at first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rrext.limits import MAX_FAST_PIECE
from rrext.pipefile.text.source import is_plain
from rrext.pipefile.text.tree import Located

_STRING = r'"(?:[^"\\]++|\\.)*+"'


def _balanced(levels: int) -> str:
    """A pattern for the content of a bracket: brackets and quotes match down to `levels` levels. The decoder decides whether
    it is JSON.
    """
    plain = rf'[^"{{}}\[\]]++|{_STRING}'
    return f"(?:{plain})*+" if levels == 0 else rf"(?:{plain}|[{{\[]{_balanced(levels - 1)}[}}\]])*+"


_OBJECT: Final = re.compile(rf"\{{{_balanced(6)}\}}", re.DOTALL)
# Of what is known to be JSON: a key, if there is one, and a value, which is the last group.
_ITEM: Final = re.compile(
    rf"[ \t\r\n,]*+(?:({_STRING})[ \t\r\n]*+:[ \t\r\n]*+)?([{{\[]{_balanced(5)}[}}\]]|{_STRING}|[^ \t\r\n,\]}}]++)", re.DOTALL
)
_KINDS: Final = {dict: "object", list: "array", str: "string", int: "number", float: "number", type(None): "null"}


class FastObjects:
    """Finds the objects of one text that are strict JSON.

    An object that is not strict JSON is read again by the scanner. So the search ends after failures that add up to a few
    times the length of the text.
    """

    def __init__(self, text: str, max_depth: int) -> None:
        self._text = text
        self._max_depth = max_depth
        self._left = 4 * len(text) + MAX_FAST_PIECE

    def at(self, start: int, depth: int) -> Located | None:
        """The object that begins at `start` inside `depth` brackets, if it is strict JSON."""
        if self._left <= 0:
            return None
        found = _OBJECT.match(self._text, start, start + MAX_FAST_PIECE)
        if found is None:
            self._left -= min(MAX_FAST_PIECE, len(self._text) - start)
            return None
        piece = found[0]
        try:
            value = msgspec.json.decode(piece)
        except ValueError:
            value = None
        if value is None or not is_plain(value, piece, self._max_depth - depth):
            self._left -= len(piece)
            return None
        return Located("object", value, start, found.end(), inside=UnreadObject(piece, value, start))


class UnreadObject(msgspec.Struct, frozen=True, gc=False):
    """The children of a value that begins at `start`, computed at first use. `text` is the value's text, strict JSON."""

    text: str
    value: Any
    start: int

    def children(self) -> list[Located]:
        """Compute the children: their values are known, their positions are not."""
        items: Iterable[tuple[str | None, Any]] = (
            self.value.items() if type(self.value) is dict else ((None, item) for item in self.value)
        )
        found: list[Located] = []
        at = 1
        for key, value in items:
            match = _ITEM.match(self.text, at)
            assert match is not None  # it is JSON
            at = match.end()
            found.append(self._child(match, key, value))
        return found

    def _child(self, match: re.Match[str], key: str | None, value: Any) -> Located:
        start, end = match.start(2) + self.start, match.end() + self.start
        key_span = None if key is None else (match.start(1) + self.start, match.end(1) + self.start)
        kind = _KINDS.get(type(value)) or match[2]  # true and false are called what they are
        inside = UnreadObject(match[2], value, start) if kind == "object" or kind == "array" else None
        return Located(kind, value, start, end, key, key_span, inside)
