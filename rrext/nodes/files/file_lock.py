"""A file lock for which processes queue; the operating system releases it when its process ends.

    PATH        locked by its holder, or by several holders who share it; its text is the process id of the last holder
    PATH.next   locked by the next process in line: until its turn no other process gets the lock, nor does the last holder

The holder sees from `PATH.next` that a process waits, and releases the lock as soon as its work allows.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from typing import Final

LEAVING_TIMEOUT: Final = 5.0
"""Minimum seconds to wait for the children of a killed process: they need up to these to end."""
LOCK_AGAIN: Final = 0.02
"""Seconds between attempts: the system offers no wait for such a lock that can be cancelled."""


NEXT: Final = ".next"
"""The suffix of the second file's name."""


class InUse(Exception):
    """The lock did not become free in time. `holder` is the process id of its holder, if that could be read."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class FileLock:
    """A held lock. Its files stay after the release: removing them could remove the lock of another process."""

    def __init__(self, path: str, file: int) -> None:
        self._path = path
        self._file = file

    @classmethod
    def take(cls, path: str, owner: int, *, wait: float, check: Callable[[], object], shared: bool = False) -> FileLock:
        """Acquire the lock within `wait` seconds; `check` is called meanwhile and may raise.

        `owner` is the process id shown to other processes. `shared`: held together with other sharers. Raises `InUse`, and
        `OSError` if the file cannot be created.
        """
        begun = time.monotonic()

        def is_over(holder: str) -> bool:
            return time.monotonic() - begun > (max(wait, LEAVING_TIMEOUT) if is_gone(holder) else wait)

        file = _opened(path)
        try:
            following = _opened(path + NEXT)
            try:
                for attempt in (lambda: _locked(following, shared=False), lambda: _locked(file, shared=shared)):
                    while not attempt():
                        check()
                        if is_over(_holder(file)):
                            raise InUse(_holder(file))
                        time.sleep(LOCK_AGAIN)
            finally:
                os.close(following)
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, str(owner).encode())
        except BaseException:
            os.close(file)
            raise
        return cls(path, file)

    def is_wanted(self) -> bool:
        """Whether another process waits for the lock."""
        following = _opened(self._path + NEXT)
        try:
            return not _locked(following, shared=True)
        finally:
            os.close(following)

    def release(self) -> None:
        """Release the lock; once. Unlocks explicitly, because a forked process may have the file open too."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            os.close(self._file)


def is_gone(owner: str) -> bool:
    """Whether the owner of a lock has ended as a process; false if that cannot be known."""
    if not owner.isdecimal():
        return False
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _opened(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _holder(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, 32).decode("ascii", "replace").strip()


def _locked(file: int, *, shared: bool) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
