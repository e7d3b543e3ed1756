"""The operations of the file store: subcommands of `rrext_store` with the names and arguments of RocketRide."""

from __future__ import annotations

from rrext.engine.interface.operations import Operation, StoreOperation
from rrext.files.file_store import READ_PIECE


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
