"""Messages between the server and the process of a DuckDB database.

Each connection has a socket of its own, on which every request but `SqlRollback` of a read has one answer: frames as in
`rrext.nodes.child.worker`, with JSON in them. The number of a frame is that of its request. A statement that is committed as
soon as it has answered has the answer to the commit too. `Interrupt` comes through the standard input of the process instead,
since a connection hears nothing while its statement runs.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Literal

import msgspec

from rrext.nodes.databases.failure import FailureKind
from rrext.nodes.sql.duckdb.copied_columns import CopiedColumn

MEMORY: Final = ":memory:"
"""The path of a database that lives as long as its process."""

_HEAD: Final = struct.Struct("<IQ")

Begin = Literal["", "read", "write", "once"]
"""The kind of transaction that begins with a statement, if any. `once` may write, with this statement alone."""


class DuckdbSettings(msgspec.Struct, frozen=True):
    """The settings of one database; `path` is absolute or `:memory:`, `shown` how messages name it. `attached` are the names of
    catalogs for the tables of other databases, and `copies` is the folder of their rows on the way. Views name their files from
    `folder` on."""

    path: str
    shown: str
    create: bool
    writes: bool
    memory_limit: str
    threads: int
    attached: tuple[str, ...] = ()
    folder: str = "/"
    copies: str = ""


class SqlOpen(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Open the database, if it is not open."""


class SqlLoad(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Make each table anew from its files; all of them or none."""

    tables: dict[str, list[str]]


class CopiedTable(msgspec.Struct, frozen=True, array_like=True):
    """Rows of a server's table: lines of CSV in a file, each of at most `longest` characters; see `text_tables.rows_reader`."""

    schema: str
    table: str
    file: str
    longest: int
    columns: list[CopiedColumn]


class SqlCopy(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Make tables of an attached database anew, and drop others: a schema and a name each."""

    database: str
    tables: list[CopiedTable]
    dropped: list[tuple[str, str]]


class SqlPrepare(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Write the table in the text file `source` to the Parquet file `target`; see `text_tables`."""

    source: str
    form: Literal["markdown", "json"]
    target: str


class SqlRun(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Begin a transaction, if `begin` says which, run a statement in it, and answer its first rows."""

    begin: Begin
    sql: str
    params: list[Any]
    nested_as_text: bool
    size: int


class SqlFetch(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answer the next rows of the statement."""

    size: int


class SqlCommit(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Commit the transaction."""


class SqlRollback(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Roll back the transaction."""

    is_answered: bool


Request = SqlOpen | SqlLoad | SqlCopy | SqlPrepare | SqlRun | SqlFetch | SqlCommit | SqlRollback
"""A request of the server."""


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Make one request of a connection fail soon. Has no answer."""

    connection: int
    request: int


class AskProgress(msgspec.Struct, frozen=True, tag=True):
    """Send `SqlProgress` before the answer to one request of a connection, if it is running."""

    connection: int
    request: int


Control = Interrupt | AskProgress
"""A message beside the requests."""


class Ok(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The request succeeded."""


class SqlProgress(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """How far the statement is, in percent; its answer follows."""

    percent: float


class SqlRows(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Rows in JSON; `is_last` says that there are no more.

    `columns` is None for a statement that gives no rows, and in the answer to `SqlFetch`. `changed` counts the rows that a
    statement changed so far, and -1 is for one that changes none. `writes` says that it may have changed the database,
    `leaves_traces` that the connection may not be as it was.
    """

    columns: list[str] | None
    types: list[str | None]
    rows: list[list[Any]]
    is_last: bool
    changed: int = -1
    writes: bool = False
    leaves_traces: bool = False


class Refused(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The database failed the request: a `Failure`."""

    kind: FailureKind
    message: str
    hint: str | None = None


class SqlFailed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """An error of rrext's."""

    code: str
    message: str
    hint: str | None
    data: dict[str, Any]


Answer = Ok | SqlProgress | SqlRows | Refused | SqlFailed
"""An answer of the process."""


def is_committing(request: Request, answer: Answer) -> bool:
    """Whether the process commits as if `SqlCommit` had been sent, and answers that too."""
    return is_over(request, answer) and isinstance(answer, SqlRows) and answer.writes


def is_over(request: Request, answer: Answer) -> bool:
    """Whether the answer completes a transaction of one statement. A transaction that only reads is committed by then."""
    return isinstance(request, SqlRun) and request.begin == "once" and isinstance(answer, SqlRows) and answer.is_last


def message_frame(number: int, message: Request | Answer) -> bytes:
    """Encode a message as a frame on a connection's socket. Raises `UnicodeEncodeError` for a text with a lone surrogate."""
    data = msgspec.json.encode(message)
    return _HEAD.pack(len(data), number) + data
