"""The files of one user of a server: a confined directory with a quota, and files that appear whole when they are closed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import Any, Final

from rrext.errors import ToolError
from rrext.files.confinement import MAX_DEPTH, Confinement, FileInfo, read_at
from rrext.files.limits import FileStoreSettings
from rrext.files.path_errors import explained, refusal
from rrext.limits import MIB

READ_MANY_BYTES: Final = 32 * MIB
"""What one `fs_read_many` takes and returns at most, as in RocketRide."""
ABANDONED: Final = 86_400.0
"""Age of an unfinished file that a server left when it was killed; a younger one may be another server's."""

_SERIAL: Final = count()


class UserFiles:
    """Reads and changes the files of one user. Every method blocks, may be called from any thread, and raises `ToolError`.

    Files that are being written stand in a folder of their own beside the user's, so that nobody sees half of one. Their
    bytes count as used; so does the file that one replaces, until it does.
    """

    def __init__(self, root: Confinement, folder: str, settings: FileStoreSettings) -> None:
        root.make_directory(f"{folder}/files")
        root.make_directory(f"{folder}/unfinished")
        self._settings = settings
        self._unfinished = root.beneath(f"{folder}/unfinished")
        self._files = root.beneath(f"{folder}/files")
        _remove_abandoned(self._unfinished)
        self._changes = Lock()
        """Held while names change, so that checks before a change stay true."""
        self._counts = Lock()
        used = self._files.size_of(".")
        self._bytes, self._entries = used.size, used.entries

    def close(self) -> None:
        """Close the descriptors of the directories."""
        self._files.close()
        self._unfinished.close()

    # looking

    def reader(self, path: str) -> ReadHandle:
        """Open a file to read it."""
        return ReadHandle(path, *self._files.open_file(path))

    def info(self, path: str) -> FileInfo | None:
        """The info of a path; None if nothing is there."""
        try:
            return self._files.info(path)
        except ToolError as error:
            if error.code == "not_a_directory":  # a file has the name of a folder on the way
                return None
            raise

    def entries(self, path: str) -> list[FileInfo]:
        """Everything in a directory, by name."""
        most = self._settings.names
        found = self._files.listing(path or ".", limit=most + 1)
        if len(found) > most:
            raise refusal(path, "too_many_entries", f"has more than {most} names (names)")
        return found

    def read_many(self, paths: list[str]) -> tuple[list[dict[str, Any]], bytes]:
        """Read small files: an entry for each path, and a frame with the length and the bytes of each, none of failed ones."""
        entries: list[dict[str, Any]] = []
        pieces: list[bytes] = []
        room = READ_MANY_BYTES
        for path in paths:
            data = b""
            try:
                data, size = self._files.read(path, limit=room + 1)
                if size > room:
                    data = b""
                    raise refusal(
                        path, "file_too_large", f"does not fit: one call reads at most {READ_MANY_BYTES} bytes in all"
                    )
                entries.append({"path": path, "ok": True})
            except ToolError as error:
                entries.append({"path": path, "ok": False, "error": error.message, "code": error.code})
            room -= len(data)
            pieces += (len(data).to_bytes(4, "big"), data)
        return entries, b"".join(pieces)

    # changing

    def writer(self, path: str) -> WriteHandle:
        """Begin a file, which appears when it is closed. Makes the folders above it."""
        with self._changes:
            info = self.info(path)
            if info is not None and info.type != "file":
                raise refusal(path, "not_a_file", "is not a regular file")
            self._make(_folder(path), more=info is None)
            name = f"{os.getpid()}-{next(_SERIAL)}-{os.urandom(4).hex()}"
            return WriteHandle(self, path, name, self._unfinished.create(name))

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it."""
        with self._changes:
            self._make(path)

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self._changes:
            info = self.info(path)
            self._files.delete(path)
            self._release(0 if info is None else info.size, 1)

    def remove_directory(self, path: str, *, recursive: bool) -> None:
        """Remove a directory, which must be empty unless `recursive`."""
        with self._changes:
            before = self._files.size_of(path) if recursive else None
            try:
                self._files.remove_directory(path, recursive=recursive)
            except ToolError:
                if before is not None:  # a part of it may be gone
                    self._recount()
                raise
            if before is None:
                self._release(0, 1)
            else:
                self._release(before.size, before.entries + 1)

    def rename(self, path: str, new_path: str) -> None:
        """Give a file or directory another path, at which nothing may be. Makes the folders above it."""
        with self._changes:
            info = self.info(path)
            if info is None:
                raise refusal(path, "path_not_found", "does not exist")
            old, new = _names(path), _names(new_path)
            if old == new[: len(old)]:
                raise refusal(new_path, "path_exists" if old == new else "path_invalid", "is, or lies in, what is renamed")
            if info.type == "dir" and len(new) + self._files.size_of(path).depth > MAX_DEPTH:
                raise refusal(new_path, "path_invalid", f"would be more than {MAX_DEPTH} directories deep")
            if self.info(new_path) is not None:
                raise refusal(new_path, "path_exists", "exists already")
            self._make(_folder(new_path))
            self._files.rename(path, new_path)

    # the writers' side

    def reserve(self, size: int) -> None:
        """Count bytes that are about to be written."""
        with self._counts:
            quota = self._settings.quota
            if self._bytes + size > quota:
                raise ToolError(
                    f"The store is full: {self._bytes} of {quota} bytes (--store-quota) are used, {size} more do not fit",
                    code="quota_exceeded",
                    hint="Delete files first.",
                )
            self._bytes += size

    def finish(self, path: str, name: str) -> None:
        """Put an unfinished file in its place."""
        with self._changes:
            before = self.info(path)
            self._make(_folder(path), more=before is None)
            replaced = self._files.take_in(path, self._unfinished, name)
            if replaced is None:
                self._count(entries=1)
            else:
                self._release(replaced.size, 0)

    def give_up(self, name: str, size: int) -> None:
        """Remove an unfinished file."""
        self._release(size, 0)
        with suppress(ToolError):
            self._unfinished.delete(name)

    # counting

    def _make(self, path: str, *, more: bool = False) -> None:
        """Make a directory and those above it, if there is room for their names, and for one more if asked."""
        missing = self._files.missing(path)
        most = self._settings.names
        if missing + more and self._entries + missing + more > most:
            raise ToolError(
                f"The store is full: it has {self._entries} of {most} files and directories (names)",
                code="quota_exceeded",
                hint="Delete files first.",
            )
        self._count(entries=self._files.make_directory(path))

    def _count(self, *, entries: int) -> None:
        with self._counts:
            self._entries += entries

    def _release(self, size: int, entries: int) -> None:
        with self._counts:
            self._bytes -= size
            self._entries -= entries

    def _recount(self) -> None:
        now, waiting = self._files.size_of("."), self._unfinished.size_of(".")
        with self._counts:
            self._bytes, self._entries = now.size + waiting.size, now.entries


class ReadHandle:
    """An open file of a user, as it was when it was opened: one that replaces it is another one."""

    is_writer: Final = False

    def __init__(self, path: str, fd: int, size: int) -> None:
        self._path, self._fd = path, fd
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; none at the end of the file."""
        with explained(self._path):
            return read_at(self._fd, offset, length)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    give_up = close


