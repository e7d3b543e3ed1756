"""Limits of `tool_filesystem` and of locks on files: sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# filesystem.py
READ_DEFAULT: Final = 256 * KIB
READ_MAX: Final = 4 * MIB
LIST_DEFAULT: Final = 1000
LIST_MAX: Final = 10_000

# offered_files.py
WALK_MAX: Final = 20_000
"""Files that one page of offered files looks at: some tenths of a second, after which a caller may give up."""
OFFERED_DEFAULT: Final = 250
"""Offered files of a page."""

# file_lock.py
LEAVING_TIMEOUT: Final = 5.0
"""Minimum seconds to wait for the children of a killed process: they need up to these to end."""
LOCK_AGAIN: Final = 0.02
"""Seconds between attempts: the system offers no wait for such a lock that can be cancelled."""

# turns.py
TURN_LOOK: Final = 0.2
"""Seconds between checks whether another process waits for the open resource."""
TURN: Final = 1.0
"""Seconds that a busy process keeps the resource though another waits: opening it takes a while."""
LAST_USES: Final = 1.0
"""Seconds for which new uses wait until the last ones end. If those do not, all continue for another turn."""
CLOSING_TIMEOUT: Final = 5.0
"""Seconds that `close` waits for uses to end, by default."""
TURN_AGAIN: Final = 0.05
"""Seconds between checks whether a use that waits for its turn has been cancelled."""
