"""Prefixes of a Cypher statement that reads, and statements in its place: EXPLAIN, PROFILE, CYPHER, and SHOW."""

from __future__ import annotations

from typing import Final

from rrext.errors import ToolError
from rrext.nodes.graph.dialect import SHOWN, SHOWN_KINDS, CypherDialect
from rrext.nodes.graph.lexer import CypherToken

_GOES_ON: Final = frozenset({"YIELD", "WHERE", "RETURN"})


def beginning(pieces: list[CypherToken], dialect: CypherDialect) -> tuple[int, bool]:
    """The position of a statement's first clause, and whether its answer is a plan.

    Raises `ToolError` (`not_read_only`) for SHOW of objects that are not known to be harmless.
    """
    at, is_plan = 0, False
    if dialect.options and _word(pieces, at) == "CYPHER":
        at = _after_options(pieces, at + 1)
    if _word(pieces, at) in ("EXPLAIN", "PROFILE") and at + 1 < len(pieces):
        is_plan = True
        at += 2 if dialect.logical_plans and _word(pieces, at + 1) == "LOGICAL" else 1
    if dialect.shows and _word(pieces, at) == "SHOW":
        at = _after_show(pieces, at + 1)
    return at, is_plan


def _word(pieces: list[CypherToken], at: int) -> str:
    return pieces[at].keyword if at < len(pieces) else ""


def _after_options(pieces: list[CypherToken], at: int) -> int:
    """The position after the version and options of a query, as `CYPHER 25 runtime=slotted`."""
    if at < len(pieces) and pieces[at].kind == "number":
        at += 1
    while at + 2 < len(pieces) and pieces[at].kind == "word" and pieces[at + 1].value == "=":
        at += 3
    return at


def _after_show(pieces: list[CypherToken], at: int) -> int:
    """The position after the object of SHOW: YIELD, WHERE or the end."""
    start = at
    words: set[str] = set()
    while at < len(pieces) and (word := pieces[at].keyword) not in _GOES_ON:
        if word not in SHOWN:
            break
        words.add(word)
        at += 1
    if not words & SHOWN_KINDS or (at < len(pieces) and pieces[at].keyword not in _GOES_ON):
        shown = pieces[min(at, len(pieces) - 1)]
        raise ToolError(
            f'This statement is not read-only: SHOW of "{shown.value}" is not known to only read',
            code="not_read_only",
            hint=f"Known are {', '.join(sorted(SHOWN_KINDS))}.",
            data={"position": pieces[start - 1].position},
        )
    return at
