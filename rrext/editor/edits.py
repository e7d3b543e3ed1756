"""Edits of a text."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Edit(msgspec.Struct, frozen=True, order=True):
    """A replacement: `text` in place of the span between two offsets of the old text."""

    start: int
    end: int
    text: str


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits, which do not overlap; of two at one offset the first comes first."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*pieces, text[at:]])
