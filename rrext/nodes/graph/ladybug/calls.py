"""Messages between the server and the process of an embedded graph, in frames of `rrext.nodes.child.calls`.

Every request but `GraphOpen` belongs to a transaction, by its number. Parameters and answers are JSON.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rrext.nodes.child.process import Cancel, ChildRequest

STUCK_AFTER: Final = 1.5
"""Seconds after which a statement that does not stop ends with its process: some of Ladybug's functions never check."""
START_PATIENCE: Final = 5.0
"""Seconds for a transaction to begin after a cancel: another process may have to release the file."""
COMMIT_PATIENCE: Final = 15.0
"""Seconds for a commit to end after a cancel: it may have much to write."""
OPEN_PATIENCE: Final = 60.0
"""Seconds for a database to open after a cancel: the recovery from a crash may be long."""

LADYBUG_FAILED: Final = "ladybug_failed"
"""The code of an answer with an error of Ladybug itself."""


class GraphOpen(ChildRequest, frozen=True, tag=True):
    """Open the database, if it is not open. Belongs to no transaction."""

    begins = True
    patience = OPEN_PATIENCE


class GraphBegin(ChildRequest, frozen=True, tag=True):
    """Wait for the turn if the transaction writes, and begin. `timeout` is Ladybug's own statement limit in seconds."""

    transaction: int
    read_only: bool
    timeout: float

    begins = True
    patience = START_PATIENCE


class GraphRun(ChildRequest, frozen=True, tag=True):
    """Run a statement and send its first rows. Ends the transaction's previous statement."""

    transaction: int
    cypher: str
    params: bytes
    size: int
    counts: bool = False

    patience = STUCK_AFTER


class GraphFetch(ChildRequest, frozen=True, tag=True):
    """Send the next rows of the statement."""

    transaction: int
    size: int

    patience = STUCK_AFTER


class GraphExplain(ChildRequest, frozen=True, tag=True):
    """Send the plan of a statement."""

    transaction: int
    cypher: str
    params: bytes

    patience = STUCK_AFTER


class GraphCommit(ChildRequest, frozen=True, tag=True):
    """Commit the transaction."""

    transaction: int

    changes = True
    patience = COMMIT_PATIENCE


class GraphEnd(ChildRequest, frozen=True, tag=True):
    """Roll back the transaction. The server does not wait for the answer."""

    transaction: int


Message = GraphOpen | GraphBegin | GraphRun | GraphFetch | GraphExplain | GraphCommit | GraphEnd | Cancel
"""A message of the server."""


class GraphRows(msgspec.Struct, frozen=True):
    """The answer to `GraphRun` and `GraphFetch`. `is_last` says that there are no more rows; only `GraphRun` is answered with
    the last three fields."""

    rows: list[list[object]]
    is_last: bool
    columns: list[str] = []
    types: list[str | None] = []
    counters: dict[str, int] | None = None
