"""The tree of a JSON text: values with their positions."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from rrext.pipefile.text.problems import Span

# The expected next token. Plain integers, because they are compared for every token of the text.
ROOT, KEY, VALUE, AFTER_VALUE, ELEMENT, AFTER_ELEMENT, NOTHING = range(7)


class LazyChildren(Protocol):
    """The children of a value, built at first use: most are never used."""

    def children(self) -> list[Located]: ...


class Located(msgspec.Struct, eq=False, gc=False):  # no reference cycles: values do not reference their parents
    """A value with its position. `kind` is `hole` where the text has a place for a value but no usable value.

    `key` and `key_span` are set inside objects. `sound` says of an object in a list that it was closed correctly, and that
    there is no problem in it, nor between it and the element before it. Read-only after the tree is built.
    """

    kind: str
    value: Any
    start: int
    end: int
    key: str | None = None
    key_span: Span | None = None
    inside: list[Located] | LazyChildren | None = None
    sound: bool = False

    @property
    def children(self) -> list[Located]:
        """The members of an object or a list, in the order of the text; a duplicate key has two."""
        inside = self.inside
        if isinstance(inside, list):
            return inside
        if inside is None:
            return []
        self.inside = found = inside.children()
        return found

    def moved(self, by: int, *, sound: bool | None = None) -> Located:
        """Copy the value to a place that is `by` further on in a text."""
        inside, key_span = self.inside, self.key_span
        if by and inside is not None:
            is_shifted = type(inside) is ShiftedChildren
            inside = ShiftedChildren(inside.origin, inside.by + by) if is_shifted else ShiftedChildren(self, by)
        if key_span is not None:
            key_span = (key_span[0] + by, key_span[1] + by)
        sound = self.sound if sound is None else sound
        return Located(self.kind, self.value, self.start + by, self.end + by, self.key, key_span, inside, sound)


class ShiftedChildren(msgspec.Struct, frozen=True, gc=False):
    """The children of another value, at positions that are `by` further on."""

    origin: Located
    by: int

    def children(self) -> list[Located]:
        """Copy the children of the other value to their new positions."""
        return [child.moved(self.by) for child in self.origin.children]
