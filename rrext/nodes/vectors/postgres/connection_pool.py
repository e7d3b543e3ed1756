"""A few connections to PostgreSQL that calls share: opened when needed, set up for vectors, closed when their call is
cancelled.

The driver's own pool opens connections in the background, so that a wrong password would be a timeout without a reason,
and its waiting cannot be cancelled; here the call opens its connection and gets the reason of a failure, in words without
statements, parameters and secrets.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from math import hypot
from typing import Any, Final

import psycopg
from pgvector import Vector
from pgvector.psycopg.vector import VectorBinaryDumper, register_vector_info
from psycopg import Connection, sql
from psycopg.pq import TransactionStatus
from psycopg.types import TypeInfo

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.databases.database import Pool, PoolExhausted, RunningStatement, TimerThread
from rrext.nodes.databases.postgres import connection_failure, driver_sentence, place_of
from rrext.tools.context import ToolContext

MAX_WAIT: Final = 30.0
"""Seconds that a call waits for a connection; after that it fails for lack of connections."""

CANCEL_TIMEOUT: Final = 2.0
"""Seconds for one attempt to cancel in the server."""

CUT_AFTER: Final = 5.0
"""Seconds after which the pool abandons a statement that ignores its cancel: other calls need the thread."""

SERVER_GRACE: Final = 1.0
"""Seconds by which the server's own limit is later than the call's, so that the caller sees the call's own timeout."""


class ConnectionPool:
    """At most `size` connections, all in autocommit, opened when needed. All methods are thread-safe.

    `parameters` are those of the driver; `prepare` is called with each new connection.
    """

    def __init__(self, parameters: dict[str, str], *, size: int, prepare: Callable[[Connection[Any]], object]) -> None:
        self._parameters = parameters
        self._size = size
        self._prepare = prepare
        self._pool = Pool(self._opened, size, MAX_WAIT)
        self._watch = TimerThread()
        self._timeouts: dict[Connection[Any], int] = {}
        self.place = place_of(parameters)
        """The server, database and user, for messages."""

    @contextlib.contextmanager
    def use(self, ctx: ToolContext) -> Iterator[Connection[Any]]:
        """A connection for a block of a call. Its statements end at the call's deadline, and when the call is cancelled.

        The driver's errors leave the block as rrext's; a connection after a failure that is not the statement's own is
        not used again.
        """
        connection = self._take(ctx)
        running = RunningStatement(_Cancel(connection), self._watch, 0, ctx)
        try:
            with running:
                ctx.check()
                self._limit(connection, ctx.remaining())
                yield connection
        except psycopg.Error as error:
            ctx.check()
            raise failure_of(error, self.place, lost=connection.closed) from None
        finally:
            is_idle = connection.info.transaction_status == TransactionStatus.IDLE
            self._give_back(connection, is_good=is_idle and running.reason is None)

    def close(self) -> None:
        """Close all idle connections; the others follow when their calls are over. Later calls fail."""
        self._pool.close()
        self._watch.close()

    def _take(self, ctx: ToolContext) -> Connection[Any]:
        """Take a working idle connection, a new one, or the next that is returned."""
        while True:
            ctx.check()
            try:
                connection, is_new = self._pool.take(ctx)
            except PoolExhausted:
                raise ToolError(
                    f"All {self._size} connections of this node to {self.place} are in use",
                    code="database_busy",
                    hint='Call again later, or raise "connections" in the settings of the node.',
                ) from None
            except RrextError:
                ctx.check()
                raise
            if is_new or _is_alive(connection):
                return connection
            self._give_back(connection, is_good=False)

    def _give_back(self, connection: Connection[Any], *, is_good: bool) -> None:
        if not is_good:
            self._timeouts.pop(connection, None)
        self._pool.give_back(connection, is_good=is_good)

    def _opened(self, ctx: ToolContext | None) -> Connection[Any]:
        return self.connect(None if ctx is None else ctx.remaining())

    def connect(self, timeout: float | None = None) -> Connection[Any]:
        """Open a connection beside the shared ones, which the caller closes; `timeout` is in seconds."""
        parameters = dict(self._parameters)
        if timeout is not None:  # the driver counts in whole seconds
            parameters["connect_timeout"] = str(max(1, min(int(parameters["connect_timeout"]), math.ceil(timeout))))
        try:
            connection = psycopg.connect(**parameters, autocommit=True)  # pyright: ignore[reportArgumentType]
        except psycopg.Error as error:
            raise connection_failure(error, parameters) from None
        try:
            self._prepare(connection)
        except psycopg.Error as error:
            connection.close()
            raise failure_of(error, self.place, lost=True) from None
        return connection

    def _limit(self, connection: Connection[Any], remaining: float | None) -> None:
        """Let the server end statements after the call's deadline, even if this process is gone by then."""
        limit = 0 if remaining is None else math.ceil(remaining + SERVER_GRACE)
        if self._timeouts.get(connection, 0) != limit:
            connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(f"{limit}s")))
            self._timeouts[connection] = limit


class _Cancel:
    """Cancels the running statement in the server; cuts the connection on this side if the server ignores that for long."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._since: float | None = None

    def __call__(self) -> None:
        now = time.monotonic()
        self._since = self._since or now
        with contextlib.suppress(OSError, psycopg.Error):
            if now - self._since < CUT_AFTER:
                self._connection.cancel_safe(timeout=CANCEL_TIMEOUT)
                return
            with socket.socket(fileno=os.dup(self._connection.fileno())) as line:  # frees the thread that waits
                line.shutdown(socket.SHUT_RDWR)


def _is_alive(connection: Connection[Any]) -> bool:
    """Whether an idle connection still works: unread data means that the server has closed it."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(0)


