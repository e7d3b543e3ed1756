"""Rules of the embedded graph that need no import of Ladybug: settings, errors, dialect, checks of statements."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.databases.word_lists import words, words_of
from rrext.nodes.graph.dialect import FUNCTIONS, CypherDialect
from rrext.nodes.graph.gate import single
from rrext.nodes.graph.lexer import CypherToken
from rrext.nodes.graph.neo4j.backend import MESSAGE_MAX

QUOTES: Final = re.compile(r"<.*?>:? ?", re.S)


_BY_TEXT: Final[tuple[tuple[str, FailureKind], ...]] = (
    ("Parser exception", "syntax"),
    ("Interrupted", "cancelled"),
    ("read-only", "read_only"),
    ("Only one write transaction", "locked"),
)


class EmbeddedSettings(msgspec.Struct, frozen=True):
    """`path` is empty for a database in memory. `lock_timeout` is in seconds, and so is `wait`, for other processes.

    `owner` is the process id shown to other processes.
    """

    path: str
    read_only: bool
    memory_mb: int
    threads: int
    lock_timeout: float
    procedures: tuple[str, ...] = ()
    wait: float = 10.0
    owner: int = 0


class EmbeddedError(Exception):
    """An error of Ladybug, which has no types of errors."""


def failure_of(error: Exception) -> Failure | None:
    """The failure of an error of Ladybug; None for any other exception."""
    if not isinstance(error, EmbeddedError):
        return None
    text = str(error)
    kinds: list[FailureKind] = [kind for sign, kind in _BY_TEXT if sign in text]
    return Failure(kinds[0] if kinds else "statement", sentence(text))


def sentence(message: str) -> str:
    """Ladybug's message, without the quoted statement."""
    lines = QUOTES.sub("", message).split("\n", 1)
    return lines[0].strip()[:MESSAGE_MAX]


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


_FUNCTIONS: Final = words_of(__file__, "functions.txt")

LADYBUG: Final = CypherDialect(
    name="ladybug",
    procedures=words("""
    show_tables table_info show_connection db_version current_setting show_functions show_indexes show_sequences
    show_macros show_graphs show_projected_graphs projected_graph_info show_loaded_extensions show_official_extensions
    show_attached_databases show_warnings catalog_version storage_version storage_info stats_info bm_info fsm_info
"""),
    functions=FUNCTIONS | _FUNCTIONS,
    logical_plans=True,
)
