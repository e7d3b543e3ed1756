"""The table of a vector store, its row in the table of stores, and its HNSW index, built in the background once a comparison
of all chunks is slow.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any, Final

import psycopg
from psycopg import Connection, sql

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.databases.postgres import driver_sentence
from rrext.nodes.vectors.postgres.connection_pool import FULL_PRECISION, ConnectionPool, is_missing_table
from rrext.nodes.vectors.store import NOBODYS, VectorSpace, require_language

INLINE_SIZE: Final = 500
"""Up to so many numbers (2 kB) a vector lies within its row: searching all of them is three times as fast."""

BOOK: Final = "rrext_vector_stores"
"""The table with one line for each store of a schema: its model, the size of its vectors, its language."""

FORM: Final = 2
"""The version of the tables below. A table of another version is refused instead of misread."""

WITHOUT_OWNERS: Final = 1
"""The version before chunks had owners. `renew` brings its tables to the present one."""

MAX_NAME: Final = 63
"""Bytes of a name in PostgreSQL; longer ones it would cut."""

CREATION_LOCK: Final = 0x7272657874
"""The advisory lock under which stores are created: CREATE … IF NOT EXISTS alone fails where two come at once."""

INDEXED_SIZE: Final = 4000
"""Numbers that an HNSW index takes, with half of the precision above 2000. A larger vector is searched without index."""


class StoreTable:
    """The quoted names of a store's tables, and the statements that create them.

    Raises `Unavailable` for names that PostgreSQL cannot have.
    """

    def __init__(self, schema: str, name: str, language: str) -> None:
        for setting, value in (("schema", schema), ("table", name), ("language", language)):
            if not value or "\0" in value or len(value.encode("utf-8", "replace")) > MAX_NAME:
                raise Unavailable(f'The setting "{setting}" has to be a name of 1 to {MAX_NAME} bytes')
        if name == BOOK:
            raise Unavailable(f'The setting "table" cannot be "{BOOK}": that is where the stores of a schema are listed')
        self.schema = schema
        self.name = name
        self.language = language
        self.full_name = sql.Identifier(schema, name).as_string()
        """As the server writes it."""
        self.quoted = _quoted(schema, name)
        """As it stands in statements that have parameters, be they none."""
        self.book = _quoted(schema, BOOK)
        self._is_present = False

    def space(self, connection: Connection[Any]) -> VectorSpace | None:
        """The vector space of the content; None if the store is empty. Raises `ToolError` for an unknown version."""
        row = self._line(connection, filled=True)
        return None if row is None else VectorSpace(row[0], row[1])

    def settled(self, connection: Connection[Any]) -> VectorSpace | None:
        """The table's vector space, for writing. Raises `ToolError` (`language_mismatch`) if the languages differ."""
        row = self._line(connection, filled=True)
        if row is None:
            return None
        require_language(row[2], self.language, words_of=f"{self.schema}.{self.name}", another="table")
        return VectorSpace(row[0], row[1])

    def create(self, connection: Connection[Any], space: VectorSpace) -> None:
        """Create missing tables, for vectors of this space, in one transaction; do nothing if another process was faster.

        An empty table of another space or language is replaced.
        """
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATION_LOCK,))
            self._create_extension(connection)
            self._create_book(connection)
            if self._exists(connection, self.name):
                line = self._require_own(connection)
                if line == (space.model, space.size, self.language):
                    return
                # Other writers wait for this, and find another table then.
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(self.quoted), ())
                if self._line(connection, filled=True) is not None:
                    return
                connection.execute(sql.SQL("DROP TABLE {}").format(self.quoted), ())
            self._create_table(connection, space)

    def renew(self, connection: Connection[Any]) -> None:
        """Bring a table without owners to the present version, once and as a whole: what it holds is nobody's.

        Raises `ToolError` for an unknown version, and for a user who may not do it.
        """
        if self._is_present:
            return
        form = self._form(connection)
        if form == WITHOUT_OWNERS:
            try:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATION_LOCK,))
                    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(self.quoted), ())
                    form = self._form(connection)
                    if form == WITHOUT_OWNERS:  # no other process was faster
                        self._add_owners(connection)
                        form = FORM
            except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
                raise ToolError(
                    f"The table {self.schema}.{self.name} is of an earlier version of rrext, and this user may not change it",
                    code="not_permitted",
                    hint="Let the user who owns it use the store once, as by `rrext tool FILE.pipe stats`.",
                ) from None
        if form is not None:
            self._require_form(form)
            self._is_present = True

    def _form(self, connection: Connection[Any]) -> int | None:
        known = "SELECT form FROM {} WHERE name = %s AND to_regclass(%s) IS NOT NULL"
        try:
            row = connection.execute(sql.SQL(known).format(self.book), (self.name, self.full_name)).fetchone()
        except psycopg.Error as error:
            if is_missing_table(error):
                return None
            raise
        return None if row is None else row[0]

    def _add_owners(self, connection: Connection[Any]) -> None:
        found = connection.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = to_regclass(%s) AND contype = 'p'", (self.full_name,)
        ).fetchone()
        assert found is not None, "tables of stores have a primary key"
        for statement in (
            "ALTER TABLE {table} ADD owner uuid NOT NULL DEFAULT {nobody}",  # a constant: no row is written again
            "ALTER TABLE {table} ALTER owner DROP DEFAULT",
            "ALTER TABLE {table} DROP CONSTRAINT {key}, ADD PRIMARY KEY (object_id, chunk_id, owner)",
            "CREATE INDEX ON {table} (owner, parent)",
        ):
            parts = {"table": self.quoted, "nobody": sql.Literal(NOBODYS), "key": _quoted(found[0])}
            connection.execute(sql.SQL(statement).format(**parts), ())
        connection.execute(sql.SQL("UPDATE {} SET form = %s WHERE name = %s").format(self.book), (FORM, self.name))

    def _line(self, connection: Connection[Any], *, filled: bool = False) -> tuple[str, int, str] | None:
        """The store's row in the table of stores; None if it is missing or, with `filled`, if the store is empty."""
        known = sql.SQL("SELECT model, size, language, form FROM {} WHERE name = %s AND to_regclass(%s) IS NOT NULL")
        statement = known.format(self.book)
        if filled:
            statement += sql.SQL(" AND EXISTS (SELECT FROM {})").format(self.quoted)
        try:
            row = connection.execute(statement, (self.name, self.full_name)).fetchone()
        except psycopg.Error as error:
            if is_missing_table(error):
                return None
            raise
        if row is None:
            return None
        model, size, language, form = row
        self._require_form(form)
        return model, size, language

    def _require_form(self, form: int) -> None:
        if form != FORM:
            raise ToolError(
                f"The table {self.schema}.{self.name} has the form {form}, which this version of rrext does not know",
                code="store_format",
                hint="Use the version of rrext that made it.",
            )

    def _create_extension(self, connection: Connection[Any]) -> None:
        row = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone()
        if row is None:
            connection.execute("CREATE EXTENSION vector")

    def _create_book(self, connection: Connection[Any]) -> None:
        if connection.execute("SELECT to_regnamespace(quote_ident(%s))", (self.schema,)).fetchone() == (None,):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(_quoted(self.schema)), ())
        if not self._exists(connection, BOOK):
            connection.execute(
                sql.SQL(
                    "CREATE TABLE {} (name text PRIMARY KEY, model text NOT NULL, size integer NOT NULL, "
                    "language text NOT NULL, form integer NOT NULL, created timestamptz NOT NULL DEFAULT now())"
                ).format(self.book),
                (),
            )

    def _exists(self, connection: Connection[Any], name: str) -> bool:
        row = connection.execute(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
            (self.schema, name),
        ).fetchone()
        return row is not None

    def _require_own(self, connection: Connection[Any]) -> tuple[str, int, str]:
        """Check that the table is a store's and return its row. A foreign table of that name is never written to."""
        line = self._line(connection)
        if line is None:
            raise ToolError(
                f"There is a {self.schema}.{self.name} already, and it is no vector store of rrext",
                code="not_a_store",
                hint='Choose another name for the setting "table".',
            )
        return line

    def _create_table(self, connection: Connection[Any], space: VectorSpace) -> None:
        # Code points sort alike everywhere, and ranges of them find prefixes: hence the collation "C".
        # Metadata is kept as it was written (json): jsonb would change numbers and refuse some texts.
        connection.execute(
            sql.SQL(
                'CREATE TABLE {table} (object_id text COLLATE "C" NOT NULL, chunk_id bigint NOT NULL, '
                'content text NOT NULL, node_id text COLLATE "C" NOT NULL, parent text COLLATE "C" NOT NULL, '
                "extra json, embedding vector({size}), words tsvector NOT NULL, owner uuid NOT NULL, "
                "PRIMARY KEY (object_id, chunk_id, owner))"
            ).format(table=self.quoted, size=sql.Literal(space.size)),
            (),
        )
        if space.size <= INLINE_SIZE:
            connection.execute(sql.SQL("ALTER TABLE {} ALTER embedding SET STORAGE PLAIN").format(self.quoted), ())
        connection.execute(sql.SQL("CREATE INDEX ON {} (owner, parent)").format(self.quoted), ())
        connection.execute(sql.SQL("CREATE INDEX ON {} USING gin ((extra::jsonb) jsonb_path_ops)").format(self.quoted), ())
        # A short list of what is not indexed yet (kB): each search reads it, and without one storing takes three times as long.
        connection.execute(
            sql.SQL("CREATE INDEX ON {} USING gin (words) WITH (gin_pending_list_limit = 256)").format(self.quoted), ()
        )
        line = (self.name, space.model, space.size, self.language, FORM)
        connection.execute(
            sql.SQL(
                "INSERT INTO {book} (name, model, size, language, form) VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name) DO "
                "UPDATE SET model = excluded.model, size = excluded.size, language = excluded.language, "
                "form = excluded.form, created = now()"
            ).format(book=self.book),
            line,
        )

    def __repr__(self) -> str:
        return f"<StoreTable {self.schema}.{self.name}>"


