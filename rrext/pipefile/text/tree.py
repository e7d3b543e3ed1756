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

    `key` and `key_span` are set inside objects. Read-only after the tree is built.
    """

    kind: str
    value: Any
    start: int
    end: int
    key: str | None = None
    key_span: Span | None = None
    inside: list[Located] | LazyChildren | None = None

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
