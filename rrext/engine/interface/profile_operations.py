"""The operations of the profiler: RocketRide's `rrext_cprofile_…` commands with their arguments."""

from __future__ import annotations

from rrext.engine.interface.operations import ProfileOperation


class StartProfile(ProfileOperation, frozen=True, kw_only=True):
    """Begin a session. → `{status, session, owner, start_time}`"""

    session: str | None = None


class StopProfile(ProfileOperation, frozen=True, kw_only=True):
    """End the session of this connection. → `{status, session, runtime}`"""


class ProfileStatus(ProfileOperation, frozen=True, kw_only=True):
    """Whether a session runs. → `{active, owner, session, runtime, has_report}`"""


class ProfileReport(ProfileOperation, frozen=True, kw_only=True):
    """The functions of the last session, as a text. → `{report}`"""


class ProfileTree(ProfileOperation, frozen=True, kw_only=True):
    """The calls of the last session as a tree, of all threads or of one. → `{tree, total_time, total_calls}`"""

    max_depth: int = 50
    min_pct: float = 0.1
    include_system: bool = True
    thread: int | None = None


class ProfileThreads(ProfileOperation, frozen=True, kw_only=True):
    """The threads of the last session, the busiest first. → `{threads}`"""


PROFILE_COMMANDS: dict[str, type[ProfileOperation]] = {
    "rrext_cprofile_start": StartProfile,
    "rrext_cprofile_stop": StopProfile,
    "rrext_cprofile_status": ProfileStatus,
    "rrext_cprofile_report": ProfileReport,
    "rrext_cprofile_report_tree": ProfileTree,
    "rrext_cprofile_threads": ProfileThreads,
}
"""Command → operation."""
