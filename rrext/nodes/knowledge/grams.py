"""Trigrams: the three characters in a row by which texts and names are indexed, and the queries for them.

A text is indexed as `folded` says, which makes equal what any search that ignores case could find equal. So the index never
misses a text; it may name texts that hold nothing, which are read and dropped.
"""

from __future__ import annotations

from collections.abc import Iterable


def folded(text: str) -> str:
    """The text as it is indexed: without case (Unicode's full folding), and without NUL, where SQLite's tokenizer would end."""
    return text.casefold().replace("\0", " ")


def grams_of(literal: str) -> list[str]:
    """The different trigrams of a folded literal; none if it has less than three characters."""
    text = folded(literal)
    return list(dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2)))


def reason_of(error: Exception) -> str:
    """What RE2 says of a pattern that is none, which comes as bytes for some patterns."""
    told = error.args[0] if error.args else ""
    return str(told, "utf-8", "replace") if isinstance(told, bytes) else str(told)


def match_of(literals: Iterable[str]) -> str | None:
    """The FTS5 query for texts that may hold all literals; None if they have no trigram, and no index helps.

    It asks for every third trigram and the last one: the others cost time, and leave out few texts more.
    """
    found = (grams_of(literal) for literal in literals)
    grams = dict.fromkeys(gram for each in found for gram in (*each[:-1:3], *each[-1:]))
    return " AND ".join(f'"{gram.replace(chr(34), chr(34) * 2)}"' for gram in grams) or None
