"""A thread that notices the reasons to end, also while the loop is blocked: signals, a dead parent, a closed pipe."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from rrext.limits import END_SLACK, LOOP_POLL_INTERVAL
from rrext.server.watchdog import SIGNALS, Watchdog, ignore_signal
from rrext.threads import start_thread
from rrext.transports.descriptors import ParentWatch

STDERR: Final = 2

log: Final = logging.getLogger("rrext.server")


class EndWatch:
    """Reports SIGTERM, SIGINT and SIGHUP to the loop and enforces the end; for a client on stdio, it also reports the death of
    the parent process and a hang-up.

    `on_signal(name)`, `on_orphaned()` and `on_hung_up()` run on the loop, the last one at each look while the loop moves.
    `on_unheard()` and `on_overdue()` run on this thread. `on_unheard()` runs when stderr has no reader. `on_overdue()` must
    end the process: it runs at the time given to `expect_end`, `drain` seconds after a signal, and when no client is left
    and the loop did not move for `patience` seconds. `on_reload()` runs on this thread, at a SIGHUP that does not end the
    process (`Watchdog.signals`).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int | None,
        *,
        parent: ParentWatch | None,
        poll: float,
        drain: float,
        patience: float,
        on_signal: Callable[[str], None],
        on_orphaned: Callable[[], None],
        on_hung_up: Callable[[], None],
        on_unheard: Callable[[], None],
        on_overdue: Callable[[], None],
        unread: int | None = None,
        on_unread: Callable[[], None] = lambda: None,
        look_at_loop: Callable[[], None] | None = None,
        watchdog: Watchdog | None = None,
        on_reload: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._parent = parent
        self._poll = poll
        self._drain = drain
        self._patience = patience
        self._on_signal = on_signal
        self._on_orphaned = on_orphaned
        self._on_hung_up = on_hung_up
        self._on_unheard = on_unheard
        self._on_overdue = on_overdue
        self._unread = unread
        self._on_unread = on_unread
        self._look_at_loop = look_at_loop
        if look_at_loop is not None:
            self._poll = min(poll, LOOP_POLL_INTERVAL)
        self._on_reload = on_reload
        self._watchdog = watchdog = watchdog or Watchdog()
        self._bell, self._ring = watchdog.bell.fileno(), watchdog.ring.fileno()
        self._until = float("inf")
        self._hung_up = self._orphaned = False
        self._heard = float("inf")

    def start(self) -> None:
        """Begin to watch, and install the signal handlers, which forked children drop. On the main thread."""
        signal.set_wakeup_fd(self._ring, warn_on_full_buffer=False)
        for number in SIGNALS:
            ends = number in self._watchdog.signals
            if ends and number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup
            signal.signal(number, self._on_python_signal if ends else ignore_signal)
            signal.siginterrupt(number, False)
        os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_come, after_in_child=_forget_signals)
        start_thread(self._watch, "rrext-end-watch")
        self._watchdog.arm()

    def expect_end(self, seconds: float, slack: float = END_SLACK) -> None:
        """Set the time in which the process must end; the shortest one counts. The watchdog kills it after `slack`."""
        until = monotonic() + seconds
        if until >= self._until:
            return
        self._until = until
        self._watchdog.expect_end(seconds + slack)
        try:
            os.write(self._ring, b"\0")
        except BlockingIOError:
            pass  # the pipe is full, so the thread is woken already

    def _on_python_signal(self, number: int, frame: object) -> None:
        """Python's signal handler: it runs late while the main thread is stuck, but no tool can intercept it."""
        self._post(self._on_signal, signal.Signals(number).name)

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        if self._fd is not None:
            poll.register(self._fd, 0)  # poll always reports a hang-up
        if self._unread is not None:
            poll.register(self._unread, 0)
        poll.register(STDERR, 0)
        while True:
            with suppress(MemoryError):  # it is looked again
                self._watch_once(poll)

    def _watch_once(self, poll: select.poll) -> None:
        for fd, _ in poll.poll(self._milliseconds()):
            if fd == self._bell:
                self._take_signals()
            else:
                poll.unregister(fd)
                self._lost(fd)
        if self._parent is not None and not self._orphaned and self._parent.is_gone():
            self._orphaned = True
            self._is_alone(since=self._poll)
            self._post(self._on_orphaned)
        self._check()
        if self._look_at_loop is not None:
            self._look_at_loop()

    def _lost(self, fd: int) -> None:
        if fd == STDERR:
            self._on_unheard()
        elif fd == self._unread:
            # After a hang-up of stdin, both may be one socket that ended: its last requests get the grace of the end of input.
            if not self._hung_up:
                self._post(self._on_unread)
        else:
            self._hung_up = True
            self._is_alone()

    def _milliseconds(self) -> float:
        return max(0.0, min(self._poll, self._until - monotonic(), self._heard + self._patience - monotonic())) * 1000

    def _take_signals(self) -> None:
        for number in os.read(self._bell, 4096):
            if number == signal.SIGHUP and number not in self._watchdog.signals:
                self._on_reload()
            elif number in SIGNALS:
                self.expect_end(self._drain)
                self._post(self._on_signal, signal.Signals(number).name)

    def _is_alone(self, since: float = 0.0) -> None:
        """Watch that the loop moves from now on: no client has been connected for `since` seconds."""
        self._heard = min(self._heard, monotonic() - since)

    def _check(self) -> None:
        if self._hung_up or self._orphaned:
            self._post(self._beat)
        now = monotonic()
        if now >= self._until or now - self._heard >= self._patience:
            self._on_overdue()

    def _beat(self) -> None:
        self._heard = monotonic()
        if self._hung_up:
            self._on_hung_up()

    def _post(self, action: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(action, *args)
        except RuntimeError:
            log.debug("the loop is closed already")


def _hold_signals() -> None:
    """Block signals during a fork: a child that is killed at once must not write to its parent's pipe."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _let_signals_come() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _forget_signals() -> None:
    """Reset signal handling in a forked child, so that its signals are not written to its parent's pipe."""
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    _let_signals_come()
