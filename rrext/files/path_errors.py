"""Errors of paths: the system's error as a `ToolError` with a code of its own."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from rrext.errors import ToolError

_CODES: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("path_not_found", "does not exist"),
    errno.ENOTDIR: ("not_a_directory", "is not a directory"),
    errno.EISDIR: ("not_a_file", "is not a regular file"),
    errno.EEXIST: ("path_exists", "exists already"),
    errno.ENOTEMPTY: ("directory_not_empty", "is not empty"),
    errno.EACCES: ("permission_denied", "may not be touched by this process"),
    errno.EPERM: ("permission_denied", "may not be touched by this process"),
    errno.EROFS: ("permission_denied", "is on a read-only file system"),
    errno.ENAMETOOLONG: ("path_invalid", "has a name that is too long"),
    errno.EINVAL: ("path_invalid", "is no name for a file here"),
    errno.ENOSPC: ("no_space", "does not fit: the disk is full"),
    errno.EDQUOT: ("no_space", "does not fit: the quota is used up"),
}
"""The system's error number -> the code and the sentence of the error for the caller."""


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn an `OSError` of the block into a `ToolError` about `path`."""
    try:
        yield
    except OSError as error:
        raise explanation(error, path) from error


def explanation(error: OSError, path: str) -> ToolError:
    """Make the caller's error for the system's error at `path`."""
    if error.errno == errno.ELOOP:
        return link(path)
    code, what = _CODES.get(error.errno or 0, ("file_failed", f"failed: {error.strerror}"))
    return refusal(path, code, what)


def link(path: str) -> ToolError:
    """The error for a symbolic link."""
    return refusal(path, "path_is_symlink", "is a symbolic link", hint="Links are never followed: give the real path.")


def refusal(path: str, code: str, what: str, *, hint: str | None = None) -> ToolError:
    """Make the error for a path and a reason."""
    return ToolError(f'"{path}" {what}', code=code, hint=hint)