class WriteHandle:
    """A file that is being written. `close` puts it in its place, `give_up` removes it. One thread at a time uses it."""

    is_writer: Final = True

    def __init__(self, files: UserFiles, path: str, name: str, fd: int) -> None:
        self._files, self._path, self._name, self._fd = files, path, name, fd
        self._size = 0
        self.failure: ToolError | None = None
        """The reason why the file lacks bytes: it is not put in its place."""

    def write(self, data: bytes, limit: int) -> None:
        """Append bytes; `limit` is the largest size of a file."""
        self._check()
        try:
            if self._size + len(data) > limit:
                raise refusal(self._path, "file_too_large", f"would have more than {limit} bytes (file_size)")
            self._files.reserve(len(data))
            self._size += len(data)
            with explained(self._path):
                view = memoryview(data)
                while view:
                    view = view[os.write(self._fd, view) :]
        except ToolError as error:
            self.failure = error.again()
            raise

    def close(self) -> None:
        """Put the file in its place, whole or not at all."""
        try:
            self._check()
            with explained(self._path):
                os.fsync(self._fd)
            self._files.finish(self._path, self._name)
        except BaseException:
            self.give_up()
            raise
        os.close(self._fd)

    def give_up(self) -> None:
        """Close and remove the file."""
        os.close(self._fd)
        self._files.give_up(self._name, self._size)

    def _check(self) -> None:
        if self.failure is not None:
            failure = self.failure
            raise ToolError(f"Nothing of the file is kept: {failure.message}", code=failure.code, hint=failure.hint)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _folder(path: str) -> str:
    return "/".join(_names(path)[:-1])


def _remove_abandoned(unfinished: Confinement) -> None:
    """Remove what servers left that were killed while a client wrote."""
    now = time.time()
    for info in unfinished.listing(".", limit=10_000):
        if now - info.modified > ABANDONED:
            with suppress(ToolError):
                unfinished.delete(info.name)
