"""`memory_persistent`: values under keys that outlive objects and calls, for each user apart."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.basic.memory import MIB, Key, json_of
from rrext.nodes.files.kept_rows import KeptRows, KeptTable
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS rrext_memory (
    number INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL, value BLOB NOT NULL,
    UNIQUE (owner, key)
);
"""
TABLE: Final = KeptTable(SCHEMA, "rrext_memory", "number", ("owner", "key"), "value")


class PersistentMemoryNode(Node):
    """Keeps JSON values under keys, for each user and space apart. With a `path` they outlive the server, without one they are
    gone when the pipeline is unloaded.

    Beyond `max_history` values the one that was put first is forgotten, and so is each value that was put longer ago than
    `session_ttl_hours`.
    """

    provider = "memory_persistent"
    title = "Memory (persistent)"
    class_types = ("memory",)
    profiles = {"memory": {"backend": "memory"}, "sqlite": {"backend": "sqlite"}, "custom": {}}
    default_profile = "memory"
    paths = {"path": "file"}
    no_paths = frozenset({""})
    shared: KeptValues

    class Config:
        path: Annotated[str, "An SQLite file, made if there is none; relative to --root, or else to the pipeline's file."] = ""
        session_ttl_hours: Annotated[float, msgspec.Meta(ge=0), "Hours after which a value is forgotten; 0: never."] = 0.0
        max_history: Annotated[
            int, msgspec.Meta(ge=1, le=1_000_000), "Values that a user may keep; the oldest is forgotten for another one."
        ] = 100
        maxBytes: Annotated[int, msgspec.Meta(ge=1), "Bytes of JSON that a user may keep, keys included."] = 16 * MIB
        backend: Annotated[Literal["memory", "sqlite"], "From RocketRide's files; sqlite needs a path. Redis is not here."] = (
            "memory"
        )
        auto_summarize: Annotated[bool | None, "Accepted from RocketRide's files; old values are forgotten all the same."] = (
            None
        )

    @classmethod
    def missing(cls, config: Any, path: Callable[[str], str]) -> Iterable[tuple[str, str]]:
        if config.backend == "sqlite" and not config.path:
            yield "path", NO_PATH

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[KeptValues]:
        """Name the file; it is opened at the first call."""
        if config.backend == "sqlite" and not config.path:
            raise Unavailable(f'Node "{ctx.node_id}" has no file: {NO_PATH}', hint='Set "path".')
        memory = KeptValues(KeptRows(config.path, TABLE, ctx, config.maxBytes), config)
        try:
            yield memory
        finally:
            await ctx.in_thread(memory.rows.close)

    @tool_function(group="memory")
    def put(self, key: Key, value: Any, *, ctx: ToolContext) -> dict[str, Any]:
        """Keep a value under a key, in place of the one that was there.

        Args:
            key: Not blank; spaces around it do not count.
            value: Any JSON value.
        """
        self.shared.put(ctx, key.strip(), json_of(value))
        return {"ok": True, "key": key.strip(), "scope": "user"}

    @tool_function(group="memory", annotations={"readOnlyHint": True})
    def get(self, key: Key, *, ctx: ToolContext) -> dict[str, Any]:
        """The value under a key. `ok` is false, and the value null, if there is none.

        Args:
            key: Not blank; spaces around it do not count.
        """
        encoded = self.shared.get(ctx, key.strip())
        value = None if encoded is None else msgspec.json.decode(encoded)
        return {"ok": encoded is not None, "key": key.strip(), "value": value}

    @tool_function(name="list", group="memory", annotations={"readOnlyHint": True})
    def list_keys(self, *, ctx: ToolContext) -> dict[str, Any]:
        """The keys that have a value, sorted."""
        return {"ok": True, "keys": self.shared.keys(ctx)}

    @tool_function(group="memory")
    def clear(self, key: str | None = None, *, ctx: ToolContext) -> dict[str, Any]:
        """Forget one value, or all of them. `cleared` lists the keys that had one.

        Args:
            key: The key to forget; without it, or if it is blank, everything is forgotten.
        """
        return {"ok": True, "cleared": self.shared.clear(ctx, (key or "").strip())}


NO_PATH: Final = 'The backend "sqlite" needs the path of a file.'


class KeptValues:
    """The values of all users. Its methods block, from any thread."""

    def __init__(self, rows: KeptRows, config: Any, now: Callable[[], float] = time.time) -> None:
        self.rows = rows
        self._config = config
        self._now = now

    def put(self, ctx: ToolContext, key: str, value: bytes) -> None:
        """Raises `ToolError` (`memory_full`) for more bytes than a user may keep."""
        maximum = self._config.maxBytes

        def put(rows: sqlite3.Connection, owner: str) -> None:
            rows.execute("DELETE FROM rrext_memory WHERE owner = ? AND key = ?", (owner, key))
            told = "INSERT INTO rrext_memory (owner, key, at, value) VALUES (?, ?, ?, ?)"
            rows.execute(told, (owner, key, self._now(), value))
            rows.execute(OLDEST, (owner, self._config.max_history))
            counted = "SELECT sum(length(value) + length(CAST(key AS BLOB))) FROM rrext_memory WHERE owner = ?"
            (size,) = rows.execute(counted, (owner,)).fetchone()
            if size > maximum:
                raise ToolError(
                    f"The memory may hold {maximum} bytes (maxBytes), and with this value it would hold {size}",
                    code="memory_full",
                    hint="Clear what is not needed any more.",
                )

        self._run(ctx, put)

    def get(self, ctx: ToolContext, key: str) -> bytes | None:
        asked = "SELECT value FROM rrext_memory WHERE owner = ? AND key = ?"
        found = self._run(ctx, lambda rows, owner: rows.execute(asked, (owner, key)).fetchone())
        return None if found is None else found[0]

    def keys(self, ctx: ToolContext) -> list[str]:
        asked = "SELECT key FROM rrext_memory WHERE owner = ?"
        return sorted(key for (key,) in self._run(ctx, lambda rows, owner: rows.execute(asked, (owner,)).fetchall()))

    def clear(self, ctx: ToolContext, key: str) -> list[str]:
        """The keys that had a value: `key`, or all if it is empty."""
        told = "DELETE FROM rrext_memory WHERE owner = ? AND (key = ? OR ? = '') RETURNING key"
        cleared = self._run(ctx, lambda rows, owner: rows.execute(told, (owner, key, key)).fetchall())
        return sorted(key for (key,) in cleared)

    def _run(self, ctx: ToolContext, work: Callable[[sqlite3.Connection, str], Any]) -> Any:
        owner = self.rows.owner((ctx.user_id, ctx.space_id))

        def run(rows: sqlite3.Connection) -> Any:
            if hours := self._config.session_ttl_hours:
                rows.execute("DELETE FROM rrext_memory WHERE owner = ? AND at < ?", (owner, self._now() - hours * 3600))
            return work(rows, owner)

        return self.rows.run(run)


OLDEST: Final = """
DELETE FROM rrext_memory WHERE number IN (
    SELECT number FROM rrext_memory WHERE owner = ? ORDER BY number DESC LIMIT -1 OFFSET ?
)
"""
