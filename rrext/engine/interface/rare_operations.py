"""Operations that few clients send, with the names and arguments of RocketRide: of run logs (`rrext_log`), of the profiler
(`rrext_cprofile_…`), and of the file store (`rrext_store`).
"""

from __future__ import annotations

from rrext.engine.interface.operations import LogOperation, Operation, ProfileOperation, StoreOperation
from rrext.files.file_store import READ_PIECE


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


class OpenFile(StoreOperation, frozen=True, kw_only=True):
    """Open a file for reading (`r`) or writing (`w`). → `{handle, size?}`"""

    path: str
    mode: str = "r"


class ReadFile(StoreOperation, frozen=True, kw_only=True):
    """Read a part of an open file. → `{size}` and raw bytes"""

    handle: str
    offset: int = 0
    length: int = READ_PIECE


class WriteFile(StoreOperation, frozen=True, kw_only=True):
    """Append to an open file, as `write` to a pipe. → `{bytesWritten}`"""

    takes_tail = True

    handle: str
    data: str | None = None
    data_base64: str | None = None


class CloseFile(StoreOperation, frozen=True, kw_only=True):
    """Close a file; what was written appears at its path, or goes with `discard`. `mode` is accepted and not needed. → `{}`"""

    handle: str
    mode: str | None = None
    discard: bool = False


class StatFile(StoreOperation, frozen=True, kw_only=True):
    """Look what stands at a path. → `{exists, type?, size?, modified?}`"""

    path: str


class ListDirectory(StoreOperation, frozen=True, kw_only=True):
    """List a directory. → `{entries, count}`"""

    path: str = ""


class DeleteFile(StoreOperation, frozen=True, kw_only=True):
    """Remove a file. → `{}`"""

    path: str


class MakeDirectory(StoreOperation, frozen=True, kw_only=True):
    """Make a directory and those above it. → `{}`"""

    path: str


class RemoveDirectory(StoreOperation, frozen=True, kw_only=True):
    """Remove a directory, which must be empty unless `recursive`. → `{}`"""

    path: str
    recursive: bool = False


class RenameFile(StoreOperation, frozen=True, kw_only=True):
    """Give a file or a directory another path. → `{}`"""

    old_path: str
    new_path: str


class ReadFiles(StoreOperation, frozen=True, kw_only=True):
    """Read many small files. → `{entries}` and raw bytes"""

    paths: list[str]


class LinkFile(StoreOperation, frozen=True, kw_only=True):
    """Ask for a link to a file, which this server has not."""

    path: str


STORE_SUBCOMMANDS: dict[str, type[Operation]] = {
    "fs_open": OpenFile,
    "fs_read": ReadFile,
    "fs_write": WriteFile,
    "fs_close": CloseFile,
    "fs_stat": StatFile,
    "fs_list_dir": ListDirectory,
    "fs_delete": DeleteFile,
    "fs_mkdir": MakeDirectory,
    "fs_rmdir": RemoveDirectory,
    "fs_rename": RenameFile,
    "fs_read_many": ReadFiles,
    "fs_geturl": LinkFile,
}
"""Subcommand of `rrext_store` → operation."""
