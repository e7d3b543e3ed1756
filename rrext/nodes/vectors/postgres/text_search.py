"""Words in the form of PostgreSQL's text search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Final

from rrext.nodes.vectors.store import SIMPLE
from rrext.nodes.vectors.words import asked_words, former_words, stored_words

LAST_PLACE: Final = 16383
"""The last word position that PostgreSQL stores."""


def indexed_words(text: str, language: str) -> str:
    """The words of a text that a table of that language indexes: a tsvector as the server reads it, or else words to
    analyse."""
    words = stored_words(text)
    if language != SIMPLE:
        return " ".join(words)
    # Words beyond the last position share that position; PostgreSQL merges repeated ones.
    places = [*range(1, LAST_PLACE), *repeat(LAST_PLACE, len(words))] if len(words) >= LAST_PLACE else range(1, LAST_PLACE)
    return " ".join([f"'{word}':{place}" for word, place in zip(words, places, strict=False)])


def telling_words(text: str, frequent: Collection[str] = ()) -> list[str]:
    """The words of a question without the frequent ones, if others are left."""
    words = asked_words(text)
    return [word for word in words if word not in frequent] or words


def any_of(text: str, words: Sequence[str]) -> str:
    """A tsquery that finds any of the words of a text; empty if it has none. No text can inject another query.

    It finds the words in the forms that older rows have, too.
    """
    wanted = dict.fromkeys([*words, *former_words(text)])
    return " | ".join(f"'{word}'" for word in wanted)


def all_of(text: str) -> str:
    """A tsquery that finds all words of a text together."""
    return " & ".join(f"'{word}'" for word in asked_words(text))
