"""Constants of the profiler and of run logs."""

from __future__ import annotations

from typing import Final

from rrext.limits import KIB, MIB

PROFILE_INTERVAL: Final = 0.01
"""Seconds between two samples of a profile: a look at twenty threads takes a third of a millisecond."""
MAX_PROFILE_TIME: Final = 3600.0
"""Seconds after which a session of the profiler ends by itself."""
MAX_PROFILE_NODES: Final = 20_000
"""Functions in the tree of a profile, which is some megabytes then; the time of more is that of their callers."""
MAX_PROFILE_DEPTH: Final = 150
"""Calls within each other in a profile: readers of JSON do not take trees of any depth."""
MAX_REPORTED_FUNCTIONS: Final = 200
"""Lines of the report of a profile."""
SEGMENT_BYTES: Final = 256 * KIB
"""Bytes of a segment of a run log: the unit that a client reads at once, and that goes when there are too many."""
MAX_USER_LOG_BYTES: Final = 16 * MIB
"""Bytes of the run logs of one user; they are in memory."""
MAX_USER_LOGS: Final = 100
"""Sources of which a user has a run log; the oldest go first."""
MAX_CHAPTERS: Final = 1000
"""Runs in the timeline of a source."""
CONSOLE_LINES: Final = 200
"""Lines of output with which a segment begins, so that a reader need not read those before it."""
MAX_LOG_PAGE: Final = 1000
"""Events of a page of a run log."""
MAX_LOG_PAGE_BYTES: Final = MIB
"""Bytes of a page, and of a piece of a segment."""
