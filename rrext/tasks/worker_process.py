"""A worker as the server sees it from outside: a process with two pipes, its stderr, and a certain end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from rrext.limits import DEFAULTS, KIB, MIB
from rrext.tasks.families import set_mark
from rrext.tasks.lost import Stderr
from rrext.tasks.settings import WorkerSettings
from rrext.threads import FEW_HEAPS

READ_AT_ONCE: Final = 64 * KIB
"""Bytes of stderr that are read at once."""
PIPE_SIZE: Final = MIB
"""Bytes of the pipes between the server and a worker: a large raw tail passes in few steps."""

HOME: Final = str(Path(__file__).parents[2])
COMMAND: Final = (
    sys.executable,
    "-P",
    "-c",
    f"import sys; sys.path.append({HOME!r}); from rrext.tasks.worker_main import main; main()",
)
"""The command of every worker: no file of the working directory hides a module, and no argument tells anything."""


class WorkerProcess:
    """A started process. It leads a session of its own, so that a terminal's signals reach the server alone."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Start it. Raises `OSError`. In a thread: a start takes milliseconds."""
        self._popen = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env={**FEW_HEAPS, **os.environ},
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self.pid = self._popen.pid
        self.mark = set_mark(self.pid)
        self.write_fd, self.read_fd, self.stderr_fd = (
            os.dup(stream.fileno()) for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        )
        for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            stream.close()
        for fd in (self.write_fd, self.read_fd):
            with suppress(OSError, AttributeError):  # a user has many large pipes already
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        try:
            self._tell(msgspec.structs.replace(settings, mark=self.mark).first_message)
        except OSError:
            pass  # it ended at once, which its watch tells
        for fd in (self.write_fd, self.read_fd, self.stderr_fd):
            os.set_blocking(fd, False)
        self.stderr = Stderr()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exit = -1

    def _tell(self, message: bytes) -> None:
        view = memoryview(message)
        while view:
            view = view[os.write(self.write_fd, view) :]

    def watch(self, loop: asyncio.AbstractEventLoop, on_text: Callable[[bytes], object], on_exit: Callable[[], object]) -> None:
        """Pass on what comes from stderr, and tell the end of the process. On the loop."""
        self._loop = loop
        self._on_text, self._on_exit = on_text, on_exit
        loop.add_reader(self.stderr_fd, self._read_stderr)
        try:
            self._exit = os.pidfd_open(self.pid)
            loop.add_reader(self._exit, self._exited)
        except (AttributeError, OSError):
            self._poll()

    def _poll(self) -> None:
        """Look for the end now and then, on a system that does not tell it."""
        assert self._loop is not None
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            self._exited()
        else:
            self._loop.call_later(DEFAULTS.parent_poll, self._poll)

    def _read_stderr(self) -> bool:
        try:
            piece = os.read(self.stderr_fd, READ_AT_ONCE)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            assert self._loop is not None
            self._loop.remove_reader(self.stderr_fd)
            return False
        self.stderr.add(piece)
        self._on_text(piece)
        return True

    def _exited(self) -> None:
        """Take the last words, and end what the process left behind: its group has its number until it is reaped."""
        assert self._loop is not None
        if self._exit >= 0:
            self._loop.remove_reader(self._exit)
            os.close(self._exit)
            self._exit = -1
        self.signal_group(signal.SIGKILL)
        self._read_stderr()  # all that a pipe holds; a process that is left may write to it for ever
        self._popen.wait()
        self._loop.remove_reader(self.stderr_fd)
        os.close(self.stderr_fd)
        self._on_exit()

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and its descendants, but for those in sessions of their own."""
        if self._popen.returncode is None:
            with suppress(OSError):
                os.killpg(self.pid, number)

    @property
    def is_stopped(self) -> bool:
        """Whether a signal, or a debugger, has stopped it; False on a system that does not tell."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b") ")[2][:1] in b"Tt"
        except OSError:
            return False

    @property
    def has_ended(self) -> bool:
        """Whether it has ended and was reaped."""
        return self._popen.returncode is not None

    @property
    def how(self) -> str:
        """How it ended, for a message."""
        code = self._popen.returncode
        if code is None:
            return "it still runs"
        return f"it was killed by {_signal_name(-code)}" if code < 0 else f"its exit code was {code}"

    @property
    def exit_code(self) -> int:
        """Its exit code; that of a killed one is the number of the signal, below zero."""
        return self._popen.returncode or 0

    def close(self) -> None:
        """Close the pipes, which ends the process. On the loop, with nobody watching them."""
        for fd in (self.write_fd, self.read_fd):
            if fd >= 0:
                os.close(fd)
        self.write_fd = self.read_fd = -1


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
