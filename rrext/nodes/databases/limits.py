"""Limits that SQL and graph databases share; times in seconds."""

from __future__ import annotations

from typing import Final

# sessions.py
SESSION_TURN: Final = 0.25
"""Seconds between looks at whether a call that waits for its turn in a session is still wanted."""

# running.py
CANCEL_AGAIN: Final = 0.05
"""Seconds until a statement that was cancelled is cancelled once more: the first time may have come before it began."""

# cells.py
LARGE_BATCH: Final = 1024 * 1024
"""Bytes after which a driver is asked for no further row at once: a few rows may be as large as thousands of others."""

# node.py and calls.py of both families
MAX_ROWS: Final = 25_000
"""Rows of one answer at most, as in RocketRide's nodes; larger results are streamed."""
QUERY_ROWS: Final = 1000
"""Rows of `query` unless the caller says how many: enough to look at, and little to send."""
CHUNK_BYTES: Final = 256 * 1024
"""About how large a chunk may become before it is sent, whatever number of rows it has."""

# node.py
MOST_ROWS: Final = 10_000_000
"""What max_execute_rows may be raised to; an answer's bytes are limited anyway."""
LONGEST_WAIT: Final = 3600
"""Seconds; no call of a tool may take longer."""
