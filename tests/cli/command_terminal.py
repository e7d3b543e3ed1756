"""A command at a pseudo-terminal, and what it shows there."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

from commands import command, environment

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>]|\x1b\][^\x07]*\x07|\r")
DEADLINE = 40
OWN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Runs a command whose session has the terminal at its stdin, so that Ctrl-C is a signal to it."""


class Terminal:
    """A command at the terminal `fd`, and what it has shown."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self.fd = fd
        self.process = process
        self.shown = ""
        self.raw = b""
        self._at = 0

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(self, text: str) -> str:
        """What was shown since the last time, up to a text."""
        deadline = time.monotonic() + DEADLINE
        while (found := self.shown.find(text, self._at)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {self.shown[self._at :]!r}"
            if select.select([self.fd], [], [], left)[0]:
                assert self._read(), f"it ended: {self.shown!r}"
        seen, self._at = self.shown[self._at : found], found + len(text)
        return seen

    def _read(self) -> bool:
        try:
            block = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            block = b""
        if b"\x1b[6n" in block:  # where is the cursor?
            os.write(self.fd, b"\x1b[1;1R")
        self.raw += block
        self.shown += ESCAPES.sub("", block.decode(errors="replace"))
        return bool(block)

    def until_lines_are_read(self) -> None:
        """Wait until the prompt has given the terminal back, where Ctrl-C is a signal again."""
        while not termios.tcgetattr(self.fd)[3] & termios.ISIG:
            if select.select([self.fd], [], [], 0.01)[0]:
                self._read()

    def ended(self) -> int:
        """Its exit code, after all that it shows."""
        deadline = time.monotonic() + DEADLINE
        while not select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))[0] or self._read():
            assert time.monotonic() < deadline, f"it goes on: {self.shown!r}"
        return self.process.wait(DEADLINE)


@contextmanager
def at_terminal(words: Sequence[str], *, folder: Path, columns: int = 100, hidden: str = "", **env: str) -> Iterator[Terminal]:
    """`rrext` with its words at a terminal, without the package `hidden`."""
    without = f"import sys; sys.modules['{hidden}'] = None; from rrext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    run = [sys.executable, "-c", without, *words] if hidden else command(*words)
    with program_at_terminal(run, folder=folder, columns=columns, **env) as terminal:
        yield terminal


@contextmanager
def program_at_terminal(run: Sequence[str], *, folder: Path, columns: int = 100, **env: str) -> Iterator[Terminal]:
    """A program at a terminal."""
    main, side = pty.openpty()
    ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    variables = environment(XDG_STATE_HOME=str(folder / "state"), **{"TERM": "xterm", **env})
    variables.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-c", OWN, *run],
        stdin=side,
        stdout=side,
        stderr=side,
        cwd=folder,
        env=variables,
        start_new_session=True,
    )
    os.close(side)
    try:
        yield Terminal(main, process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(main)
