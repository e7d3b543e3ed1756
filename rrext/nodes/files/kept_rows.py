"""`KeptRows`: a small SQLite database in which a node keeps what it was told, in a file or for as long as it is set up."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from rrext.errors import ToolError
from rrext.nodes.base.node import Tenant
from rrext.nodes.base.setup import SetupContext

T = TypeVar("T")

MEMORY: Final = ""
"""The path of a database that is gone when the pipeline is unloaded."""

PATIENCE: Final = 5.0
"""Seconds to wait for another process that writes: it does so for milliseconds."""


class KeptRows:
    """The database, opened at its first use. Its methods block, from any thread; one runs at a time.

    Several nodes and processes may share a file: their tables say whose a row is.
    """

    def __init__(self, path: str, schema: str, ctx: SetupContext) -> None:
        """`path` is a setting. Raises `Unavailable` for one that leads out of the root."""
        self._path = ctx.path(path) if path else MEMORY
        self._schema = schema
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
            rows.executescript(self._schema)
        except BaseException:
            rows.close()
            raise
        self._rows = rows
        return rows