SESSION: Final = {
    # Compiling a search takes a hundred times as long as the search.
    "jit": "off",
    # Which plan is best depends on what is looked for: one word or scope is rare, another is in every chunk.
    "plan_cache_mode": "force_custom_plan",
    # With a filter, the index is read on until enough is found.
    "hnsw.iterative_scan": "strict_order",
    "hnsw.ef_search": "100",
}
CHECK_CLIENT: Final = {"client_connection_check_interval": "10s"}
"""From PostgreSQL 14 on: a statement whose client was killed ends."""

FULL_PRECISION: Final = 2000
"""Numbers that an index takes as they are; of more, it takes the half of the precision, and nothing above 65,504."""

TINY, HUGE = 1e-12, 1e12
"""Lengths of vectors beyond which the server's single precision fails to square them."""


def prepare(connection: Connection[Any]) -> None:
    """Set up a new connection, in a database with or without the extension."""
    settings = SESSION | (CHECK_CLIENT if connection.info.server_version >= 140000 else {})
    # The extension may be in a schema of its own, as hosted servers have it; all other names are given with theirs.
    connection.execute(
        "SELECT set_config(key, value, false) FROM unnest(%s::text[], %s::text[]) AS given(key, value) "
        "WHERE key NOT LIKE 'hnsw.%%' OR NOT EXISTS (SELECT FROM pg_extension "
        "WHERE extname = 'vector' AND string_to_array(extversion, '.')::int[] < '{0,8}')",
        (list(settings), list(settings.values())),
    )
    connection.execute(
        "SELECT set_config('search_path', concat_ws(', ', 'public', (SELECT quote_ident(nspname) FROM pg_extension e "
        "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector' AND nspname <> 'public')), false)"
    )
    connection.adapters.register_dumper(Vector, VectorBinaryDumper)
    learn_vectors(connection)


def knows_vectors(connection: Connection[Any]) -> bool:
    """Whether lists of vectors can be sent: the connection found the extension."""
    return connection.adapters.types.get("vector") is not None


def learn_vectors(connection: Connection[Any]) -> None:
    """Look up the number of the vector type in this database; lists of vectors cannot be sent without it."""
    info = TypeInfo.fetch(connection, "vector")
    if info is not None:
        register_vector_info(connection, info)


def as_vector(numbers: Sequence[float]) -> Vector | None:
    """The vector scaled for comparison, which uses its direction only. None for zeros, which have none."""
    length = hypot(*numbers)
    if not length:
        return None
    if TINY < length < HUGE and len(numbers) <= FULL_PRECISION:
        return Vector(list(numbers))
    if length == float("inf"):
        return as_vector([number / 2**512 / len(numbers) for number in numbers])
    return Vector([number / length for number in numbers])


NO_EXTENSION: Final = (
    "Let the database's owner run CREATE EXTENSION vector in it; the server needs the package of pgvector for that."
)

MISSING_TABLE: Final = frozenset({"42P01", "3F000"})
TRY_AGAIN: Final = frozenset({"40P01", "40001"})
"""A deadlock and a serialization failure: the transaction had no effect."""

ENDED: Final = frozenset({"57P01", "57P02", "57P03", "57P05"})
"""The server or its operator ended the connection."""

OWN_WORDS: Final[dict[str, tuple[str, str]]] = {
    "42501": ("not_permitted", "Let the database's owner GRANT this user what is missing, or use another user."),
    "25006": ("not_permitted", "This server or user only reads: use one that may write."),
    "54000": ("content_too_large", "Split the document into smaller chunks."),
    "53100": ("disk_full", "The server's disk is full: make room there."),
    "40P01": ("database_conflict", "Calls came into each other's way; nothing was changed. Call again."),
    "40001": ("database_conflict", "Calls came into each other's way; nothing was changed. Call again."),
}
"""States with a better message than the server's: state -> our code and hint."""


def is_missing_table(error: psycopg.Error) -> bool:
    """Whether a statement failed because its table or schema does not exist."""
    return error.sqlstate in MISSING_TABLE


def is_passing(error: psycopg.Error) -> bool:
    """Whether the same transaction may succeed now: it conflicted with another, and had no effect."""
    return error.sqlstate in TRY_AGAIN


def failure_of(error: psycopg.Error, place: str, *, lost: bool) -> RrextError:
    """The error for a statement's failure. `place` names the server; `lost`: the connection is gone too."""
    sentence = driver_sentence(error)
    state = error.sqlstate or ""
    if lost or state in ENDED:
        return ToolError(
            f"The connection to {place} was lost: {sentence}",
            code="connection_lost",
            hint="The next call connects again. A change may have been made or not; storing or deleting again does no harm.",
        )
    if state == "57014":
        return ToolError(f"{place} ended the statement: {sentence}", code="statement_cancelled")
    if _is_about_extension(state, sentence):
        return Unavailable(f"{place} has no pgvector: {sentence}", hint=NO_EXTENSION)
    code, hint = OWN_WORDS.get(state, ("database_failed", None))
    return ToolError(f"{place}: {sentence}", code=code, hint=hint)


def _is_about_extension(state: str, sentence: str) -> bool:
    """Whether the extension is missing: its package (two states, by version), its type, or the right to create it."""
    if state in {"58P01", "0A000", "42501"}:
        return 'extension "vector"' in sentence
    return state == "42704" and "vector" in sentence
