"""What the server and the process of an embedded graph say to each other, in frames of `rrext.nodes.child.calls`.

Every request but `Open` belongs to a transaction, by its number. Parameters and answers are JSON.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rrext.nodes.child.engine import Cancel, EngineRequest
from rrext.nodes.graph.limits import COMMIT_PATIENCE, OPEN_PATIENCE, START_PATIENCE, STUCK_AFTER

ENGINE_FAILED: Final = "engine_failed"
"""The code of an answer that says what the engine itself raised."""


class Open(EngineRequest, frozen=True, tag=True):
    """Open the database, if it is not open. Belongs to no transaction."""

    begins = True
    patience = OPEN_PATIENCE


class Start(EngineRequest, frozen=True, tag=True):
    """Wait for the turn, if it writes, and begin. `timeout` is the engine's own limit of a statement, in seconds."""

    transaction: int
    read_only: bool
    timeout: float

    begins = True
    patience = START_PATIENCE


class Run(EngineRequest, frozen=True, tag=True):
    """Run a statement and send its first rows. A statement before it in the transaction is over then."""

    transaction: int
    cypher: str
    params: bytes
    size: int
    counts: bool = False

    patience = STUCK_AFTER


class Fetch(EngineRequest, frozen=True, tag=True):
    """The next rows of the statement."""

    transaction: int
    size: int

    patience = STUCK_AFTER


class Explain(EngineRequest, frozen=True, tag=True):
    """The plan of a statement."""

    transaction: int
    cypher: str
    params: bytes

    patience = STUCK_AFTER


class Commit(EngineRequest, frozen=True, tag=True):
    """Keep what was done."""

    transaction: int

    changes = True
    patience = COMMIT_PATIENCE


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
