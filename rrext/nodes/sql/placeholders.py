"""`$1`, `$2`, … in the text of a statement: where they are, and where they only look like it."""

from __future__ import annotations

from collections.abc import Collection

from rrext.errors import InvalidArguments
from rrext.nodes.sql.lexer import placeholders

__all__ = ["check_placeholders", "split_at_placeholders"]


def split_at_placeholders(sql: str, dialect: str, count: int) -> tuple[list[str], list[int]]:
    """The text before, between and after the placeholders, and the number of each; one text more than numbers.

    What stands in literals, quoted names, comments and dollar-quoted strings is no placeholder. Raises as
    `check_placeholders` does.
    """
    texts: list[str] = []
    numbers: list[int] = []
    done = 0
    for token in placeholders(sql, dialect):
        texts.append(sql[done : token.start])
        numbers.append(_number(token.text))
        done = token.start + len(token.text)
    texts.append(sql[done:])
    _check(numbers, count)
    return texts, numbers


def check_placeholders(sql: str, dialect: str, count: int) -> None:
    """Raise `InvalidArguments` for a placeholder that has no value among `count`, and for a value that no placeholder uses."""
    _check([_number(token.text) for token in placeholders(sql, dialect)], count)


def _number(text: str) -> int:
    return int(text[1:10])


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
