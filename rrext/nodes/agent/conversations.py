"""`ConversationStore`: the finished turns of the sessions of an agent, each session for its user and space alone."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from rrext.errors import ToolError
from rrext.nodes.base.node import Tenant
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.files.kept_rows import KeptRows, KeptTable

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

MIB: Final = 1024 * 1024

MAX_SESSIONS: Final = 200
"""Sessions that a user keeps with an agent; the one that rested longest is forgotten. A person has dozens."""
MAX_SESSION_BYTES: Final = 4 * MIB
"""Bytes of a session, whose oldest turns are forgotten: more than the window of any model."""
MAX_NAME: Final = 200
"""Characters in the name of a session: an id has some dozens."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS rrext_turns (
    turn INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, session TEXT NOT NULL, at REAL NOT NULL, messages BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS rrext_turns_of_sessions ON rrext_turns (owner, session, turn);
"""
TABLE: Final = KeptTable(SCHEMA, "rrext_turns", "turn", ("owner", "session"), "messages")


class ConversationTurn:
    """A turn of a session: the `messages` of those before it, and the way to keep its own."""

    def __init__(self, messages: list[ModelMessage], keep: Callable[[Sequence[ModelMessage]], Awaitable[None]]) -> None:
        self.messages = messages
        self._keep = keep

    async def finish(self, messages: Sequence[ModelMessage]) -> None:
        """Keep the messages of this turn, its question first. Without it nothing of the turn is kept.

        Raises `ToolError` (`store_failed`, `turn_too_large`).
        """
        await self._keep(messages)


class ConversationStore:
    """Keeps the turns of sessions in memory, or in the SQLite file `path`. Belongs to the loop that uses it; what takes time
    runs on threads.

    A session without a turn for `ttl_hours` is forgotten (0: never), and all but its last `max_history` turns.
    """

    def __init__(
        self,
        path: str,
        ctx: SetupContext,
        *,
        ttl_hours: float = 0,
        max_history: int = 100,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`path` is a setting, empty for memory. Opens nothing yet. Raises `Unavailable` for a path out of the root."""
        self._rows = KeptRows(path, TABLE, ctx)
        self._in_thread = ctx.in_thread
        self._ttl = ttl_hours * 3600
        self._max_history = max_history
        self._now = now
        self._lines: dict[tuple[str, str], tuple[asyncio.Lock, list[None]]] = {}

    @asynccontextmanager
    async def turn(self, tenant: Tenant, session: str) -> AsyncIterator[ConversationTurn]:
        """One turn of a session. Turns of one session in this process follow each other, others do not wait.

        Raises `ToolError`: `bad_session`, `store_failed`, `conversation_unreadable`.
        """
        if not session.strip() or len(session) > MAX_NAME:
            raise ToolError(f"A session has a name of 1 to {MAX_NAME} characters", code="bad_session")
        owner = self._rows.owner(tenant)
        async with self._line(owner, session):
            before = await self._in_thread(self._read, owner, session)

            async def keep(messages: Sequence[ModelMessage]) -> None:
                await self._in_thread(self._write, owner, session, [*messages])

            yield ConversationTurn(before, keep)

    async def aclose(self) -> None:
        """Close the file."""
        await self._in_thread(self._rows.close)

    @asynccontextmanager
    async def _line(self, owner: str, session: str) -> AsyncIterator[None]:
        """The line of a session: there while somebody stands in it."""
        lock, waiting = self._lines.setdefault((owner, session), (asyncio.Lock(), []))
        waiting.append(None)
        try:
            async with lock:
                yield
        finally:
            waiting.pop()
            if not waiting:
                del self._lines[owner, session]

    def _read(self, owner: str, session: str) -> list[ModelMessage]:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        asked = "SELECT messages FROM rrext_turns WHERE owner = ? AND session = ? ORDER BY turn DESC LIMIT ?"

        def read(rows: sqlite3.Connection) -> list[bytes]:
            if self._ttl:
                rows.execute(RESTED, (owner, owner, self._now() - self._ttl))
            return [row[0] for row in rows.execute(asked, (owner, session, self._max_history))]

        kept = self._rows.run(read)[::-1]
        try:
            return [message for turn in kept for message in ModelMessagesTypeAdapter.validate_json(turn)]
        except ValueError:
            raise ToolError(
                "The turns of this session are in a form that this version does not know",
                code="conversation_unreadable",
                hint="Ask in another session, or move the file away.",
            ) from None

    def _write(self, owner: str, session: str, messages: list[ModelMessage]) -> None:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        said = ModelMessagesTypeAdapter.dump_json(messages)
        if len(said) > MAX_SESSION_BYTES:
            raise ToolError(
                f"A turn of {len(said):,} bytes is too large for a session, which holds {MAX_SESSION_BYTES:,}",
                code="turn_too_large",
            )
        told = "INSERT INTO rrext_turns (owner, session, at, messages) VALUES (?, ?, ?, ?)"

        def write(rows: sqlite3.Connection) -> None:
            rows.execute(told, (owner, session, self._now(), said))
            rows.execute(OLD_TURNS, (owner, session, self._max_history, MAX_SESSION_BYTES))
            rows.execute(OLD_SESSIONS, (owner, owner, MAX_SESSIONS))

        self._rows.run(write)


OLD_TURNS: Final = """
DELETE FROM rrext_turns WHERE turn IN (
    SELECT turn FROM (
        SELECT turn, row_number() OVER newest AS place, sum(length(messages)) OVER newest AS bytes
        FROM rrext_turns WHERE owner = ? AND session = ? WINDOW newest AS (ORDER BY turn DESC)
    ) WHERE place > ? OR bytes > ?
)
"""
OLD_SESSIONS: Final = """
DELETE FROM rrext_turns WHERE owner = ? AND session IN (
    SELECT session FROM rrext_turns WHERE owner = ? GROUP BY session ORDER BY max(turn) DESC LIMIT -1 OFFSET ?
)
"""
RESTED: Final = """
DELETE FROM rrext_turns WHERE owner = ? AND session IN (
    SELECT session FROM rrext_turns WHERE owner = ? GROUP BY session HAVING max(at) < ?
)
"""
