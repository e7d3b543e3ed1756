"""A resource that one process at a time can have open, and that processes pass to each other in turns.

The turns are those of a file lock for which processes queue; the operating system releases it when its process ends.

    PATH        locked by its holder, or by several holders who share it; its text is the process id of the last holder
    PATH.next   locked by the next process in line: until its turn no other process gets the lock, nor does the last holder

The holder sees from `PATH.next` that a process waits, and releases the lock as soon as its work allows.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

TURN_LOOK: Final = 0.2
"""Seconds between checks whether another process waits for the open resource."""

TURN: Final = 1.0
"""Seconds that a busy process keeps the resource though another waits: opening it takes a while."""

LAST_USES: Final = 1.0
"""Seconds for which new uses wait until the last ones end. If those do not, all continue for another turn."""

CLOSING_TIMEOUT: Final = 5.0
"""Seconds that `close` waits for uses to end, by default."""

TURN_AGAIN: Final = 0.05
"""Seconds between checks whether a use that waits for its turn has been cancelled."""

log = logging.getLogger(__name__)


class Held(Protocol):
    """The open resource."""

    def is_wanted(self) -> bool:
        """Whether another process waits for the resource."""
        ...

    def close(self) -> None:
        """Close the resource, so that another process can open it."""
        ...


T = TypeVar("T", bound=Held)


class Turns(Generic[T]):
    """Shares one resource between processes in turns. A use opens the resource if this process gave it away before.

    `opened` opens the resource; None: there is nothing to open. Its argument is a function that raises if
    the call, which waits for the resource, was cancelled or is late.
    `refusal` makes the error for uses after `close`. Any number of threads may use the resource at once.
    """

    def __init__(self, opened: Callable[[Callable[[], object]], T | None], *, refusal: Callable[[], Exception]) -> None:
        self._open = opened
        self._refusal = refusal
        self._changed = threading.Condition()
        self._held: T | None = None
        self._users = 0
        self._since = 0.0
        self._is_moving = False  # a thread opens or closes the resource
        self._is_closed = False
        self._ended = threading.Event()

    @property
    def held(self) -> T | None:
        """The open resource; None if it is closed."""
        return self._held

    @property
    def is_closed(self) -> bool:
        """Whether the resource is closed, and no thread opens or closes it just now."""
        return self._held is None and not self._is_moving

    @contextlib.contextmanager
    def use(self, check: Callable[[], object]) -> Iterator[T | None]:
        """Open the resource if necessary and keep it open for the block; None if there is nothing to open."""
        held = self.enter(check)
        try:
            yield held
        finally:
            if held is not None:
                self.end_use()

    def enter(self, check: Callable[[], object]) -> T | None:
        """Begin a use, which `leave` ends unless this returns None."""
        with self._changed:
            while self._is_moving or self._is_closed or self._held is None:
                check()
                self.require_open()
                if not self._is_moving:
                    self._is_moving = True
                    break
                self._changed.wait(TURN_AGAIN)
            else:
                self._users += 1
                return self._held
        held = None

        def check_both() -> None:
            check()
            self.require_open()

        try:
            held = self._open(check_both)
        finally:
            with self._changed:
                self._is_moving = False
                if held is not None and not self._is_closed:
                    self._held, self._since = held, time.monotonic()
                    self._users += 1
                    self._ended = threading.Event()
                    watch = threading.Thread(target=self._watch, args=(held, self._ended), name="rrext-turns", daemon=True)
                    watch.start()
                self._changed.notify_all()
        if held is not None and self._held is not held:  # closed meanwhile
            held.close()
            raise self._refusal()
        return held

    def require_open(self) -> None:
        """Raise the refusal after `close`."""
        if self._is_closed:
            raise self._refusal()

    def end_use(self) -> None:
        """End a use."""
        with self._changed:
            self._users -= 1
            if not self._users:
                self._changed.notify_all()

    def rest(self, check: Callable[[], object]) -> None:
        """Close the resource when no use needs it; the next use opens it again."""
        while not self._close_idle(0.0, TURN_AGAIN):
            check()

    def rest_if_idle(self) -> None:
        """Close the resource unless a use needs it; the next use opens it again."""
        self._close_idle(math.inf, 0.0)

    def close(self, patience: float = CLOSING_TIMEOUT) -> None:
        """Close the resource for good; uses that last longer than `patience` seconds fail."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._users and not self._is_moving, patience)
            held, self._held = self._held, None
            self._ended.set()
            self._changed.notify_all()
        if held is not None:
            held.close()

    def _watch(self, held: T, ended: threading.Event) -> None:
        while not ended.wait(TURN_LOOK):
            try:
                if held.is_wanted():
                    self._close_idle(TURN, LAST_USES)
            except Exception:
                log.exception("%r was not given away in order", held)

    def _close_idle(self, turn: float, patience: float) -> bool:
        """Close the resource if it is idle, or its turn is over and its uses end in time; return whether it is closed."""
        with self._changed:
            if self._is_moving:
                self._changed.wait(patience)
                return False
            if self._held is None:
                return True
            if self._users and time.monotonic() - self._since < turn:
                return False
            self._is_moving = True
            self._changed.wait_for(lambda: not self._users, patience)
            held = self._held
            if self._users or held is None:
                self._is_moving = False
                self._since = time.monotonic()
                self._changed.notify_all()
                return held is None
            self._held = None
            self._ended.set()
        try:
            held.close()
        finally:
            with self._changed:
                self._is_moving = False
                self._changed.notify_all()
        return True


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
