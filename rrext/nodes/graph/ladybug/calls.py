"""What the server and the process of an embedded graph say to each other, in frames of `rrext.nodes.child.calls`.

Every request but `Open` belongs to a transaction, by its number. Parameters and answers are JSON.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rrext.nodes.child.engine import Cancel, EngineRequest

ENGINE_FAILED: Final = "engine_failed"
"""The code of an answer that says what the engine itself raised."""
STUCK: Final = 1.5
"""Seconds after which a statement that does not stop ends with its process: some of the engine's functions never look up."""
STARTING: Final = 5.0
"""The same for a transaction that begins, for which another process may have to let go of the file."""
COMMITTING: Final = 15.0
"""The same for a commit, which may have much to write."""
OPENING: Final = 60.0
"""The same for opening a database, which may have much to do again after a crash."""


class Open(EngineRequest, frozen=True, tag=True):
    """Open the database, if it is not open. Belongs to no transaction."""

    begins = True
    patience = OPENING


class Start(EngineRequest, frozen=True, tag=True):
    """Wait for the turn, if it writes, and begin. `timeout` is the engine's own limit of a statement, in seconds."""

    transaction: int
    read_only: bool
    timeout: float

    begins = True
    patience = STARTING


class Run(EngineRequest, frozen=True, tag=True):
    """Run a statement and send its first rows. A statement before it in the transaction is over then."""

    transaction: int
    cypher: str
    params: bytes
    size: int
    counts: bool = False

    patience = STUCK


class Fetch(EngineRequest, frozen=True, tag=True):
    """The next rows of the statement."""

    transaction: int
    size: int

    patience = STUCK


class Explain(EngineRequest, frozen=True, tag=True):
    """The plan of a statement."""

    transaction: int
    cypher: str
    params: bytes

    patience = STUCK


class Commit(EngineRequest, frozen=True, tag=True):
    """Keep what was done."""

    transaction: int

    changes = True
    patience = COMMITTING


class End(EngineRequest, frozen=True, tag=True):
    """Undo what is not committed. Nobody waits for its answer."""

    transaction: int


Message = Open | Start | Run | Fetch | Explain | Commit | End | Cancel
"""What the server sends."""


class Rows(msgspec.Struct, frozen=True):
    """The answer to `Run` and `Fetch`. All but the rows is in the answer to `Run` alone; `is_last` says that there are no
    more."""

    rows: list[list[object]]
    is_last: bool
    columns: list[str] = []
    types: list[str | None] = []
    counters: dict[str, int] | None = None
