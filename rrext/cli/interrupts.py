"""Ctrl-C and SIGTERM during a run of nodes: the first signal requests the end, the second forces it."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NoReturn, TypeAlias

from rrext.limits import CLIENT_DEFAULTS

OUTPUT_FLUSH_TIMEOUT: Final = 0.2
"""Seconds that the last output may wait for its reader."""

Absorbs: TypeAlias = Callable[[int], bool]
"""A function that handles a signal by itself, on a thread of its own; returns whether it did."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context manager on the main thread: the first signal calls `on_first`, on a thread of its own.

    After a signal the end of the block ends the process. So does a second signal, or one more second: threads cannot be
    stopped from outside, and a stuck one must not delay the user. A thread receives the signals, so this also works while the
    main thread is busy. Ignored signals stay ignored, and a signal that `absorbs` handles, as Ctrl-C at a prompt, does not
    count.
    """

    def __init__(self, on_first: Callable[[], object], absorbs: Absorbs | None = None) -> None:
        self._on_first = on_first
        self._absorbs = absorbs
        self._old_handlers: dict[signal.Signals, Any] = {}
        self._old_wakeup = self._read = self._write = -1
        self.number: int | None = None
        """The signal that came, if any."""

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects after a signal."""
        return 128 + (self.number or 0)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread can handle signals
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old_handlers[number] = signal.signal(number, _noted)
        try:
            threading.Thread(target=self._watch, args=(self._read,), name="rrext-interrupts", daemon=True).start()
        except RuntimeError:
            from rrext.threads import NoThread  # `--at` needs no other of them

            raise NoThread from None
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        if self._write >= 0:
            signal.set_wakeup_fd(self._old_wakeup)
            os.close(self._write)  # the watch ends
        if self.number is not None and (error is None or is_cancel(error)):
            end_process(self.exit_code)

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
        """Wait for a signal: True; None after the timeout, False at the end of the block."""
        while select.select([fd], [], [], seconds)[0]:
            read = os.read(fd, 1)
            if not read:
                return False
            if read[0] in SIGNALS and not (self._absorbs is not None and self._absorbs(read[0])):
                self.number = self.number or read[0]
                return True
        return None


def is_cancel(error: BaseException) -> bool:
    """Whether an exception is a cancellation."""
    from asyncio import CancelledError  # `--at` avoids this import unless a call fails

    return isinstance(error, CancelledError)


def end_process(code: int) -> NoReturn:
    """End this process now, regardless of its threads."""
    flushing = threading.Thread(target=_flush, daemon=True)  # a thread may hold a stream's lock, or stderr may be full
    flushing.start()
    flushing.join(OUTPUT_FLUSH_TIMEOUT)
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed, or without a reader


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wakeup descriptor reports the signal."""
