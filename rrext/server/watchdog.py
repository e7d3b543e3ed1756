"""The end of a serving process: its last words, and a small process that kills a server which cannot end itself.

Every thread of Python needs the interpreter's lock (GIL). A tool may keep it for as long as a call into C or a regular
expression takes; then no thread of the server notices the death of its client, the end of stdin, or SIGTERM. The watchdog
is another process, so it does. It waits for as long as the graceful ways may take, and kills.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn

from rrext.limits import EXIT_HANDLERS_TIMEOUT, STDERR_FLUSH_TIMEOUT, TRACE_TIMEOUT, WATCHDOG_MARGIN, WATCHDOG_POLL_INTERVAL

if TYPE_CHECKING:
    from rrext.transports.lossy import LossyWriter


SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that end the server; SIGHUP comes when the terminal is closed, unless the server has none (`reloads`)."""

TRACE: Final = signal.SIGRTMAX if hasattr(signal, "SIGRTMAX") else None
"""The signal at which the server writes the stacks of its threads, without the interpreter's lock."""

STDERR: Final = 2
NAME: Final = b"rrext-watchdog"
ORDER: Final = struct.Struct("d")


def ignore_signal(number: int, frame: object) -> None:
    """Python's signal handler of a signal that ends nothing. Unlike `SIG_IGN`, no started program inherits it."""


class Watchdog:
    """The watchdog process (Linux only), and the pipe by which it notices that the interpreter is stuck.

    Python's own C code writes each signal's number into `ring`, and a thread of the server reads `bell`; unread numbers
    show that the interpreter is stuck. The watchdog kills the server if it is stuck for `drain` seconds after a signal of
    `signals`, or for `grace` seconds after the peer hung up or the parent died, and when the time of `expect_end` is over.
    """

    def __init__(self, *, reloads: bool = False) -> None:
        """With `reloads` SIGHUP does not end the server: it reads files again."""
        self.signals = frozenset(SIGNALS) - {signal.SIGHUP} if reloads else frozenset(SIGNALS)
        self.bell, self.ring = socket.socketpair()
        self.ring.setblocking(False)
        self._pid = self._orders = -1

    def start(
        self,
        stdin: int | None,
        parent: int | None,
        *,
        grace: float,
        drain: float,
        at_end: Callable[[], object] = lambda: None,
    ) -> None:
        """Fork the process, before the first thread starts. Watching begins with `arm`; a hang-up is noticed on `stdin`.

        Without both of them only signals and the time of `expect_end` are watched. The watchdog calls `at_end` after the end of
        the server, by whatever cause, unless it was dismissed.
        """
        if not hasattr(os, "pidfd_open"):
            return
        try:
            server = os.pidfd_open(os.getpid())
        except OSError:  # an old kernel, or a sandbox: without a watchdog, then
            return
        stdin_end = select.epoll()  # it keeps no descriptor of clients open: writes to a dead server fail at once
        if stdin is not None:
            with suppress(PermissionError):  # a regular file
                stdin_end.register(stdin, 0)  # a hang-up is always told
        parent_end = -1
        if parent is not None:
            with suppress(OSError):  # of another namespace; or gone already, which the server sees before it serves
                parent_end = os.pidfd_open(parent)
        orders, self._orders = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:  # no more processes
            self._pid = -1
        if self._pid == 0:
            try:
                process = _WatchdogProcess(self, server, stdin_end.fileno(), orders, parent_end, grace=grace, drain=drain)
                process.run()
                at_end()
            finally:
                os._exit(0)
        stdin_end.close()
        for fd in (server, orders, parent_end):
            if fd >= 0:
                os.close(fd)

    def arm(self) -> None:
        """Begin to watch: a thread of the server reads the bell from now on."""
        self.expect_end(float("inf"))

    def expect_end(self, seconds: float) -> None:
        """Kill the server if it still runs after `seconds`; the earliest time counts."""
        if self._pid > 0:
            try:
                os.write(self._orders, ORDER.pack(monotonic() + seconds))
            except BrokenPipeError:  # the watchdog was killed
                self._pid = -1

    def dismiss(self) -> None:
        """Kill and reap the watchdog process before the server exits."""
        if self._pid > 0:
            try:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            except OSError:  # code of a node waited for all children
                pass
            self._pid = -1


