"""The check of statements for `execute` of an embedded graph: no files, no networks, no control of transactions."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.graph.gate import single
from rrext.nodes.graph.ladybug.dialect import LADYBUG
from rrext.nodes.graph.lexer import CypherToken

FILES: Final = frozenset({"LOAD", "COPY", "EXPORT", "IMPORT", "ATTACH", "INSTALL", "UNINSTALL", "UPDATE", "EXTENSION", "USE"})
"""Statements that read or write files of this machine, or fetch code. DETACH of a database begins a statement."""
CONTROL: Final = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "CHECKPOINT"})
STARTS_ONLY: Final = frozenset({"EXPORT", "IMPORT", "ATTACH", "INSTALL", "UNINSTALL", "UPDATE", "EXTENSION", "USE"})
"""Words that are dangerous only at the begin of a statement; elsewhere they are names."""
BEFORE: Final = frozenset({"EXPLAIN", "PROFILE", "FORCE"})
"""Words after which a new statement begins."""


def check_embedded(cypher: str, procedures: tuple[str, ...] = ()) -> str:
    """Check a statement for `execute` and return it unchanged. Raises `ToolError` (`statement_refused`), `InvalidArguments`.

    A caller with `execute` may change the graph, but not reach this machine's files. Ladybug has procedures that read
    files, or end the process on bad arguments, so only known procedures are allowed.
    """
    pieces = single(cypher)
    start = 0
    while pieces[start].keyword in BEFORE and start + 1 < len(pieces):
        start += 1
    _check(pieces[start:], procedures)
    return cypher


def _check(pieces: list[CypherToken], procedures: tuple[str, ...]) -> None:
    first = pieces[0].keyword
    if first in CONTROL:
        raise InvalidArguments.at(
            "/input/query",
            f"{first} is not run as a statement",
            hint="The tools begin, commit and rollback make transactions; a call without a session is one of its own.",
        )
    for at, token in enumerate(pieces):
        word = token.keyword
        if word in FILES and (at == 0 or word not in STARTS_ONLY) and not _is_name(pieces, at):
            raise _refusal(f"{word} reaches files of the machine that the node runs on")
        if word == "CALL" and not _is_name(pieces, at):
            _check_call(pieces, at, procedures)
    if _keeps_elsewhere(pieces):
        raise _refusal("a table with a storage of its own is kept in files of the machine that the node runs on")


def _is_name(pieces: list[CypherToken], at: int) -> bool:
    before = pieces[at - 1] if at else None
    return before is not None and before.kind == "symbol" and before.value in ".:"


def _keeps_elsewhere(pieces: list[CypherToken]) -> bool:
    """Whether a table has options such as `WITH (storage = …)`: a storage outside of the database, which Ladybug reads."""
    if pieces[0].keyword not in ("CREATE", "ALTER") or all(token.keyword != "TABLE" for token in pieces[1:5]):
        return False
    return any(
        option.kind in ("word", "name") and option.value.lower() in ("storage", "format") and sign.value == "="
        for option, sign in pairwise(pieces)
    )


def _check_call(pieces: list[CypherToken], at: int, procedures: tuple[str, ...]) -> None:
    name = pieces[at + 1].value.lower() if at + 1 < len(pieces) else ""
    known = LADYBUG.procedures | {"project_graph", "drop_projected_graph"} | {entry.lower() for entry in procedures}
    follows = pieces[at + 2].value if at + 2 < len(pieces) else ""
    if name not in known or follows != "(":
        raise _refusal(f'the procedure "{name}" is not among those that may be called (allowed_procedures)')


def _refusal(why: str) -> ToolError:
    return ToolError(f"This statement is not run: {why}", code="statement_refused")
