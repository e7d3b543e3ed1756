"""Limits of engines in child processes; times in seconds."""

from __future__ import annotations

from typing import Final

# blocks.py
RECEIVED_AT_ONCE: Final = 262_144
"""Bytes of one read from the socket of a call."""

# engine.py
ENDING_TIMEOUT: Final = 5.0
"""Seconds for a process that closed its end to be gone, before it is killed."""
SETTLING_TIMEOUT: Final = 2.0
"""Seconds that a process which is to be killed has for answers to requests that change something."""
SETTLING_TURN: Final = 0.01
"""Seconds between looks at whether those have their answers."""
LOGGED_LINE: Final = 4096
"""Bytes of a line that is logged; more of it is another event."""

# supervisor.py
ATTEMPTS: Final = 5
"""How often a call is done at most."""
RUNS_ALONE_FOR: Final = 1.0
"""Seconds for which a call that may have ended the process has the next one for itself."""
WAIT_TURN: Final = 0.05
"""Seconds between looks at whether a call that waits is still wanted."""
LEAST_TIME: Final = 0.001
"""Seconds that an attempt gets whose time is over, so that it ends as all calls do that take too long."""
