"""Ctrl-C and SIGTERM while nodes work: first asked to end, then ended."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from rrext.limits import CLIENT_DEFAULTS

__all__ = ["Absorbs", "Interrupts", "end_process"]

Absorbs: TypeAlias = Callable[[int], bool]
"""Called with the number of a signal, on a thread of its own: whether there is nothing more to do about it."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
FLUSH = 0.2
"""Seconds that the last words may wait for their reader."""


class Interrupts:
    """Inside of a `with` block on the main thread: the first signal calls `on_first`, on a thread of its own.

    What has not ended a second later, or at a second signal, ends with the process: threads cannot be stopped from
    outside, and whoever pressed Ctrl-C does not want to wait for one that is stuck. The signals are seen by a thread,
    so that this also holds while the main thread is busy. A signal that was ignored stays ignored.

    A signal that `absorbs` says it has dealt with, as a prompt does with Ctrl-C, does not count.
    """

    __slots__ = ("_absorbs", "_old_handlers", "_old_wakeup", "_on_first", "_read", "_write", "number")

    def __init__(self, on_first: Callable[[], object], absorbs: Absorbs | None = None) -> None:
        self._on_first = on_first
        self._absorbs = absorbs
        self._old_handlers: dict[signal.Signals, Any] = {}
        self._old_wakeup = self._read = self._write = -1
        self.number: int | None = None
        """The signal that came, if one came."""

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended."""
        return 128 + (self.number or 0)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self  # signals are the main thread's, whoever has that
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old_handlers[number] = signal.signal(number, _noted)
        threading.Thread(target=self._watch, args=(self._read,), name="rrext-interrupts", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        if self._write >= 0:
            signal.set_wakeup_fd(self._old_wakeup)
            os.close(self._write)  # the watch ends

    def _watch(self, fd: int) -> None:
        try:
            if not self._comes(fd, None):
                return
            try:
                self._on_first()
            except RuntimeError:
                pass  # the event loop was closed at this very moment
            if self._comes(fd, CLIENT_DEFAULTS.interrupt) is not False:
                end_process(self.exit_code)
        finally:
            os.close(fd)

    def _comes(self, fd: int, seconds: float | None) -> bool | None:
        """Wait for one of our signals: True; None when the time is over, False when the block is left."""
        while select.select([fd], [], [], seconds)[0]:
            read = os.read(fd, 1)
            if not read:
                return False
            if read[0] in SIGNALS and not (self._absorbs is not None and self._absorbs(read[0])):
                self.number = self.number or read[0]
                return True
        return None

    def __repr__(self) -> str:
        return f"<Interrupts {'none' if self.number is None else signal.Signals(self.number).name}>"


def end_process(code: int) -> NoReturn:
    """End this process now, whatever its threads do."""
    flushing = threading.Thread(target=_flush, daemon=True)  # a thread may hold a stream's lock, and nobody read stderr
    flushing.start()
    flushing.join(FLUSH)
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed, or nobody reads: there is nobody to tell


def _noted(number: int, frame: FrameType | None) -> None:
    """The wakeup descriptor has it."""
