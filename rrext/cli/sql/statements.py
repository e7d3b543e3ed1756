"""Splitting of SQL text into statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Final

import msgspec

from rrext.nodes import BUILTIN
from rrext.nodes.sql.dialect import BACKTICKED_NAME, ESCAPED_LITERAL, SqlDialect


class Statement(msgspec.Struct, frozen=True):
    """One statement without its `;`. `line` is its first line, from 1; `is_ended`: a `;` follows."""

    text: str
    line: int
    is_ended: bool

    @property
    def first_word(self) -> str:
        """The first word in lower case."""
        found = _FIRST.match(self.text, _start(self.text, 0))
        return found[0].lower() if found else ""


_GAP: Final = re.compile(r"(?:\s+|--[^\n]*+|/\*(?!M?!).*?\*/)*+", re.DOTALL)
"""Blanks and comments, except comments that MySQL and MariaDB execute."""
_FIRST: Final = re.compile(r"\w+")

_CYPHER: Final = rf"//[^\n]*|{ESCAPED_LITERAL}|\"(?:[^\"\\]|\\(?:.|\Z))*(?:\"|\Z)|{BACKTICKED_NAME}"
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")

_WITH_BODY: Final = frozenset({"trigger", "procedure", "function", "event"})
"""Objects of CREATE with statements between BEGIN and END."""
_CONTROLS: Final = frozenset({"if", "loop", "while", "repeat"})
"""Words after END that close other blocks than BEGIN and CASE."""


@lru_cache(maxsize=8)
def _pattern(literals: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<comment>/\*)|(?P<end>;)|{literals}|(?P<word>[^\W\d][\w$]*)", re.DOTALL)


def statements(text: str, dialect: str) -> Iterator[Statement]:
    """The statements of a text, as its dialect reads it, by its name; the last one needs no `;`. Comments alone are none."""
    sql = sql_dialect(dialect)
    find = _pattern(_CYPHER if sql is None else sql.literals).search
    nests = sql is not None and sql.nested_comments
    begin = at = 0
    line, body = 1, _CreateBody()
    while match := find(text, at):
        at = match.end()
        if match["comment"] is not None:
            at = _comment_end(text, at, nests=nests)
        elif match["word"] is not None:
            body.word(match["word"].lower())
        elif match["end"] is not None and not body.depth:
            yield from _statement(text, begin, at - 1, line, is_ended=True)
            line += text.count("\n", begin, at)
            begin, body = at, _CreateBody()
    yield from _statement(text, begin, len(text), line, is_ended=False)


class _CreateBody:
    """The nesting depth inside the BEGIN … END of a CREATE statement."""

    def __init__(self) -> None:
        self.depth = 0
        self._first = self._last = ""
        self._is_there = False

    def word(self, word: str) -> None:
        """Take the next word."""
        self._first = self._first or word
        if self._first == "create":
            self._is_there = self._is_there or word in _WITH_BODY
            if word == "end":
                self.depth = max(0, self.depth - 1)
            elif self._is_there and self._opens(word):
                self.depth += 1
        self._last = word

    def _opens(self, word: str) -> bool:
        return word == "begin" or (word in _CONTROLS if self._last == "end" else word == "case" and self.depth > 0)


def _comment_end(text: str, at: int, *, nests: bool) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(text, at)):
        at = edge.end()
        depth += (1 if nests else 0) if edge[0] == "/*" else -1
    return at if not depth else len(text)


def _start(text: str, begin: int) -> int:
    """The offset of the first word of the statement at `begin`."""
    return _GAP.match(text, begin).end()  # pyright: ignore[reportOptionalMemberAccess] – it matches nothing at least


def _statement(text: str, begin: int, end: int, line: int, *, is_ended: bool) -> Iterator[Statement]:
    start = _start(text, begin)
    if start < end:
        inner = text[begin:end].lstrip()
        yield Statement(inner.rstrip(), line + text.count("\n", begin, end - len(inner)), is_ended)


def sql_dialect(name: str) -> SqlDialect | None:
    """The dialect of the node `db_NAME`; None for another language. Imports the module of the node, and no driver."""
    module, _, node = BUILTIN.get(f"db_{name}", "").partition(":")
    return getattr(import_module(module), node).sql_dialect if module else None
