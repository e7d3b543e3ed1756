"""`$1`, `$2`, … in the text of a statement, as opposed to the same text in literals and comments."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

from rrext.errors import InvalidArguments
from rrext.nodes.sql.gate.dialect import SqlDialect
from rrext.nodes.sql.gate.lexer import placeholders
from rrext.nodes.sql.gate.limits import PLACEHOLDERS_KEPT_OF


def split_at_placeholders(sql: str, dialect: SqlDialect, count: int) -> tuple[list[str], list[int]]:
    """The text before, between and after the placeholders, and the number of each; one text more than numbers.

    Literals, quoted names, comments and dollar-quoted strings hold no placeholders. Raises the errors of
    `check_placeholders` does.
    """
    texts: list[str] = []
    numbers: list[int] = []
    done = 0
    for number, start, end in _placed(sql, dialect):
        texts.append(sql[done:start])
        numbers.append(number)
        done = end
    texts.append(sql[done:])
    _check(numbers, count)
    return texts, numbers


def check_placeholders(sql: str, dialect: SqlDialect, count: int) -> None:
    """Raise `InvalidArguments` for a placeholder that has no value among `count`, and for a value that no placeholder uses."""
    _check([number for number, _, _ in _placed(sql, dialect)], count)


def _placed(sql: str, dialect: SqlDialect) -> tuple[tuple[int, int, int], ...]:
    """The number of each placeholder, and its begin and end. A cache keeps those of repeated statements."""
    return (_kept if len(sql) <= PLACEHOLDERS_KEPT_OF else _found)(sql, dialect)


def _found(sql: str, dialect: SqlDialect) -> tuple[tuple[int, int, int], ...]:
    found = placeholders(sql, dialect)
    return tuple((int(token.text[1:10]), token.start, token.start + len(token.text)) for token in found)


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
