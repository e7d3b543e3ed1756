"""Constants of the profiler."""

from __future__ import annotations

from typing import Final

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
