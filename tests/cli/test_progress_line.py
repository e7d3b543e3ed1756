"""Progress: in place on a terminal, a line now and then elsewhere, and never after its end."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
from pathlib import Path

import pytest
from commands import NODES, command, component, environment, pipeline

from rrext.cli.console.lines import ProgressLine

ERASE = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    return Terminal()


def test_a_terminal_has_one_line_that_is_written_anew(terminal: Terminal, clock: Clock) -> None:
    line = ProgressLine(terminal, now=clock)
    for text in ("one", "two", "three"):
        line.show(text)
        clock.now += 1
    line.end()
    assert terminal.getvalue() == f"{ERASE}one{ERASE}two{ERASE}three{ERASE}"


def test_states_that_come_too_fast_are_not_drawn(terminal: Terminal, clock: Clock) -> None:
    line = ProgressLine(terminal, now=clock)
    for number in range(1000):
        line.show(str(number))
        clock.now += 0.01
    assert terminal.getvalue().count(ERASE) == 100


def test_a_line_never_wraps_around_a_terminal(terminal: Terminal, clock: Clock) -> None:
    ProgressLine(terminal, now=clock).show("x" * 100 + "\n\x1b[2J")
    assert terminal.getvalue() == ERASE + "x" * 38 + "…"


def test_a_cleared_line_is_drawn_again_at_once(terminal: Terminal, clock: Clock) -> None:
    line = ProgressLine(terminal, now=clock)
    line.show("one")
    line.clear()
    line.show("two")
    assert terminal.getvalue() == f"{ERASE}one{ERASE}{ERASE}two"


def test_elsewhere_the_first_and_the_last_state_are_lines(clock: Clock) -> None:
    file = io.StringIO()
    line = ProgressLine(file, now=clock)
    for text in ("one", "two", "three"):
        line.show(text)
    line.end()
    assert file.getvalue() == "one\nthree\n"


def test_elsewhere_a_line_comes_once_a_second(clock: Clock) -> None:
    file = io.StringIO()
    line = ProgressLine(file, now=clock)
    for number in range(100):
        line.show(str(number))
        clock.now += 0.1
    assert len(file.getvalue().splitlines()) == 10


def test_a_state_that_was_shown_is_not_shown_again_at_the_end(clock: Clock) -> None:
    file = io.StringIO()
    line = ProgressLine(file, now=clock)
    line.show("one")
    line.end()
    assert file.getvalue() == "one\n"


def test_before_a_summary_short_work_needs_no_lines(clock: Clock) -> None:
    file = io.StringIO()
    line = ProgressLine(file, summary_follows=True, now=clock)
    line.show("one")
    clock.now += 1
    line.show("two")
    line.show("three")
    line.end()
    assert file.getvalue() == "two\n"


@pytest.mark.parametrize("in_place", [True, False])
def test_nothing_comes_after_the_end(in_place: bool, terminal: Terminal, clock: Clock) -> None:
    file = terminal if in_place else io.StringIO()
    line = ProgressLine(file, now=clock)
    line.end()
    line.show("late")
    assert file.getvalue() == ""


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    ProgressLine(terminal).show("one")
    assert terminal.getvalue() == "one\n"


def in_terminal(*args: str, width: int) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    env = {**environment(TERM="xterm"), "COLUMNS": str(width)}
    process = subprocess.Popen(command(*args), stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
    os.close(theirs)
    written = b""
    while select.select([ours], [], [])[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so when the last process has closed its end
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    process.wait()
    return written.decode().replace("\r\n", "\n")


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    return pipeline(tmp_path, component("w", "webhook"), component("k", "kinds", control="w"))


def test_a_person_sees_progress_in_place_and_a_result_that_is_indented(kinds: str) -> None:
    assert in_terminal("tool", kinds, "steps", "--nodes", NODES, width=80).endswith(f'{ERASE}"done"\n')
    shown = in_terminal("tool", kinds, "greet", "--input", '{"name": "Ada"}', "--nodes", NODES, width=80)
    assert shown == '{\n  "text": "Hello Ada"\n}\n'


def test_a_person_sees_a_list_of_tools_that_fits_the_terminal(kinds: str) -> None:
    for width in (50, 70, 100):
        lines = in_terminal("tools", kinds, "--nodes", NODES, width=width).splitlines()
        assert all(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= width for line in lines)
        assert "\x1b[1m" in lines[0]


def test_result_lines_and_progress_do_not_mix(kinds: str) -> None:
    shown = in_terminal("tool", kinds, "count", "--stream", "--nodes", NODES, width=80)
    assert shown == '{"chunk":0}\n{"chunk":1}\n{"chunk":2}\n{"result":"done"}\n'
