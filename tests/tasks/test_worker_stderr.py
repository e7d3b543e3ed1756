"""What processes of tasks write to stderr: whole lines without secrets, on stderr and in the tail of the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rrext.connections.connections import NO_CONNECTIONS
from rrext.pipefile.environment import Environment
from rrext.server.logs import LineHandler, log_tail
from rrext.tasks.worker_stderr import WorkerStderr
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
