"""Words as they are searched for: the same in a chunk and in a question, whatever the database's locale is."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import normalize

__all__ = ["MAX_QUERY_WORDS", "any_of", "words_of"]

MAX_QUERY_WORDS: Final = 500
"""Different words of a question that are searched for, the first ones: each makes the search slower."""

NO_WORD: Final = re.compile(r"[\W_]+")


def words_of(text: str) -> str:
    """The words of a text, in its order, with a space between: letters and digits alone, in one case and one form.

    PostgreSQL would take `a.b`, `x@y` or `c/d` for one word, and folds only ASCII letters where the database's locale is C.
    """
    if not text.isascii():
        text = normalize("NFKC", normalize("NFKC", text).casefold())
    return NO_WORD.sub(" ", text).strip()


def any_of(text: str) -> str:
    """A tsquery that finds any of the words of a text; empty if it has none. No text can make it another query."""
    words = dict.fromkeys(words_of(text).split())
    return " | ".join(f"'{word}'" for word in list(words)[:MAX_QUERY_WORDS])
