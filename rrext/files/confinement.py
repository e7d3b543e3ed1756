"""File access that cannot leave one directory, with any path, and while other processes move files.

The module walks a path one component at a time, opening each relative to its parent and never through a symbolic link, so
nothing can change between a check and a use. Refused are absolute paths, `..`, null bytes, paths that pass or end at a
symbolic link, and paths that end at anything but a regular file or a directory (a FIFO or a device is never opened for
long). Hard links and mounts are not detected; only a user with rights outside can make those. An error of the system
becomes a `ToolError` with a code of its own.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from rrext.errors import ToolError

MAX_DEPTH: Final = 128
"""Components of a path; each one costs a system call."""

MAX_PATH: Final = 4096
"""Characters of a path; what Linux takes at once."""

SCAN_STEP: Final = 1024
"""Names of a directory that are read between two checks of the caller's deadline."""

_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | _SAFE
_LIST = os.O_RDONLY | os.O_DIRECTORY | _SAFE
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _SAFE
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE


class FileInfo(msgspec.Struct, frozen=True):
    """A name in a directory: `type` is file, dir, symlink or other, `size` bytes, `modified` seconds since 1970.

    A name that is not UTF-8 is shown with `\\x` for its other bytes, and no path can lead to it: it is not `addressable`.
    """

    name: str
    type: str
    size: int
    modified: float
    addressable: bool = True

    @classmethod
    def of(cls, name: str, info: os.stat_result, *, addressable: bool = True) -> FileInfo:
        """Make the info from a stat result."""
        return cls(name, _kind(info.st_mode), info.st_size, info.st_mtime, addressable)


class TreeSize(msgspec.Struct, frozen=True):
    """The size of what stands below a directory: bytes of files, number of names, and the deepest level of them."""

    size: int = 0
    entries: int = 0
    depth: int = 0


