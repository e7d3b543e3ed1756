"""The words that every store indexes and searches: the same in a chunk and in a question, for every store.

The databases' own tokenizers disagree: one drops numbers, another takes `a.b`, `x@y` or `c/d` for one word and `4e1f` for two,
and folds only ASCII letters where the database's locale is C.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from unicodedata import normalize

from rrext.nodes.vectors.limits import MAX_QUERY_WORDS, MAX_WORD

MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0ec8-\u0ecd\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3"
)
"""Signs over, under and beside letters, which belong to the word: without them Hindi or Thai would fall into letters."""
NO_WORD: Final = re.compile(rf"(?:[^\w{MARKS}]|_)+")
UNSPACED: Final = (
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Letters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""
RUN: Final = re.compile(rf"[{UNSPACED}]+|[^{UNSPACED}]+")
HAS_UNSPACED: Final = re.compile(f"[{UNSPACED}]")


def unsplit_words(text: str) -> list[str]:
    """The words of a text in order, case-folded and normalized: letters, their marks, and digits only."""
    text = text.lower() if text.isascii() else normalize("NFKC", normalize("NFKC", text).casefold())
    return [word[:MAX_WORD] for word in NO_WORD.sub(" ", text).split()]


def stored_words(text: str) -> list[str]:
    """The indexed words of a chunk; for scripts without spaces, all letters and pairs of them."""
    words = unsplit_words(text)
    return words if text.isascii() else [part for word in words for part in _parts(word, single=True)]


def asked_words(text: str) -> list[str]:
    """The different words of a question, the first `MAX_QUERY_WORDS`."""
    words = unsplit_words(text)
    if not text.isascii():
        words = [part for word in words for part in _parts(word, single=False)]
    return list(dict.fromkeys(words))[:MAX_QUERY_WORDS]


def unspaced_words(text: str) -> list[str]:
    """The different words of a text that `stored_words` splits into letters and pairs."""
    return [] if text.isascii() else list(dict.fromkeys(word for word in unsplit_words(text) if HAS_UNSPACED.search(word)))


def share_of_words(asked: Collection[str], stored: Collection[str]) -> float:
    """The share of the question's words that a hit contains."""
    return max(1, len(set(asked).intersection(stored))) / len(asked)


def _parts(word: str, *, single: bool) -> list[str]:
    if not HAS_UNSPACED.search(word):
        return [word]
    found: list[str] = []
    for run in RUN.findall(word):
        if not HAS_UNSPACED.match(run):
            found.append(run)
            continue
        pairs = [run[n : n + 2] for n in range(len(run) - 1)]
        found += [*run, *pairs] if single or not pairs else pairs
    return found
