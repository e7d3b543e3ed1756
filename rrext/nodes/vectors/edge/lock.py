"""A lock that the operating system takes back when its process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["FolderLock", "is_gone"]


class FolderLock:
    """A lock file that is held. It stays when it is released: who removed it could remove another's."""

    __slots__ = ("_file",)

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def take(cls, path: Path, owner: int) -> tuple[FolderLock | None, str]:
        """The lock, or None and the `owner` that was given when it was taken. Raises `OSError` if there can be no file."""
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if _locked(file):
            os.ftruncate(file, 0)
            os.write(file, str(owner).encode())
            return cls(file), ""
        try:
            holder = os.read(file, 32).decode("ascii", "replace").strip()
        finally:
            os.close(file)
        return None, holder

    def release(self) -> None:
        """Let go; once. Said aloud, as a process that was forked meanwhile has the file open too."""
        try:
            _unlock(self._file)
        finally:
            os.close(self._file)

    def __repr__(self) -> str:
        return f"<FolderLock {self._file}>"


def is_gone(owner: str) -> bool:
    """Whether the owner of a lock is no process any more; false if that cannot be known."""
    if sys.platform == "win32" or not owner.isdecimal():  # Windows takes the question for a signal
        return False
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


if sys.platform == "win32":
    import msvcrt

    def _locked(file: int) -> bool:
        # A byte far behind the content: what is locked cannot be read, and others want to read who holds it.
        os.lseek(file, 1024, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(file, 0, os.SEEK_SET)
        return True

    def _unlock(file: int) -> None:
        os.lseek(file, 1024, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _locked(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
