"""Words as they are searched for: the same in a chunk and in a question, whatever the database's locale is.

PostgreSQL's own parser would take `a.b`, `x@y` or `c/d` for one word and `4e1f` for two, and it folds only ASCII letters
where the database's locale is C.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import repeat
from typing import Final
from unicodedata import normalize

__all__ = ["MAX_QUERY_WORDS", "SIMPLE", "any_of", "indexed_words", "words_of"]

SIMPLE: Final = "simple"
"""The language of words that are indexed as they are."""

MAX_QUERY_WORDS: Final = 500
"""Different words of a question that are searched for, the first ones: each makes the search slower."""
MAX_WORD: Final = 500
"""Characters of a word that count: PostgreSQL indexes 2046 bytes of one."""
LAST_PLACE: Final = 16383
"""Up to where PostgreSQL counts words."""

MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0ec8-\u0ecd\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
"""Signs over, under and beside letters, which belong to the word: without them Hindi or Thai would fall into letters."""
NO_WORD: Final = re.compile(rf"(?:[^\w{MARKS}]|_)+")


def words_of(text: str) -> list[str]:
    """The words of a text in its order, in one case and one form: letters, their marks, and digits alone."""
    text = text.lower() if text.isascii() else normalize("NFKC", normalize("NFKC", text).casefold())
    return [word[:MAX_WORD] for word in NO_WORD.sub(" ", text).split()]


def indexed_words(text: str, language: str) -> str:
    """What a table of that language indexes of a text: a tsvector as the server reads it, or else words to analyse."""
    words = words_of(text)
    if language != SIMPLE:
        return " ".join(words)
    # What stands beyond the last place that PostgreSQL counts stands there; it merges words that come again.
    places = [*range(1, LAST_PLACE), *repeat(LAST_PLACE, len(words))] if len(words) >= LAST_PLACE else range(1, LAST_PLACE)
    return " ".join([f"'{word}':{place}" for word, place in zip(words, places, strict=False)])


def any_of(text: str, frequent: Collection[str] = ()) -> str:
    """A tsquery that finds any of the words of a text; empty if it has none. No text can make it another query.

    The frequent words are left out, if there are others.
    """
    words = list(dict.fromkeys(words_of(text)))
    words = [word for word in words if word not in frequent] or words
    return " | ".join(f"'{word}'" for word in words[:MAX_QUERY_WORDS])
