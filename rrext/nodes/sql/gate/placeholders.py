"""`$1`, `$2`, … in the text of a statement, as opposed to the same text in literals and comments."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final, TypeAlias

from rrext.errors import InvalidArguments
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.gate.lexer import placeholders

PLACEHOLDERS_KEPT_OF: Final = 4096
"""Characters of a statement whose placeholders are kept."""

_SEVERAL: Final = re.compile(r"\$\d+", re.ASCII)
_NUMBERS: Final = re.compile(r"\$(\d{1,9})", re.ASCII)
"""No list has as many values as a number of nine digits says."""
_Placed: TypeAlias = tuple[int, int, tuple[int, ...]]


def split_at_placeholders(sql: str, dialect: SqlDialect, count: int) -> tuple[list[str], list[int]]:
    """The text before, between and after the placeholders, and the number of each; one text more than numbers.

    Literals, quoted names, comments and dollar-quoted strings hold no placeholders. Raises the errors of
    `check_placeholders` does.
    """
    texts: list[str] = []
    numbers: list[int] = []
    done = 0
    for start, end, found in _placed(sql, dialect):
        first, *others, _ = _SEVERAL.split(sql[start:end])
        texts += [sql[done:start] + first, *others]
        numbers += found
        done = end
    texts.append(sql[done:])
    _check(numbers, count)
    return texts, numbers


def without_names(sql: str, dialect: SqlDialect, count: int) -> tuple[str, list[int]]:
    """The statement with `?` in the place of each placeholder, and the number of each. Raises as `split_at_placeholders`."""
    texts: list[str] = []
    numbers: list[int] = []
    done = 0
    for start, end, found in _placed(sql, dialect):
        texts += [sql[done:start], _SEVERAL.sub("?", sql[start:end])]
        numbers += found
        done = end
    _check(numbers, count)
    return "".join(texts) + sql[done:], numbers


def check_placeholders(sql: str, dialect: SqlDialect, count: int) -> None:
    """Raise `InvalidArguments` for a placeholder that has no value among `count`, and for a value that no placeholder uses."""
    _check([number for _, _, found in _placed(sql, dialect) for number in found], count)


def _placed(sql: str, dialect: SqlDialect) -> tuple[_Placed, ...]:
    """Where placeholders stand one after another, and the number of each. A cache keeps those of repeated statements."""
    return (_kept if len(sql) <= PLACEHOLDERS_KEPT_OF else _found)(sql, dialect)


def _found(sql: str, dialect: SqlDialect) -> tuple[_Placed, ...]:
    return tuple(
        (token.start, token.start + len(token.text), tuple(map(int, _NUMBERS.findall(token.text))))
        for token in placeholders(sql, dialect)
    )


_kept: Final = lru_cache(maxsize=512)(_found)


def _check(numbers: Collection[int], count: int) -> None:
    used = set(numbers)
    for number in used:
        if not 1 <= number <= count:
            message = f"placeholder ${number} out of range for {count} param(s)"
            raise InvalidArguments(message, data={"errors": [{"path": "/input/sql", "message": message}]})
    if len(used) < count:
        unused = next(number for number in range(1, count + 1) if number not in used)
        raise InvalidArguments.at(
            f"/input/params/{unused - 1}", f"is used by no placeholder: ${unused} does not stand in the statement"
        )
