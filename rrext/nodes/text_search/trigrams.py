"""Trigrams: the three characters in a row by which texts and names are indexed, and the queries for them.

A text is indexed as `folded` says, which makes equal what any search that ignores case could find equal. So the index never
misses a text; it may name texts that hold nothing, which are read and dropped.

What a regular expression requires is read soundly, not completely: what the reader does not understand is anything at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

DEEPEST: Final = 20
"""Groups within groups that are read: FTS5 takes queries of a bounded depth."""
LONGEST_QUERY: Final = 4000
"""Characters of a query; one of more grams costs more than it saves."""

_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)
_GROUP: Final = re.compile(r"\?(?:P?<\w+>|[imsU-]*:)")
_FLAGS: Final = re.compile(r"\(\?[imsU-]+\)")
_REPEAT: Final = re.compile(r"(?:[*+?]|\{(\d+)(?:,\d*)?\})\??")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\[:.*?:\]|\\.|[^\]\\])*\]", re.DOTALL)
_ONE_OF_MANY: Final = re.compile(r"\\(?:[dDsSwWnrtfva]|[pP](?:\{[^}]*\}|[^{])|x(?:\{[^}]*\}|[0-9A-Fa-f]{2}))")
_CHARACTER: Final = re.compile(r"\\[!-/:-@\[-`{-~ ]|[^\\]", re.DOTALL)


def folded(text: str) -> str:
    """The text as it is indexed: without case (Unicode's full folding), and without NUL, where SQLite's tokenizer would end."""
    return text.casefold().replace("\0", " ")


def grams_of(literal: str) -> list[str]:
    """The different trigrams of a folded literal; none if it has less than three characters."""
    text = folded(literal)
    return list(dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2)))


def match_of(literals: Iterable[str]) -> str | None:
    """The FTS5 query for texts that may hold all literals; None if they have no trigram, and no index helps.

    It asks for every third trigram and the last one: the others cost time, and leave out few texts more.
    """
    found = (grams_of(literal) for literal in literals)
    grams = dict.fromkeys(gram for each in found for gram in (*each[:-1:3], *each[-1:]))
    return " AND ".join(f'"{gram.replace(chr(34), chr(34) * 2)}"' for gram in grams) or None


class _Unknown(Exception):
    """Something that the reader does not understand."""


def match_of_regex(pattern: str) -> str | None:
    """The FTS5 query for all texts that a valid expression of RE2 may fit, whether or not case counts; None for any text."""
    reader = _Reader(_QUOTED.sub(_unquoted, pattern))
    try:
        query = reader.either(0)
    except _Unknown:
        return None
    return query if reader.is_at_end and query is not None and len(query) <= LONGEST_QUERY else None


def _unquoted(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", found[1])


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._pattern)

    def either(self, depth: int) -> str | None:
        """The query for alternatives: any of theirs, and none if one of them fits anything."""
        if depth > DEEPEST:
            raise _Unknown
        branches = [self._sequence(depth)]
        while self._takes("|"):
            branches.append(self._sequence(depth))
        queries = dict.fromkeys(query for query in branches if query is not None)
        if None in branches:
            return None
        return next(iter(queries)) if len(queries) == 1 else f"({' OR '.join(f'({query})' for query in queries)})"

    def _sequence(self, depth: int) -> str | None:
        literals, queries = [""], []
        while not self.is_at_end and self._pattern[self._at] not in "|)":
            is_group = self._pattern[self._at] == "(" and not _FLAGS.match(self._pattern, self._at)
            inner = self._group(depth) if is_group else None
            literal = None if is_group else self._atom()
            repeat = self._match(_REPEAT)
            is_needed = repeat is None or repeat[0][0] == "+" or int(repeat[1] or 0) > 0
            if repeat is not None and _REPEAT.match(self._pattern, self._at):
                raise _Unknown
            if is_needed and literal is not None:
                literals[-1] += literal
            if is_needed and inner is not None:
                queries.append(inner)
            if literal is None or repeat is not None:
                literals.append("")
        own = match_of(literals)
        return " AND ".join([*queries, *([] if own is None else [own])]) or None

    def _group(self, depth: int) -> str | None:
        self._at += 1
        if self._pattern.startswith("?", self._at) and not self._match(_GROUP):
            raise _Unknown
        query = self.either(depth + 1)
        if not self._takes(")"):
            raise _Unknown
        return query

    def _atom(self) -> str | None:
        """The text that the next part of a sequence stands for; None if it stands for several."""
        if self._match(_FLAGS) or self._takes("^") or self._takes("$") or self._takes("\\b") or self._takes("\\B"):
            return ""
        if self._takes(".") or self._match(_CLASS) or self._match(_ONE_OF_MANY):
            return None
        found = self._match(_CHARACTER)
        if found is None or found[0] == "[":
            raise _Unknown
        return found[0][-1]

    def _takes(self, token: str) -> bool:
        is_next = self._pattern.startswith(token, self._at)
        self._at += len(token) if is_next else 0
        return is_next

    def _match(self, kind: re.Pattern[str]) -> re.Match[str] | None:
        found = kind.match(self._pattern, self._at)
        self._at = self._at if found is None else found.end()
        return found
