"""What the server and the process of an embedded graph share: settings, errors, dialect, checks of statements, and the
messages between them. Needs no import of Ladybug.

Messages are frames of `rrext.nodes.child.worker`. Every request but `GraphOpen` belongs to a transaction, by its number.
Parameters and answers are JSON.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.child.process import Cancel, ChildRequest
from rrext.nodes.databases.failure import Failure, FailureKind
from rrext.nodes.databases.word_lists import words, words_of
from rrext.nodes.graph.backend import MESSAGE_MAX
from rrext.nodes.graph.dialect import FUNCTIONS, CypherDialect, CypherToken
from rrext.nodes.graph.gate import single

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


_FUNCTIONS: Final = words_of(__file__, "ladybug_functions.txt")

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

STUCK_AFTER: Final = 1.5
"""Seconds after which a statement that does not stop ends with its process: some of Ladybug's functions never check."""

START_PATIENCE: Final = 5.0
"""Seconds for a transaction to begin after a cancel: another process may have to release the file."""

COMMIT_PATIENCE: Final = 15.0
"""Seconds for a commit to end after a cancel: it may have much to write."""

OPEN_PATIENCE: Final = 60.0
"""Seconds for a database to open after a cancel: the recovery from a crash may be long."""

LADYBUG_FAILED: Final = "ladybug_failed"
"""The code of an answer with an error of Ladybug itself."""


class GraphOpen(ChildRequest, frozen=True, tag=True):
    """Open the database, if it is not open. Belongs to no transaction."""

    begins = True
    patience = OPEN_PATIENCE


class GraphBegin(ChildRequest, frozen=True, tag=True):
    """Wait for the turn if the transaction writes, and begin. `timeout` is Ladybug's own statement limit in seconds."""

    transaction: int
    read_only: bool
    timeout: float

    begins = True
    patience = START_PATIENCE


class GraphRun(ChildRequest, frozen=True, tag=True):
    """Run a statement and send its first rows. Ends the transaction's previous statement."""

    transaction: int
    cypher: str
    params: bytes
    size: int
    counts: bool = False

    patience = STUCK_AFTER


class GraphFetch(ChildRequest, frozen=True, tag=True):
    """Send the next rows of the statement."""

    transaction: int
    size: int

    patience = STUCK_AFTER


class GraphExplain(ChildRequest, frozen=True, tag=True):
    """Send the plan of a statement."""

    transaction: int
    cypher: str
    params: bytes

    patience = STUCK_AFTER


class GraphCommit(ChildRequest, frozen=True, tag=True):
    """Commit the transaction."""

    transaction: int

    changes = True
    patience = COMMIT_PATIENCE


class GraphEnd(ChildRequest, frozen=True, tag=True):
    """Roll back the transaction. The server does not wait for the answer."""

    transaction: int


Message = GraphOpen | GraphBegin | GraphRun | GraphFetch | GraphExplain | GraphCommit | GraphEnd | Cancel
"""A message of the server."""


class GraphRows(msgspec.Struct, frozen=True):
    """The answer to `GraphRun` and `GraphFetch`. `is_last` says that there are no more rows; only `GraphRun` is answered with
    the last three fields."""

    rows: list[list[object]]
    is_last: bool
    columns: list[str] = []
    types: list[str | None] = []
    counters: dict[str, int] | None = None
