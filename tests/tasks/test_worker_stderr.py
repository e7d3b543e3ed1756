"""What processes of tasks write to stderr: whole lines without secrets, on stderr and in the tail of the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rrext.connections import NO_CONNECTIONS
from rrext.pipefile.environment import Environment
from rrext.server.journal.logs import LineHandler, log_tail
from rrext.tasks.task_engine import WorkerStderr
from rrext.tasks.worker_process import Stderr, last_words
from rrext.transports.lossy import LossyWriter


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[LineHandler]:
    """The handler of a server's log."""
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    writer = LossyWriter(fd, lambda drops: b"")
    os.close(fd)
    made, root = LineHandler(writer, "text"), logging.getLogger()
    root.addHandler(made)
    yield made
    root.removeHandler(made)
    writer.close()


def test_pieces_of_lines_are_put_together_and_kept_in_the_tail_of_the_log(
    handler: LineHandler, capsys: pytest.CaptureFixture[str]
) -> None:
    stderr = WorkerStderr(Environment({"ROCKETRIDE_KEY": "a-secret-of-mine"}), NO_CONNECTIONS, 1000)
    stderr.learn({"OWN": "another-secret"})
    before = handler.tail.after(0)[-1:]
    for piece in (b"one a-secr", b"et-of-mine\ntwo another-secret", b"\nthe re", b"st"):
        stderr.write(1, piece)
    stderr.write(2, b"of another\n")
    stderr.end(1)
    told = ["one ${ROCKETRIDE_KEY}", "two ${OWN}", "of another", "the rest"]
    assert capsys.readouterr().err.splitlines() == told
    number = before[0][0] if before else 0
    assert log_tail() is handler.tail
    assert [line.decode().rstrip("\n") for _, line in handler.tail.after(number)] == told


def test_a_line_without_an_end_is_cut_where_it_is_too_long(handler: LineHandler, capsys: pytest.CaptureFixture[str]) -> None:
    stderr = WorkerStderr(Environment(), NO_CONNECTIONS, 10)
    for _ in range(5):
        stderr.write(1, b"x" * 6)
    stderr.end(1)
    assert capsys.readouterr().err.splitlines() == ["x" * 12, "x" * 12, "x" * 6]


TRACE = (
    "Fatal Python error: Segmentation fault\n\n"
    + "".join(f'Thread 0x{number} (most recent call first):\n  File "threading.py", line 1 in wait\n' for number in range(400))
    + 'Current thread 0x1 (most recent call first):\n  File "node.py", line 7 in a_secret\n  File "x.py", line 1 in main\n\n'
    + 'Thread 0x9 (most recent call first):\n  File "other.py", line 2 in other\n' * 400
    + "Extension modules: one, two (total: 2)\n"
)


def heard(text: str, step: int) -> Stderr:
    """What is kept of a text that comes in pieces."""
    stderr, data = Stderr(), text.encode()
    for at in range(0, len(data), step):
        stderr.add(data[at : at + step])
    return stderr


@pytest.mark.promise("tasks:death-told")
@pytest.mark.parametrize("step", [1, 7, 64, 10**6])
def test_the_head_and_the_crashed_thread_of_a_long_trace_are_kept_however_it_arrives(step: int) -> None:
    told = last_words(heard(f"earlier\n{TRACE}", step), -11, lambda text: text.replace("a_secret", "***"))
    assert told.cause == 'Fatal Python error: Segmentation fault, File "node.py", line 7 in ***'
    lines = told.text.splitlines()
    assert lines[:4] == ["Fatal Python error: Segmentation fault", "", *(f'  File "{end}' for end in (
        'node.py", line 7 in ***', 'x.py", line 1 in main'))]  # fmt: skip
    assert lines[4] == "[...]"
    assert lines[-1] == "Extension modules: one, two (total: 2)"
    assert len(told.text.encode()) <= 8192


def test_a_trace_that_is_longer_than_what_is_kept_of_it_tells_no_half_of_a_secret() -> None:
    frame = '  File "a_long_secret.py", line 1 in wait\n'
    long = "Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n" + frame * 20_000
    for shift in range(len(frame)):
        told = last_words(heard("x" * shift + long, 10**6), -6, lambda text: text.replace("a_long_secret", "***"))
        assert "secret" not in told.text
        assert "long" not in told.text


@pytest.mark.parametrize(
    ("text", "code", "cause"),
    [
        ("said\n2026-01-01T00:00:00.000Z WARNING rrext it failed\n  Traceback\n  ValueError: old\n", 7, "said"),
        ("Traceback (most recent call last):\n  File\nValueError: old\n", 7, ""),
        ("Traceback (most recent call last):\n  File\nValueError: new\n", 1, "ValueError: new"),
        ("out of luck\n", -9, ""),
        ("row 5 of 9\n", -14, ""),
        ("Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  File of a child\n", -9, ""),
        ("terminate called\n", -6, "terminate called"),
        ("  the rest of a traceback\n  ValueError: old\n", 7, ""),
    ],
)
def test_the_cause_is_what_the_process_said_itself(text: str, code: int, cause: str) -> None:
    assert last_words(heard(text, 5), code, str).cause == cause