def _quoted(*names: str) -> sql.Composable:
    """A name as SQL, for statements in which the driver reads a percent sign as a parameter."""
    return sql.SQL(sql.Identifier(*names).as_string().replace("%", "%%"))  # pyright: ignore[reportArgumentType]


CLOSING_WAIT: Final = 10.0
"""Seconds that `close` of a store waits for the builder of the index after the statement of the builder was cancelled."""

INDEX_LOOK: Final = 30.0
"""Seconds between two counts of the chunks: counting takes time too."""

BUILD_MEMORY: Final = "256MB"
"""Memory for the construction of the graph: 384 numbers of 100,000 chunks fit; larger graphs take several times as long."""

BUILD_LOCK: Final = 0x68
"""The first number of the advisory lock under which one process builds the index of a table; the second is the table's."""

log: Final = logging.getLogger("rrext.store_pgvector")

INDEXES: Final = (
    "SELECT i.indexrelid::regclass::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = to_regclass(%s) AND a.amname = 'hnsw'"
)
LOCK: Final = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"


class IndexBuilder:
    """Builds the index of one table when it is searched and has `threshold` chunks (0: never).

    It does so on a thread and a connection of its own; meanwhile chunks are searched without it and stored as before. Not
    sooner: a table that is filled first and searched then is filled several times as fast without it. Failures are logged,
    and the index is tried again later.
    """

    def __init__(self, table: StoreTable, connections: ConnectionPool, *, threshold: int) -> None:
        self._table = table
        self._connections = connections
        self._threshold = threshold
        self._look_at = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: Connection[Any] | None = None
        self._closed = False

    def searched(self, connection: Connection[Any], size: int) -> None:
        """Note a search of vectors of `size` numbers: check at intervals whether an index would be worthwhile now."""
        if not self._threshold or size > INDEXED_SIZE or self._thread is not None or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + INDEX_LOOK
        if self._is_worthwhile(connection) and not self._indexes(connection).get("valid"):
            self._start(size)

    def stored(self, chunks: int) -> None:
        """Note that chunks were stored: if they are many, the next search checks the index."""
        if chunks >= self._threshold / 4:
            self._look_at = 0.0

    def state(self, connection: Connection[Any]) -> str:
        """`hnsw`, `building`, or `none`."""
        if self._indexes(connection).get("valid"):
            return "hnsw"
        return "none" if self._thread is None else "building"

    def close(self) -> None:
        """Stop building. The next builder drops the unfinished index."""
        with self._lock:
            self._closed = True
            thread, connection = self._thread, self._connection
        give_up = time.monotonic() + CLOSING_WAIT
        while thread is not None and thread.is_alive() and time.monotonic() < give_up:
            if connection is not None:  # a cancel between two statements has no effect: it is sent again
                with contextlib.suppress(psycopg.Error):
                    connection.cancel_safe(timeout=1)
            thread.join(0.1)

    def _is_worthwhile(self, connection: Connection[Any]) -> bool:
        statement = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT %s) AS first_ones").format(self._table.quoted)
        row = connection.execute(statement, (self._threshold,)).fetchone()
        return row is not None and row[0] >= self._threshold

    def _indexes(self, connection: Connection[Any]) -> dict[str, str]:
        """The name of the valid index, as `valid`, and of an unfinished one, as `broken`."""
        rows = connection.execute(INDEXES, (self._table.full_name,)).fetchall()
        return {"valid" if is_valid else "broken": name for name, is_valid in rows}

    def _start(self, size: int) -> None:
        with self._lock:
            if self._closed or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, args=(size,), name="rrext-pg-index", daemon=True)
            self._thread.start()

    def _run(self, size: int) -> None:
        try:
            self._build(size)
        except psycopg.Error as error:
            if not self._closed:
                log.warning("The index of %s was not built: %s", self._table, driver_sentence(error))
        except RrextError as error:
            log.warning("The index of %s was not built: %s", self._table, error)
        finally:
            with self._lock:
                self._thread = self._connection = None

    def _build(self, size: int) -> None:
        with self._connections.connect() as connection:
            with self._lock:
                if self._closed:
                    return
                self._connection = connection
            if connection.execute(LOCK, (BUILD_LOCK, self._table.full_name)).fetchone() != (True,):
                return  # another process builds it
            found = self._indexes(connection)
            if "broken" in found:  # the name comes from the server, quoted
                connection.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(sql.SQL(found["broken"])))  # pyright: ignore[reportArgumentType]
            if "valid" in found:
                return
            connection.execute(sql.SQL("SET maintenance_work_mem = {}").format(sql.Literal(BUILD_MEMORY)))
            connection.execute(
                sql.SQL("CREATE INDEX CONCURRENTLY ON {} USING hnsw ({})").format(self._table.quoted, _indexed(size)), ()
            )
            connection.execute(sql.SQL("ANALYZE {}").format(self._table.quoted), ())


def _indexed(size: int) -> sql.Composable:
    """The indexed expression, as in searches' ORDER BY: up to 2000 numbers in full precision, more in half of it."""
    if size <= FULL_PRECISION:
        return sql.SQL("embedding vector_cosine_ops")
    return sql.SQL("(embedding::halfvec({})) halfvec_cosine_ops").format(sql.Literal(size))