class Confinement:
    """One directory, held open, and everything below it. A context manager; every failure is a `ToolError`."""

    def __init__(self, root_fd: int) -> None:
        """Takes over the descriptor of the directory."""
        self._root = root_fd

    @classmethod
    def at(cls, root: str) -> Confinement:
        """The directory at a trusted path; raises `OSError`. Links in `root` itself are followed."""
        return cls(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def beneath(self, path: str) -> Confinement:
        """A directory below this one as a root of its own."""
        return Confinement(self._directory(path))

    def close(self) -> None:
        """Close the descriptor of the directory. Descriptors that `beneath` made stay open."""
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def __enter__(self) -> Confinement:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Confinement fd={self._root}>" if self._root >= 0 else "<Confinement closed>"

    def read(self, path: str, *, offset: int = 0, limit: int) -> tuple[bytes, int]:
        """At most `limit` bytes from `offset`, and the size of the whole file. Regular files only."""
        fd, size = self.open_file(path)
        try:
            with explained(path):
                data = read_at(fd, offset, limit)
        finally:
            os.close(fd)
        return data, max(size, offset + len(data))

    def open_file(self, path: str) -> tuple[int, int]:
        """Open a regular file for reading: a new descriptor, and the size of the file."""
        with self._parent(path) as (parent, name), explained(path):
            _require_file(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
            fd = os.open(name, _READ, dir_fd=parent)
            try:
                info = os.fstat(fd)
                _require_file(info, path)  # the opened file, not one that had the name a moment ago
            except BaseException:
                os.close(fd)
                raise
        return fd, info.st_size

    def listing(self, path: str, *, limit: int, after: str = "", check: Callable[[], None] | None = None) -> list[FileInfo]:
        """List at most `limit` names of a directory, sorted by code point, from the first name after `after`.

        Memory holds `limit` names, however many there are. `check` is called now and then and may raise.
        """
        fd = self._directory(path)
        try:
            with explained(path), os.scandir(fd) as entries:
                named = ((_shown(e.name), e.name) for e in _checked(entries, check))
                first = heapq.nsmallest(limit, (pair for pair in named if pair[0] > after))
                return [
                    FileInfo.of(shown, info, addressable=shown == name)
                    for shown, name in first
                    if (info := _lstat_or_none(fd, name)) is not None  # None: removed since
                ]
        finally:
            os.close(fd)

    def info(self, path: str) -> FileInfo | None:
        """The info of a path, or None if it does not exist. A final symbolic link is reported, not followed."""
        try:
            with self._parent(path) as (parent, name), explained(path):
                return FileInfo.of(name.decode(), os.stat(name, dir_fd=parent, follow_symlinks=False))
        except ToolError as error:
            if error.code == "path_not_found":
                return None
            raise

    def write(self, path: str, data: bytes) -> None:
        """Write a file, whole or not at all: readers see the old content or the new content.

        A new file belongs to its owner alone (0600); one that is replaced keeps its mode. A file without write
        permission, and anything that is no regular file, is refused.
        """
        with self._parent(path) as (parent, name), explained(path):
            old = _lstat_or_none(parent, name)
            if old is not None:
                _require_file(old, path)
                if not old.st_mode & stat.S_IWUSR:
                    raise refusal(path, "permission_denied", "is write-protected")
            _replace(parent, name, data, 0o600 if old is None else stat.S_IMODE(old.st_mode) & 0o777)

    def delete(self, path: str) -> None:
        """Remove a regular file. Directories, links and all else are refused."""
        with self._parent(path) as (parent, name), explained(path):
            _require_file(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
            os.unlink(name, dir_fd=parent)

    def make_directory(self, path: str) -> int:
        """Make a directory and those above it that are missing (mode 0700); how many of them were missing."""
        created = 0
        parts = _parts(path)
        here = os.dup(self._root)
        try:
            for depth, part in enumerate(parts, 1):
                with explained(_joined(parts[:depth])):
                    created += _made(here, part)
                here = _step(here, parts, depth, _PASS)
        finally:
            os.close(here)
        return created

    def missing(self, path: str) -> int:
        """How many directories `make_directory` would have to make."""
        parts = _parts(path)
        here = os.dup(self._root)
        try:
            for depth in range(1, len(parts) + 1):
                if _lstat_or_none(here, parts[depth - 1]) is None:
                    return len(parts) - depth + 1
                here = _step(here, parts, depth, _PASS)
        finally:
            os.close(here)
        return 0

    def create(self, name: str) -> int:
        """Create a file that must not exist (mode 0600), and open it for writing."""
        with self._parent(name) as (parent, last), explained(name):
            return os.open(last, _CREATE, 0o600, dir_fd=parent)

    def take_in(self, path: str, other: Confinement, name: str) -> FileInfo | None:
        """Move a file of another root on the same file system to `path`, over a file there: the info of that one."""
        with self._parent(path) as (parent, last), explained(path):
            old = _lstat_or_none(parent, last)
            if old is not None:
                _require_file(old, path)
            with other._parent(name) as (source, new):
                os.replace(new, last, src_dir_fd=source, dst_dir_fd=parent)
        return None if old is None else FileInfo.of(path, old)

    def rename(self, path: str, new_path: str) -> None:
        """Give a file or a directory another path, at which there must be nothing."""
        with self._parent(path) as (parent, name), explained(path):
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                _require_file(info, path)
            _refuse_root(name, path)
            with self._parent(new_path) as (target, last):
                if _lstat_or_none(target, last) is not None:
                    raise refusal(new_path, "path_exists", "exists already")
                os.rename(name, last, src_dir_fd=parent, dst_dir_fd=target)

    def remove_directory(self, path: str, *, recursive: bool = False) -> None:
        """Remove a directory, which must be empty unless `recursive`. Links in it are removed, not followed."""
        with self._parent(path) as (parent, name), explained(path):
            _refuse_root(name, path)
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(info.st_mode):
                raise link(path) if stat.S_ISLNK(info.st_mode) else refusal(path, "not_a_directory", "is not a directory")
            if recursive:
                import shutil

                shutil.rmtree(name, dir_fd=parent)
            else:
                os.rmdir(name, dir_fd=parent)

    def size_of(self, path: str) -> TreeSize:
        """Count what stands below a directory."""
        size = entries = depth = 0
        fd = self._directory(path)
        try:
            with explained(path):
                for folder, folders, files, here in os.fwalk(".", dir_fd=fd, follow_symlinks=False):
                    entries += len(folders) + len(files)
                    depth = max(depth, folder.count("/") + (1 if folders or files else 0))
                    for name in files:
                        info = _lstat_or_none(here, name)
                        size += info.st_size if info is not None and stat.S_ISREG(info.st_mode) else 0
        finally:
            os.close(fd)
        return TreeSize(size, entries, depth)

    def _directory(self, path: str) -> int:
        """A new descriptor of the directory at `path`, to read its names."""
        parts = _parts(path) or [b"."]
        here = self._above(parts)
        try:
            return _step(here, parts, len(parts), _LIST)
        except ToolError:
            os.close(here)
            raise

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, bytes]]:
        """The descriptor of the directory that holds the last component, and that component (`.` for the root)."""
        parts = _parts(path) or [b"."]
        here = self._above(parts)
        try:
            yield here, parts[-1]
        finally:
            os.close(here)

    def _above(self, parts: Sequence[bytes]) -> int:
        """A new descriptor of the directory that holds the last component."""
        here = os.dup(self._root)
        try:
            for depth in range(1, len(parts)):
                here = _step(here, parts, depth, _PASS)
        except ToolError:
            os.close(here)
            raise
        return here


def _parts(path: str) -> list[bytes]:
    """The components of a path below the root; raises for one that could lead elsewhere."""
    if len(path) > MAX_PATH:
        raise ToolError(f"A path may have {MAX_PATH} characters, this one has {len(path)}", code="path_invalid")
    if path.startswith("/"):
        raise refusal(path, "path_outside_root", "is absolute", hint="Give a path that starts below the root.")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise refusal(path, "path_outside_root", 'goes up with ".."', hint="Give a path that starts below the root.")
    if len(parts) > MAX_DEPTH:
        raise refusal(path, "path_invalid", f"is more than {MAX_DEPTH} directories deep")
    if "\0" in path:
        raise refusal(path.replace("\0", "\\0"), "path_invalid", "has a null byte")
    try:
        return [part.encode() for part in parts]
    except UnicodeEncodeError:
        raise refusal(ascii(path), "path_invalid", "is not UTF-8") from None


def _step(here: int, parts: Sequence[bytes], depth: int, flags: int) -> int:
    """Open the directory `parts[depth - 1]` in `here`, never through a link. Closes `here`, unless it raises."""
    part = parts[depth - 1]
    try:
        there = os.open(part, flags, dir_fd=here)
    except OSError as error:
        shown = _joined(parts[:depth])
        raise (link(shown) if _islink(here, part) else explanation(error, shown)) from error
    os.close(here)
    return there


def _joined(parts: Sequence[bytes]) -> str:
    return b"/".join(parts).decode()


def _made(parent: int, name: bytes) -> bool:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _lstat_or_none(parent: int, name: bytes | str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    return None


def _islink(parent: int, name: bytes) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _refuse_root(name: bytes, path: str) -> None:
    if name == b".":
        raise refusal(path, "path_invalid", "is the root itself")


def _require_file(info: os.stat_result, path: str) -> None:
    if stat.S_ISREG(info.st_mode):
        return
    if stat.S_ISLNK(info.st_mode):
        raise link(path)
    what = "is a directory" if stat.S_ISDIR(info.st_mode) else "is not a regular file"
    raise refusal(path, "not_a_file", what)


def read_at(fd: int, offset: int, limit: int) -> bytes:
    """Read at most `limit` bytes of a descriptor from `offset`; fewer at the end of the file alone."""
    pieces: list[bytes] = []
    while limit > 0:
        piece = os.pread(fd, min(limit, 1 << 20), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _replace(parent: int, name: bytes, data: bytes, mode: int) -> None:
    """Write a new file beside the old one, then rename it over the old one."""
    new = b".rrext-" + os.urandom(8).hex().encode() + b".tmp"
    fd = os.open(new, _CREATE, 0o600, dir_fd=parent)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fchmod(fd, mode)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(new, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=parent)
        raise


def _checked(entries: Iterable[os.DirEntry[str]], check: Callable[[], None] | None) -> Iterator[os.DirEntry[str]]:
    for count, entry in enumerate(entries, 1):
        if check is not None and count % SCAN_STEP == 0:
            check()
        yield entry


def _shown(name: str) -> str:
    """A name as a valid JSON string."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "symlink" if stat.S_ISLNK(mode) else "other"


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
