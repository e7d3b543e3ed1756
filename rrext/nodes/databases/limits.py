"""Limits that SQL and graph databases share; times in seconds."""

from __future__ import annotations

from typing import Final

# sessions.py
SESSION_TURN: Final = 0.25
"""Seconds between checks whether a call that waits for its turn in a session has been cancelled."""

# running_statement.py
CANCEL_AGAIN: Final = 0.05
"""Seconds until a cancel of a statement is repeated: the first may have come before the statement began."""

# cells.py
LARGE_BATCH: Final = 1024 * 1024
"""Bytes after which a driver is asked for no further row at once: a few rows may be as large as thousands of others."""

# node.py and calls.py of both families
MAX_ROWS: Final = 25_000
"""Rows of one answer at most, as in RocketRide's nodes; larger results are streamed."""
QUERY_ROWS: Final = 1000
"""Rows of `query` unless the caller says how many: enough to look at, and little to send."""
ENCODED_ROWS: Final = 500
"""Rows of an answer that are encoded at once, without a Python object for each: of fewer, that gains less than its setup."""
CHUNK_BYTES: Final = 256 * 1024
"""Bytes after which a chunk is sent, whatever its number of rows; approximate."""

# node.py
MOST_ROWS: Final = 10_000_000
"""The maximum of max_execute_rows; the bytes of an answer have their own limit."""
LONGEST_WAIT: Final = 3600
"""Seconds; no call of a tool may take longer."""
