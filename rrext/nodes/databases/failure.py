"""Failures of database drivers: their kinds, and the errors that callers get for them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from rrext.errors import InvalidArguments, RrextError, ToolError, Unavailable
from rrext.nodes.databases.word_lists import words

FailureKind = Literal["statement", "syntax", "timeout", "cancelled", "read_only", "locked", "lost", "unreachable"]
"""The reason for a driver's failure.

`statement` — the database refused or failed this statement; `syntax` — it does not understand the statement;
`timeout` — its own limit of time ended the statement; `cancelled` — `cancel` did; `read_only` — the statement writes in a
read-only transaction; `locked` — another client holds a lock; `lost` — the connection is gone, and any transaction with it;
`unreachable` — no connection could be made (server down, wrong password, TLS refused, missing or corrupt file).
"""

_CODES: Final[dict[FailureKind, str]] = {
    "timeout": "statement_timeout",
    "cancelled": "statement_cancelled",
    "read_only": "not_read_only",
    "locked": "database_locked",
    "lost": "connection_lost",
}


class Failure(msgspec.Struct, frozen=True):
    """A driver's failure in a sentence that may be shown: no statement, no parameters, no password, no DSN in it."""

    kind: FailureKind
    message: str
    hint: str | None = None


class QueryLanguage(msgspec.Struct, frozen=True):
    """The words in which errors speak of statements: the language, its error code, the argument, and the database.

    For the replies of language models: `fences` are names of its blocks of code, `beginnings` first words of its
    statements, and `form` describes a query for a model.
    """

    name: str
    code: str
    path: str
    database: str
    fences: frozenset[str]
    beginnings: frozenset[str]
    form: str

    @property
    def key(self) -> str:
        """The key of a statement in answers."""
        return self.name.lower()

    def error(self, failure: Failure) -> RrextError:
        """The error that a caller gets for a driver's failure."""
        if failure.kind == "unreachable":
            return Unavailable(f"{self.database} cannot be used: {failure.message}", hint=failure.hint)
        message = f"{self.name} execution failed: {failure.message}"
        if failure.kind == "syntax":
            return InvalidArguments(
                message, hint=failure.hint, data={"errors": [{"path": self.path, "message": failure.message}]}
            )
        return ToolError(message, code=_CODES.get(failure.kind, self.code), hint=failure.hint)


SQL: Final = QueryLanguage(
    "SQL",
    "sql_failed",
    "/input/sql",
    "The database",
    words("sql sqlite duckdb postgres postgresql mysql mariadb"),
    words("select with values from"),
    "a single SELECT (WITH is fine)",
)
CYPHER: Final = QueryLanguage(
    "Cypher",
    "cypher_failed",
    "/input/query",
    "The graph database",
    words("cypher"),
    words("match optional with unwind call return show create merge"),
    "MATCH, WHERE, WITH, UNWIND, CALL subqueries and RETURN",
)
