"""`KeptRows`: a small SQLite database in which a node keeps what it was told, in a file or for as long as it is set up.

Users are named by who connects, so what one of them may keep limits nothing: the table of a node has a limit over all users.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from rrext.errors import ToolError
from rrext.limits import MIB
from rrext.nodes.base.node import Tenant
from rrext.nodes.base.setup import SetupContext

T = TypeVar("T")

MEMORY: Final = ""
"""The path of a database that is gone when the pipeline is unloaded."""

PATIENCE: Final = 5.0
"""Seconds to wait for another process that writes: it does so for milliseconds."""

MAX_IN_MEMORY: Final = 128 * MIB
"""Bytes of a table in memory, over all users: thousands of conversations, and little beside what a server takes for models."""
MAX_IN_FILE: Final = 4096 * MIB
"""Bytes of a table in a file, over all users: as many as one of them may have of files of `rrext serve --store`, and a thousand
users have 4 MiB each."""
SPARE: Final = 100
"""The part of a limit that is made free at once: not each write looks for what rested longest."""
AT_ONCE: Final = 1000
"""What is forgotten by one call at most, so that none takes seconds; the next one goes on."""
ROW: Final = 100
"""Bytes of a row beside its texts: small rows cannot fill a disk uncounted."""


class KeptTable(NamedTuple):
    """A table of a node: `schema` makes it, `number` grows with each row, `unit` are the two columns of text that name what is
    forgotten as one, and `value` is the column with the content."""

    schema: str
    name: str
    number: str
    unit: tuple[str, str]
    value: str

    def size(self, row: str = "") -> str:
        """The bytes of a row, as SQL; the unit stands in an index too."""
        first, second = self.unit
        return f"(length({row}{self.value}) + 2 * length(CAST({row}{first} || {row}{second} AS BLOB)) + {ROW})"

    def made(self) -> str:
        """The statements that make the table, and count its bytes; another version of rrext that writes is counted too."""
        counted = "UPDATE rrext_sizes SET bytes = bytes"
        return f"""
BEGIN IMMEDIATE;
{self.schema}
CREATE TABLE IF NOT EXISTS rrext_sizes (kept TEXT PRIMARY KEY, bytes INTEGER NOT NULL);
INSERT OR IGNORE INTO rrext_sizes SELECT '{self.name}', coalesce(sum({self.size()}), 0) FROM {self.name}
    WHERE NOT EXISTS (SELECT 1 FROM rrext_sizes WHERE kept = '{self.name}');
CREATE TRIGGER IF NOT EXISTS {self.name}_kept AFTER INSERT ON {self.name} BEGIN
    {counted} + {self.size("new.")} WHERE kept = '{self.name}';
END;
CREATE TRIGGER IF NOT EXISTS {self.name}_gone AFTER DELETE ON {self.name} BEGIN
    {counted} - {self.size("old.")} WHERE kept = '{self.name}';
END;
COMMIT;
"""

    def forget(self, rows: sqlite3.Connection, most: int) -> None:
        """Forget what rested longest, if the table has more bytes than `most`."""
        if self._bytes(rows) <= most:
            return
        first, second = self.unit
        same = f"newer.{first} = kept.{first} AND newer.{second} = kept.{second}"
        newer = f"SELECT 1 FROM {self.name} AS newer WHERE {same} AND newer.{self.number} > kept.{self.number}"
        last = f"SELECT {first}, {second} FROM {self.name} AS kept WHERE NOT EXISTS ({newer}) ORDER BY {self.number} LIMIT ?"
        for unit in rows.execute(last, (AT_ONCE,)).fetchall():
            if self._bytes(rows) <= most - most // SPARE:
                break
            rows.execute(f"DELETE FROM {self.name} WHERE {first} = ? AND {second} = ?", unit)

    def _bytes(self, rows: sqlite3.Connection) -> int:
        (kept,) = rows.execute("SELECT bytes FROM rrext_sizes WHERE kept = ?", (self.name,)).fetchone()
        return kept


class KeptRows:
    """The database, opened at its first use. Its methods block, from any thread; one runs at a time.

    Several nodes and processes may share a file: their tables say whose a row is. Of a table that grows beyond `MAX_IN_MEMORY`
    or `MAX_IN_FILE`, what rested longest is forgotten, whoever kept it.
    """

    def __init__(self, path: str, table: KeptTable, ctx: SetupContext, of_one: int = 0) -> None:
        """`path` is a setting. A limit lower than what two users may keep, `of_one` bytes each, is raised to that. Raises
        `Unavailable` for a path that leads out of the root.
        """
        self._path = ctx.path(path) if path else MEMORY
        self._table = table
        self._of_one = of_one
        self._node_id = ctx.node_id
        self._lock = threading.Lock()
        self._rows: sqlite3.Connection | None = None
        self._is_closed = False

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns, in one transaction that others wait for. Raises `ToolError` (`store_failed`)."""
        with self._lock:
            try:
                rows = self._opened()
                rows.execute("BEGIN IMMEDIATE")
                try:
                    done = work(rows)
                    self._table.forget(rows, max(MAX_IN_FILE if self._path else MAX_IN_MEMORY, 2 * self._of_one))
                except BaseException:
                    rows.execute("ROLLBACK")
                    raise
                rows.execute("COMMIT")
                return done
            except (sqlite3.Error, OSError) as error:
                raise ToolError(
                    f'The file of node "{self._node_id}" cannot be used: {error}',
                    code="store_failed",
                    hint="Look at the file that the settings of the node name, its rights and the room on its disk.",
                ) from None

    def owner(self, tenant: Tenant) -> str:
        """What stands in a table for a user, a space and this node."""
        import json

        return json.dumps([*tenant, self._node_id])

    def close(self) -> None:
        """Close the file, after what is running."""
        with self._lock:
            self._is_closed = True
            if self._rows is not None:
                self._rows.close()

    def _opened(self) -> sqlite3.Connection:
        if self._rows is not None:
            return self._rows
        if self._is_closed:
            raise sqlite3.ProgrammingError("its pipeline is unloaded")
        if self._path:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # what users say is for nobody else
        rows = sqlite3.connect(self._path or ":memory:", timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            if self._path:
                rows.execute("PRAGMA journal_mode = WAL")
            rows.executescript(self._table.made())
        except BaseException:
            rows.close()
            raise
        self._rows = rows
        return rows
