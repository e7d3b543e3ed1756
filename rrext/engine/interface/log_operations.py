"""The operations of run logs: subcommands of `rrext_log` with the names and arguments of RocketRide."""

from __future__ import annotations

from rrext.engine.interface.operations import LogOperation, Operation


class ListRunLogs(LogOperation, frozen=True, kw_only=True, rename="camel"):
    """List the logs of a source that the caller may read: its own, if there is one. → `{streams}`"""


class ReadChapters(LogOperation, frozen=True, kw_only=True, rename="camel"):
    """Describe the runs and segments of a log. → `{chapters, segments, startTime, endTime, horizonSeq, completed}`"""


class ReadRunLog(LogOperation, frozen=True, kw_only=True, rename="camel"):
    """Read events of a log, in pages. → `{events, nextSeq?, truncatedAtSeq?}`"""

    from_seq: int | None = None
    to_seq: int | None = None
    from_time: float | None = None
    to_time: float | None = None
    to_segment: int | None = None
    cursor: int | None = None
    max_events: int | None = None
    max_bytes: int | None = None
    types: list[str] | None = None


class ReadSegment(LogOperation, frozen=True, kw_only=True, rename="camel"):
    """Read whole lines of a segment. → `{segment, offset, data, size, nextOffset, final}`"""

    segment: int
    offset: int = 0
    max_bytes: int | None = None


class DeleteRunLog(LogOperation, frozen=True, kw_only=True, rename="camel"):
    """Delete a log, or its segments before a time. → `{deletedSegments}`"""

    before_time: float | None = None
    all: bool = False


LOG_SUBCOMMANDS: dict[str, type[Operation]] = {
    "streams": ListRunLogs,
    "chapters": ReadChapters,
    "read": ReadRunLog,
    "segment": ReadSegment,
    "delete": DeleteRunLog,
}
"""Subcommand of `rrext_log` → operation."""
