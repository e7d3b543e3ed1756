"""What the server and the process of an embedded graph say to each other, in frames of `child_calls`.

Every request but `Open` belongs to a transaction, by its number. Parameters and answers are JSON.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rrext.nodes.child_engine import Request

__all__ = ["ENGINE_FAILED", "Commit", "End", "Explain", "Fetch", "Interrupt", "Message", "Open", "Rows", "Run", "Start"]

ENGINE_FAILED: Final = "engine_failed"
"""The code of an answer that says what the engine itself raised."""


class Open(Request, frozen=True, tag=True):
    """Open the database, if it is not open. Belongs to no transaction."""


class Start(Request, frozen=True, tag=True):
    """Wait for the turn, if it writes, and begin. `timeout` is the engine's own limit of a statement, in seconds."""

    transaction: int
    read_only: bool
    timeout: float


class Run(Request, frozen=True, tag=True):
    """Run a statement and send its first rows. A statement before it in the transaction is over then."""

    transaction: int
    cypher: str
    params: bytes
    size: int


class Fetch(Request, frozen=True, tag=True):
    """The next rows of the statement."""

    transaction: int
    size: int


class Explain(Request, frozen=True, tag=True):
    """The plan of a statement."""

    transaction: int
    cypher: str
    params: bytes


class Commit(Request, frozen=True, tag=True):
    """Keep what was done."""

    transaction: int


class End(Request, frozen=True, tag=True):
    """Undo what is not committed. Nobody waits for its answer."""

    transaction: int


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """Make what runs in the transaction fail soon. Has no answer."""

    transaction: int


Message = Open | Start | Run | Fetch | Explain | Commit | End | Interrupt
"""What the server sends."""


class Rows(msgspec.Struct, frozen=True):
    """The answer to `Run` and `Fetch`. `columns` are empty in an answer to `Fetch`; `is_last` says that there are no more."""

    columns: list[str]
    rows: list[list[object]]
    is_last: bool
