"""Comparisons beside each other, as `a = b < c`, which MySQL and sqlglot read in different ways.

In MySQL all comparisons bind alike, from the left; sqlglot's `<` binds tighter than its `=`, and it writes the brackets
that it has in mind. So a chain of them is refused before it is parsed. The other databases agree with sqlglot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rrext.errors import InvalidArguments

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

__all__ = ["check_comparisons"]

_COMPARING: Final = frozenset(("EQ", "NEQ", "NULLSAFE_EQ", "LT", "LTE", "GT", "GTE", "LIKE", "RLIKE", "IS", "IN", "BETWEEN"))
_OPENING: Final = frozenset(("L_PAREN", "CASE"))
_CLOSING: Final = frozenset(("R_PAREN", "END"))
_SHIFTING: Final = frozenset(("LT", "GT"))
_BEGINNING: Final = frozenset(
    (
        *("COMMA", "AND", "OR", "XOR", "DAMP", "DPIPE", "WHEN", "THEN", "ELSE", "SELECT", "FROM", "WHERE", "ON", "HAVING"),
        *("GROUP_BY", "ORDER_BY", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "ALIAS", "JOIN", "USING", "WITH"),
    )
)
"""Tokens after which another expression begins."""


def check_comparisons(tokens: list[Token]) -> None:
    """Raise `InvalidArguments` if a comparison is compared without brackets."""
    outer: list[str] = []
    last = ""  # the comparison of the expression so far
    for token, kind in _kinds(tokens):
        if kind in _OPENING:
            outer.append(last)
            last = ""
        elif kind in _CLOSING:
            last = outer.pop() if outer else ""
        elif kind == "AND" and last == "BETWEEN":
            last = "AND"
        elif kind in _BEGINNING:
            last = ""
        elif kind in _COMPARING:
            if last:
                raise _in_two_ways(token)
            last = kind


def _kinds(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """The tokens and their kinds; `<<` and `>>`, which are two tokens each, are left out: they compare nothing."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        kind = _kind(token)
        after = tokens[index + 1] if kind in _SHIFTING and index + 1 < len(tokens) else None
        if after is not None and _kind(after) == kind and after.start == token.end + 1:
            index += 2
            continue
        yield token, kind
        index += 1


def _kind(token: Token) -> str:
    return token.token_type.name


def _in_two_ways(token: Token) -> InvalidArguments:
    place = f"line {token.line}, column {token.col}"
    problem = InvalidArguments.at(
        "/input/sql",
        f"{place}: two comparisons beside each other can be read in two ways",
        hint="Put brackets around one of them.",
    )
    problem.data["line"], problem.data["column"] = token.line, token.col
    return problem
