"""A resource that one process at a time can have open, and that processes pass to each other in turns."""

from __future__ import annotations

import contextlib
import logging
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

    @contextlib.contextmanager
    def use(self, check: Callable[[], object]) -> Iterator[T | None]:
        """Open the resource if necessary and keep it open for the block; None if there is nothing to open."""
        held = self.enter(check)
        try:
            yield held
        finally:
            if held is not None:
                self.leave()

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

    def leave(self) -> None:
        """End a use."""
        with self._changed:
            self._users -= 1
            if not self._users:
                self._changed.notify_all()

    def rest(self, check: Callable[[], object]) -> None:
        """Close the resource when no use needs it; the next use opens it again."""
        while not self._let_go(0.0, TURN_AGAIN):
            check()

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
                    self._let_go(TURN, LAST_USES)
            except Exception:
                log.exception("%r was not given away in order", held)

    def _let_go(self, turn: float, patience: float) -> bool:
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
