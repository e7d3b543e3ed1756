"""The tree of a JSON text: values with their positions."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from rrext.pipefile.text.problems import Span

# What may come next. Plain integers: they are compared for every piece of the text.
ROOT, KEY, VALUE, AFTER_VALUE, ELEMENT, AFTER_ELEMENT, NOTHING = range(7)


class Inside(Protocol):
    """Gives the children of a value when somebody asks for them: most are never looked at."""

    def children(self) -> list[Located]: ...


class Located(msgspec.Struct, eq=False, gc=False):  # no circles: nothing in the tree knows what is around it
    """A value and where it stands. `kind` is `hole` where the text has a place for a value but no usable value.

    `key` and `key_span` are set inside objects. `sound` says of an object in a list that it was closed as it should be, and
    that nothing was wrong in it, nor between it and what stands before it. Whoever is not building the tree changes nothing.
    """

    kind: str
    value: Any
    start: int
    end: int
    key: str | None = None
    key_span: Span | None = None
    inside: list[Located] | Inside | None = None
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
        """The same value at another place of a text."""
        inside, key_span = self.inside, self.key_span
        if by and inside is not None:
            inside = Moved(inside.origin, inside.by + by) if type(inside) is Moved else Moved(self, by)
        if key_span is not None:
            key_span = (key_span[0] + by, key_span[1] + by)
        sound = self.sound if sound is None else sound
        return Located(self.kind, self.value, self.start + by, self.end + by, self.key, key_span, inside, sound)


class Moved(msgspec.Struct, frozen=True, gc=False):
    """The children of another value, at places that are `by` further on."""

    origin: Located
    by: int

    def children(self) -> list[Located]:
        """They themselves."""
        return [child.moved(self.by) for child in self.origin.children]
