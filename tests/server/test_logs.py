"""The server's log: a line per event, where it was asked for, that nobody can forge."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rrext.limits import DEFAULTS, LOG_TAIL, LOG_TAIL_BYTES
from rrext.server.journal.logs import LEVELS, LineHandler, LogForm, log_tail, set_up_logging
from rrext.transports.lossy import LossyWriter

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(autouse=True)
def logging_is_put_back() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rrext.log"


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_an_event_is_one_line_with_time_level_and_logger(path: Path) -> None:
    set_up_logging("info", str(path))
    logging.getLogger("rrext.calls").info("request=%s tool=%s ms=%.1f", 7, "add", 1.25)
    (line,) = lines(path)
    assert re.fullmatch(STAMP + r" INFO rrext\.calls request=7 tool=add ms=1\.2", line)


def test_an_event_can_be_one_json_object(path: Path) -> None:
    set_up_logging("info", str(path), form="json")
    logging.getLogger("rrext.calls").info("request=%s\n", "ü")
    event = json.loads(lines(path)[0])
    assert re.fullmatch(STAMP, event.pop("time"))
    assert event == {"level": "info", "logger": "rrext.calls", "message": "request=ü\n"}


@pytest.mark.parametrize("level", LEVELS)
def test_only_events_of_the_level_and_above_are_logged(path: Path, level: str) -> None:
    set_up_logging(level, str(path))
    for name, number in LEVELS.items():
        logging.getLogger("any.library").log(number, name)
    names = list(LEVELS)
    assert [line.rpartition(" ")[2] for line in lines(path)] == names[names.index(level) :]


def test_a_log_file_is_for_its_owner_alone_and_is_appended_to(path: Path) -> None:
    mask = os.umask(0)
    try:
        for word in ("first", "second"):
            set_up_logging("info", str(path))
            logging.getLogger("x").info(word)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line.rpartition(" ")[2] for line in lines(path)] == ["first", "second"]


def test_a_log_file_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        set_up_logging("info", str(tmp_path / "missing" / "x.log"))


NASTY = "a\n2026-01-01T00:00:00.000Z ERROR rrext forged\r\x1b[2J\x00\x85\u2028\ud800"


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_text_can_forge_an_event_or_steer_a_terminal(path: Path, form: LogForm) -> None:
    set_up_logging("info", str(path), form=form)
    logging.getLogger("x").warning("tool said %s", NASTY)
    data = path.read_bytes()
    assert data.count(b"\n") == 1
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", data)
    if form == "text":
        assert all(mark not in data.decode() for mark in "\x85\u2028")


def fails(path: Path, form: LogForm) -> None:
    set_up_logging("info", str(path), form=form)
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer\nEvil") from error
    except ValueError:
        logging.getLogger("x").exception("request=%d failed", 7)


def test_a_traceback_is_whole_and_its_lines_are_not_events(path: Path) -> None:
    fails(path, "text")
    first, *rest = lines(path)
    assert first.endswith("ERROR x request=7 failed")
    assert rest
    assert all(line.startswith("  ") for line in rest)
    assert any("KeyError: 'inner'" in line for line in rest)
    assert "ValueError: outer" in "\n".join(rest)


def test_a_traceback_in_json_is_a_member_of_its_event(path: Path) -> None:
    fails(path, "json")
    (line,) = lines(path)
    assert "KeyError: 'inner'" in json.loads(line)["exception"]


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("event", [("%s", Rude()), ("%d", "x"), ("%s %s", 1)])
def test_an_event_without_text_breaks_nothing(path: Path, event: tuple[Any, ...]) -> None:
    set_up_logging("info", str(path))
    logging.getLogger("x").info(*event)
    (line,) = lines(path)
    assert re.search(r"an event of .*test_logs\.py:\d+ has no text: (RuntimeError|TypeError)", line)


def test_a_huge_event_is_cut_and_says_so(path: Path) -> None:
    set_up_logging("info", str(path))
    logging.getLogger("x").info("y" * (DEFAULTS.max_log_text + 5))
    assert lines(path)[0].endswith("yyy… (5 characters cut)")


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_text_of_an_exception_is_cut_and_where_it_was_raised_is_not(path: Path, form: LogForm) -> None:
    def raise_it() -> None:
        raise ValueError("y" * 10_000_000)

    set_up_logging("info", str(path), form=form)
    try:
        raise_it()
    except ValueError:
        logging.getLogger("x").exception("it failed")
    text = path.read_text(encoding="utf-8")
    assert len(text) < DEFAULTS.max_log_text
    assert "ValueError: yyy" in text
    assert "characters cut)" in text
    assert "in raise_it" in text


def test_of_a_chain_of_long_exceptions_the_beginning_and_the_end_are_kept(path: Path) -> None:
    set_up_logging("info", str(path))
    error: Exception | None = None
    for number in range(20):
        later = ValueError(f"error {number} " + "y" * 100_000)
        later.__cause__, error = error, later
    assert error is not None
    logging.getLogger("x").error("it failed", exc_info=error)
    text = path.read_text(encoding="utf-8")
    assert len(text) < DEFAULTS.max_log_text + 1000
    assert "error 0 " in text
    assert "error 19 " in text


@pytest.mark.promise("stdio:stderr:never-blocks")
@pytest.mark.parametrize("form", ["text", "json"])
def test_events_that_nobody_reads_are_counted_in_an_event(form: LogForm) -> None:
    read_fd, write_fd = os.pipe()
    saved = os.dup(2)
    os.dup2(write_fd, 2)
    try:
        writer = set_up_logging("info", form=form)
    finally:
        os.dup2(saved, 2)
    logger, count = logging.getLogger("x"), 0
    while not writer.drops:
        logger.info("event %d %s", count, "z" * 1000)
        count += 1
    for fd in (saved, write_fd):
        os.close(fd)
    with open(read_fd, "rb") as reader:
        found = [reader.readline().decode() for _ in range(count)]
    writer.close()
    assert [number for number, line in enumerate(found) if f"event {number} " in line] == list(range(count - 1))
    assert "events dropped here, because nobody read them in time: 1" in found[-1]


def test_a_handler_can_write_to_any_writer() -> None:
    read_fd, write_fd = os.pipe()
    writer = LossyWriter(write_fd, lambda drops: b"")
    LineHandler(writer, "text").emit(logging.makeLogRecord({"name": "n", "msg": "m", "levelname": "INFO"}))
    assert os.read(read_fd, 100).endswith(b" INFO n m\n")
    writer.close()
    for fd in (read_fd, write_fd):
        os.close(fd)


def test_the_last_events_are_kept_as_they_were_logged(path: Path) -> None:
    assert log_tail().after(0) == []
    set_up_logging("info", str(path), redact=lambda text: text.replace("secret", "NAME"))
    for number in range(LOG_TAIL + 3):
        logging.getLogger("any.secret").info("%s secret", number)
    kept = log_tail().after(0)
    assert [number for number, _ in kept] == list(range(4, LOG_TAIL + 4))
    assert b"".join(event for _, event in kept).decode().split("\n")[:-1] == lines(path)[3:]
    assert b"secret" not in b"".join(event for _, event in kept)
    assert log_tail().after(LOG_TAIL + 3) == []
    logging.getLogger("any").info("x" * 2 * LOG_TAIL_BYTES)
    ((_, long),) = log_tail().after(LOG_TAIL + 3)
    assert len(long) == LOG_TAIL_BYTES
