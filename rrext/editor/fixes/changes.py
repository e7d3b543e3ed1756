"""The composition of successive edits into edits of the first text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rrext.editor.edits import Edit

Piece: TypeAlias = tuple[int, int] | str
"""A span of the first text, or new text."""


class Changes:
    """A text under repeated edits. `edits` is its difference to the first text."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._pieces: list[Piece] = [(0, len(text))]

    def add(self, edits: Iterable[Edit]) -> None:
        """Apply edits of the current text; they do not overlap."""
        made: list[Piece] = []
        waiting = [*reversed(self._pieces)]
        at = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            at = _pass(waiting, edit.start - at, made, at)
            at = _pass(waiting, edit.end - at, [], at)
            if edit.text:
                made.append(edit.text)
        self._pieces = [*made, *reversed(waiting)]

    def edits(self) -> tuple[Edit, ...]:
        """One edit for each removed span of the first text, and for new text."""
        found: list[Edit] = []
        at, new = 0, ""
        for piece in (*self._pieces, (self._length, self._length)):
            if isinstance(piece, str):
                new += piece
                continue
            start, end = piece
            if start > at or new:
                found.append(Edit(at, start, new))
                new = ""
            at = end
        return tuple(found)


def _pass(waiting: list[Piece], count: int, made: list[Piece], at: int) -> int:
    """Move `count` characters from the waiting pieces to the made ones; returns the offset behind them."""
    at += count
    while count:
        piece = waiting.pop()
        length = len(piece) if isinstance(piece, str) else piece[1] - piece[0]
        if length > count:
            head, tail = _cut(piece, count)
            waiting.append(tail)
            piece, length = head, count
        made.append(piece)
        count -= length
    return at


def _cut(piece: Piece, count: int) -> tuple[Piece, Piece]:
    if isinstance(piece, str):
        return piece[:count], piece[count:]
    return (piece[0], piece[0] + count), (piece[0] + count, piece[1])
