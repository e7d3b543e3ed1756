"""`$1`, `$2`, … in the text of a statement: where they are, and where they only look like it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from rrext.errors import InvalidArguments

__all__ = ["spaced_placeholders", "split_at_placeholders"]

_COMMON = r"\$(?P<number>[0-9]+)(?![\w$])|(?P<comment>/\*)|(?:[^\W\d]|\$(?=\w))[\w$]*|'(?:[^']|'')*(?:'|\Z)"
"""A placeholder; where a comment begins; a word, which goes on over `$`, so that `price$1` holds no placeholder; a literal."""
_LINE = r"--[^\n]*"
_QUOTED = r'"(?:[^"]|"")*(?:"|\Z)'
_BACKTICKS = r"`(?:[^`]|``)*(?:`|\Z)"
_ESCAPED = r"'(?:[^'\\]|\\.|'')*(?:'|\Z)"
_DOLLARS = r"\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)"

_PATTERNS: Final = {
    "sqlite": rf"{_LINE}|{_QUOTED}|{_BACKTICKS}|\[[^\]]*(?:\]|\Z)|{_COMMON}",
    "duckdb": rf"{_LINE}|[eE]{_ESCAPED}|{_QUOTED}|{_DOLLARS}|{_COMMON}",
    "postgres": rf"{_LINE}|[eE]{_ESCAPED}|{_QUOTED}|{_DOLLARS}|{_COMMON}",
    "mysql": (rf"--(?=[\s\x00-\x1f]|\Z)[^\n]*|\#[^\n]*|{_ESCAPED}|\"(?:[^\"\\]|\\.|\"\")*(?:\"|\Z)|{_BACKTICKS}|{_COMMON}"),
}
"""Dialect → what must be read as a whole. What is not closed goes on to the end of the text: the database will say so."""

_NESTING: Final = frozenset({"postgres", "duckdb"})
"""Dialects whose comments contain each other."""
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


@lru_cache(maxsize=8)
def _pattern(dialect: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[dialect], re.DOTALL)


def split_at_placeholders(sql: str, dialect: str, count: int) -> tuple[list[str], list[int]]:
    """The text before, between and after the placeholders, and the number of each; one text more than numbers.

    What stands in literals, quoted names, comments and dollar-quoted strings is no placeholder. Raises
    `InvalidArguments` for one that has no value among `count`, and for a value that no placeholder uses.
    """
    texts: list[str] = []
    numbers: list[int] = []
    done = 0
    for match in _placeholders(sql, dialect):
        texts.append(sql[done : match.start()])
        numbers.append(int(match["number"][:9]))
        done = match.end()
    texts.append(sql[done:])
    _check(numbers, count)
    return texts, numbers


def spaced_placeholders(sql: str, dialect: str) -> str:
    """The statement with a blank after every placeholder: sqlglot takes `$1,$` for the beginning of a dollar-quoted string."""
    made: list[str] = []
    done = 0
    for match in _placeholders(sql, dialect):
        made += (sql[done : match.end()], " ")
        done = match.end()
    return "".join((*made, sql[done:]))


def _placeholders(sql: str, dialect: str) -> Iterator[re.Match[str]]:
    if "$" not in sql:
        return
    nests, at, find = dialect in _NESTING, 0, _pattern(dialect).search
    while match := find(sql, at):
        at = match.end()
        if match["number"] is not None:
            yield match
        elif match["comment"] is not None:
            at = _comment_end(sql, at, nests=nests)


def _comment_end(sql: str, at: int, *, nests: bool) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(sql, at)):
        at = edge.end()
        depth += (1 if nests else 0) if edge[0] == "/*" else -1
    return at if not depth else len(sql)


def _check(numbers: list[int], count: int) -> None:
    used = set(numbers)
    for number in numbers:
        if not 1 <= number <= count:
            message = f"placeholder ${number} out of range for {count} param(s)"
            raise InvalidArguments(message, data={"errors": [{"path": "/input/sql", "message": message}]})
    if len(used) < count:
        unused = next(number for number in range(1, count + 1) if number not in used)
        raise InvalidArguments.at(
            f"/input/params/{unused - 1}", f"is used by no placeholder: ${unused} does not stand in the statement"
        )
