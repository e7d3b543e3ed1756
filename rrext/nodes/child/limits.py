"""Limits of child processes; times in seconds."""

from __future__ import annotations

from typing import Final

# process.py
ENDING_TIMEOUT: Final = 5.0
"""Seconds that a process gets to end after it closed its socket, before it is killed."""
SETTLING_TIMEOUT: Final = 2.0
"""Seconds that a process gets, before it is killed, to answer requests that change data."""
SETTLING_TURN: Final = 0.01
"""Seconds between checks whether those requests have their answers."""
LOGGED_LINE: Final = 4096
"""Bytes of one logged line; the rest becomes the next log record."""

# supervisor.py
ATTEMPTS: Final = 5
"""The maximum number of attempts of a call."""
RUNS_ALONE_FOR: Final = 1.0
"""Seconds for which a call that may have ended the process has the next process for itself."""
WAIT_TURN: Final = 0.05
"""Seconds between checks whether a waiting call has been cancelled."""
LEAST_TIME: Final = 0.001
"""Seconds for a repeated attempt whose time is over, so that it ends with the ordinary timeout error."""

MOST_TOLD: Final = 10_000
"""Connections that are told of lost data, each once. Those that come so late have never seen the data."""
