"""Limits of `tool_filesystem` and of locks on files: sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# confinement.py
MAX_PATH: Final = 4096
"""Characters of a path; what Linux takes at once."""
MAX_DEPTH: Final = 128
"""Components of a path; each one costs a system call."""
SCAN_STEP: Final = 1024
"""Names of a directory that are read between two looks at the caller's deadline."""

# filesystem.py
READ_DEFAULT: Final = 256 * KIB
READ_MAX: Final = 4 * MIB
LIST_DEFAULT: Final = 1000
LIST_MAX: Final = 10_000

# file_lock.py
LEAVING_TIMEOUT: Final = 5.0
"""Seconds to wait at least for who works for a process that was killed: it needs up to these to end."""
LOCK_AGAIN: Final = 0.02
"""Seconds between attempts: the system knows no waiting for such a lock that can be given up."""

# turns.py
TURN_LOOK: Final = 0.2
"""Seconds between looks at whether another process waits, while it is open."""
TURN: Final = 1.0
"""Seconds that a process keeps it though another waits, if it is busy: opening it takes a while."""
LAST_USES: Final = 1.0
"""Seconds that new uses are held up for the last ones to end. If they do not, all goes on for another turn."""
CLOSING_TIMEOUT: Final = 5.0
"""Seconds that closing for good waits for uses to end, unless said otherwise."""
TURN_AGAIN: Final = 0.05
"""Seconds between looks at whether a use that waits for its turn is still wanted."""