class _WatchdogProcess:
    """The code of the watchdog process."""

    def __init__(
        self, dog: Watchdog, server: int, stdin_end: int, orders: int, parent_end: int, *, grace: float, drain: float
    ) -> None:
        self._bell, self._ring, self._signals = dog.bell, dog.ring, dog.signals
        self._server = server
        self._stdin_end = stdin_end
        self._orders = orders
        self._parent_end = parent_end
        self._grace = grace
        self._drain = drain
        self._is_armed = self._is_alone = False
        self._silent_since = self._until = float("inf")
        self._poll = select.poll()

    def run(self) -> None:
        """Watch until the server has ended or must be killed."""
        self._detach()
        poll = self._poll
        poll.register(self._server, select.POLLIN)
        poll.register(self._orders, select.POLLIN)
        while True:
            for fd, _ in poll.poll(self._milliseconds()):
                if fd == self._server:
                    return
                if fd == self._orders:
                    self._take_order()
                elif fd != self._bell.fileno():
                    poll.unregister(fd)
                    self._is_alone = True
                    self._silent_since = float("inf")
            if self._is_armed and self._is_overdue():
                with suppress(OSError):  # it has ended meanwhile, or nobody reads stderr
                    self._kill()
                return

    def _detach(self) -> None:
        """Ignore signals, which a terminal sends to the whole group, and close descriptors that other processes wait for."""
        for number in (*SIGNALS, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        keep = {self._bell.fileno(), self._ring.fileno(), self._server, self._stdin_end, self._orders, self._parent_end, STDERR}
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd not in keep:
                try:
                    os.close(fd)
                except OSError:  # the one of the listing
                    pass
        os.chdir("/")
        with open("/proc/self/comm", "wb") as name:
            name.write(NAME)

    def _take_order(self) -> None:
        order = os.read(self._orders, ORDER.size)
        if not order:
            self._poll.unregister(self._orders)
            return
        self._until = min(self._until, *ORDER.unpack(order))
        if self._is_armed:
            return
        self._is_armed = True
        self._poll.register(self._bell, select.POLLIN)
        self._poll.register(self._stdin_end, select.POLLIN)
        if self._parent_end >= 0:
            self._poll.register(self._parent_end, select.POLLIN)

    def _is_overdue(self) -> bool:
        """Whether the server should have ended; also checks whether its interpreter moves."""
        now = monotonic()
        unread = self._unread()
        if not unread:
            self._silent_since = float("inf")
            if self._is_alone:
                self._ring.send(b"\0")
                self._silent_since = now
        elif self._is_alone or not self._signals.isdisjoint(unread):
            self._silent_since = min(self._silent_since, now)
        self._poll.modify(self._bell, 0 if unread or self._is_alone else select.POLLIN)  # a look now and then is enough
        patience = self._grace if self._is_alone else self._drain
        return now >= self._until or now - self._silent_since >= patience + WATCHDOG_MARGIN

    def _unread(self) -> bytes:
        try:
            return self._bell.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""

    def _milliseconds(self) -> float | None:
        wait = self._until - monotonic()
        if self._is_armed and (self._is_alone or self._unread()):
            wait = min(wait, WATCHDOG_POLL_INTERVAL)
        return None if wait == float("inf") else max(0.0, wait) * 1000

    def _kill(self) -> None:
        """Let the server write the stacks of its threads, and kill it."""
        if TRACE is not None:
            signal.pidfd_send_signal(self._server, TRACE)
            ended = select.poll()
            ended.register(self._server, select.POLLIN)
            ended.poll(TRACE_TIMEOUT * 1000)
        signal.pidfd_send_signal(self._server, signal.SIGKILL)
        stderr = select.poll()
        stderr.register(STDERR, select.POLLOUT)
        if any(event & select.POLLOUT for _, event in stderr.poll(0)):
            os.write(STDERR, b"rrext: killed: it was to end, and a tool kept the interpreter's lock (GIL)\n")


def leave(code: int, writers: list[LossyWriter], watchdog: Watchdog | None = None) -> NoReturn:
    """End the process, whatever still runs; handlers of `atexit` get a moment."""
    exit_handlers = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    with suppress(RuntimeError):  # no more threads
        exit_handlers.start()
        exit_handlers.join(EXIT_HANDLERS_TIMEOUT)
    write_last_words(writers, watchdog)
    os._exit(code)


def write_last_words(writers: list[LossyWriter], watchdog: Watchdog | None = None) -> None:
    """End child processes of tools; give the reader of stderr a moment to take the last lines."""
    if "multiprocessing.process" in sys.modules:
        from multiprocessing import active_children

        for child in active_children():  # they hold each other's pipes and would not notice the end
            child.terminate()
    for stream in (sys.stdout, sys.stderr):  # tools may have replaced them
        with suppress(Exception):
            stream.flush()
    until = monotonic() + STDERR_FLUSH_TIMEOUT
    for writer in writers:
        writer.flush(max(0.0, until - monotonic()))
    if watchdog is not None:
        watchdog.dismiss()


def trace_crashes(fd: int) -> None:
    """Log a trace of interpreter crashes: files, lines and functions of each thread, no values."""
    faulthandler.enable(fd)
    if TRACE is not None:
        faulthandler.register(TRACE, fd)
