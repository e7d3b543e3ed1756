"""The prompt of `rrext sql`, at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest
from commands import command, component, environment, pipeline

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>]|\x1b\][^\x07]*\x07|\r")
ENDLESS = "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c;"
DEADLINE = 40
OWN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
"""Runs a command whose session has the terminal at its stdin, so that Ctrl-C is a signal to it."""


class Terminal:
    """A command at the terminal `fd`, and what it has shown."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self.fd = fd
        self.process = process
        self.shown = ""
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
                self._read()
        seen, self._at = self.shown[self._at : found], found + len(text)
        return seen

    def _read(self) -> None:
        try:
            block = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            block = b""
        assert block, f"it ended: {self.shown!r}"
        if b"\x1b[6n" in block:  # where is the cursor?
            os.write(self.fd, b"\x1b[1;1R")
        self.shown += ESCAPES.sub("", block.decode(errors="replace"))

    def until_lines_are_read(self) -> None:
        """Wait until the prompt has given the terminal back, where Ctrl-C is a signal again."""
        while not termios.tcgetattr(self.fd)[3] & termios.ISIG:
            if select.select([self.fd], [], [], 0.01)[0]:
                self._read()

    def ask(self, text: str, answer: str) -> None:
        """Type a line at the prompt and wait for what comes of it."""
        self.type(f"{text}\r")
        self.until(answer)
        self.until("db_1")

    def ended(self) -> int:
        """Its exit code."""
        while self.process.poll() is None:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    break
        return self.process.wait(DEADLINE)


@contextmanager
def at_terminal(folder: Path, *args: str) -> Iterator[Terminal]:
    """`rrext sql` of a database with one table, at a terminal of 100 columns."""
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("create table if not exists visit (day text, people integer)")
    database.close()
    source = component("tools_1", "tools", mode="Source")
    path = pipeline(folder, source, component("db_1", "db_sqlite", control="tools_1", path="a.db", allow_execute=True))
    main, side = pty.openpty()
    ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    env = environment(XDG_STATE_HOME=str(folder / "state"), TERM="xterm", NO_COLOR="1")
    words = [sys.executable, "-c", OWN, *command("sql", path, *args)]
    process = subprocess.Popen(words, stdin=side, stdout=side, stderr=side, env=env, start_new_session=True)
    os.close(side)
    terminal = Terminal(main, process)
    try:
        yield terminal
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(main)


def test_statements_end_at_a_semicolon_however_many_lines_they_have(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.type("select 40 + 2\r")
        terminal.until("...>")
        terminal.ask("as answer;", "answer\n------\n    42\n")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_tab_completes_tables_and_their_columns(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.type("select count(*) from vi\t")
        terminal.until("sit")
        terminal.type(" where visit.peo\t")
        terminal.until("ple")
        terminal.ask(" is null;", "count(*)\n--------\n       0\n")


def test_ctrl_c_ends_what_runs_or_is_typed_and_never_the_prompt(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
        for _ in range(2):
            terminal.type(f"{ENDLESS}\r")
            terminal.until_lines_are_read()
            terminal.type("\x03")
            terminal.until("cancelled")
            terminal.until("db_1>")
        terminal.type("not a statement")
        terminal.until("statement")
        terminal.type("\x03")
        terminal.until("db_1>")
        terminal.ask("select 41 + 1 as b;", "b\n--\n42\n")


def test_a_transaction_lasts_until_it_is_ended(tmp_path: Path) -> None:
    with at_terminal(tmp_path, "--write") as terminal:
        terminal.until("db_1>")
        terminal.type("begin;\r")
        terminal.until("db_1*>")
        terminal.ask("insert into visit values ('x', 1);", "1 row changed")
        terminal.type("rollback;\r")
        terminal.until("db_1>")
        terminal.ask("select count(*) from visit;", "--\n       0\n")
        terminal.ask("begin; insert into visit values ('y', 2); commit;", "1 row changed")
        terminal.type("begin;\r")
        terminal.until("db_1*>")
        terminal.type("\x04")
        terminal.until("rolled back")
        assert terminal.ended() == 0
    with sqlite3.connect(tmp_path / "a.db") as database:
        assert database.execute("select * from visit").fetchall() == [("y", 2)]
    database.close()


def test_commands_describe_tables_and_change_what_is_shown(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.ask(r"\d", "visit | day, people\n")
        terminal.ask(r"\d visit", "people | INTEGER |\n")
        terminal.ask(r"\d visits", "did you mean visit?")
        terminal.ask(r"\x", "expanded display is on")
        terminal.ask("select 1 as one;", "-[ 1 ]")
        terminal.ask(r"\timing", "timing is on")
        terminal.ask("select 1 as one;", " ms\n")
        terminal.ask(r"\dd", r"\d is near")
        terminal.ask("select * from nowhere;", "no such table: nowhere [sql_failed]")
        terminal.type("\\q\r")
        assert terminal.ended() == 0


def test_what_was_typed_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.ask("select 12345 - 1 as a;", "12344\n")
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.type("\x1b[A")
        terminal.until("select 12345 - 1 as a;")
    history = tmp_path / "state" / "rrext" / "sql_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.parent.stat().st_mode) == 0o700


def test_sigterm_ends_the_prompt_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
        terminal.process.terminate()
        assert terminal.ended() == 143
        assert termios.tcgetattr(terminal.fd)[3] & termios.ECHO


def test_without_its_package_or_a_terminal_there_is_no_prompt_and_it_says_so(tmp_path: Path) -> None:
    with at_terminal(tmp_path) as terminal:
        terminal.until("db_1>")
    path = str(tmp_path / "p.pipe")
    main, side = pty.openpty()
    hidden = "import sys; sys.modules['prompt_toolkit'] = None; from rrext.cli.main import main; sys.exit(main(sys.argv[1:]))"
    try:
        done = subprocess.run(command("sql", path), stdin=side, capture_output=True, env=environment(), check=False)
        assert (done.returncode, b"no terminal" in done.stderr) == (2, True)
        words = [sys.executable, "-c", hidden, "sql", path]
        bare = subprocess.run(words, stdin=side, stdout=side, stderr=subprocess.PIPE, env=environment(), check=False)
        assert (bare.returncode, b'pip install "rrext[cli]"' in bare.stderr) == (2, True)
    finally:
        os.close(main)
        os.close(side)


@pytest.mark.parametrize("flag", ["--explain", "-p1"])
def test_what_needs_a_statement_is_no_prompt(flag: str, tmp_path: Path) -> None:
    main, side = pty.openpty()
    try:
        done = subprocess.run(
            command("sql", "p.pipe", flag), stdin=side, capture_output=True, env=environment(), cwd=tmp_path, check=False
        )
        assert (done.returncode, b"there is no statement" in done.stderr) == (2, True)
    finally:
        os.close(main)
        os.close(side)
