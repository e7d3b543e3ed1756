"""Writes to people who may not be reading: never blocked, whole, in order, and counted when dropped."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rrext.limits import LOSSY_BACKLOG
from rrext.transports import lossy
from rrext.transports.lossy import LossyWriter, lossy_text

MESSAGES = [b"%06d %b\n" % (number, b"x" * 90) for number in range(10_000)]


def notice(count: int) -> bytes:
    return b"dropped %d\n" % count


Ends = tuple[int, int]


@pytest.fixture(params=["pipe", "pipe without /proc", "socket"])
def ends(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    """What is written to, and where it is read."""
    if request.param == "socket":
        ours, theirs = (end.detach() for end in socket.socketpair())
    else:
        theirs, ours = os.pipe()
    if request.param == "pipe without /proc":
        monkeypatch.setattr(lossy, "reopen", lambda fd, flags: None)
    yield ours, theirs
    for fd in (ours, theirs):
        with suppress(OSError):
            os.close(fd)


def read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.promise("stdio:stderr:never-blocks")
def test_what_nobody_reads_is_dropped_and_what_arrives_is_whole_and_counted(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    for message in MESSAGES:
        writer.write(message)
    assert writer.drops > 0
    os.close(ours)
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.append(read_all(theirs)))
    reader.start()
    assert writer.flush(30)
    writer.write(b"after\n")
    assert writer.flush(30)
    writer.close()
    reader.join()
    lines = parts[0].splitlines(keepends=True)
    count = int(re.findall(rb"dropped (\d+)", parts[0])[0])
    arrived = len(MESSAGES) - count
    assert lines == [*MESSAGES[:arrived], notice(count), b"after\n"]
    assert sum(map(len, MESSAGES[:arrived])) >= LOSSY_BACKLOG - 100


def test_what_is_read_in_time_arrives_whole(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    os.close(ours)
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.append(read_all(theirs)))
    reader.start()
    for message in MESSAGES:
        writer.write(message)
        if writer.drops or len(message) > LOSSY_BACKLOG:
            pytest.fail("dropped although it is read")
        assert writer.flush(30)
    writer.write(b"y" * 1_000_000)
    assert writer.flush(30)
    writer.close()
    reader.join()
    assert parts == [b"".join(MESSAGES) + b"y" * 1_000_000]


def test_flags_that_others_share_are_left_alone(ends: Ends) -> None:
    ours, _ = ends
    writer = LossyWriter(ours, notice)
    writer.write(b"x" * 1_000_000)
    assert os.get_blocking(ours)
    writer.close()


def test_a_reader_that_is_gone_is_no_trouble(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    writer.write(b"x" * 1_000_000)
    os.close(theirs)
    assert writer.flush(30)
    for message in MESSAGES[:10]:
        writer.write(message)
    assert (writer.drops, repr(writer)) == (0, "<LossyWriter fd=-1 0 bytes wait, 0 messages dropped>")
    writer.close()


def test_a_file_takes_everything(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        writer = LossyWriter(file.fileno(), notice)
    for message in MESSAGES:
        writer.write(message)
    assert writer.flush(0)
    writer.close()
    assert (tmp_path / "log").read_bytes() == b"".join(MESSAGES)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device here is always full")
def test_a_full_disk_is_waited_for_and_raises_nothing() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    writer = LossyWriter(fd, notice)
    os.close(fd)
    for message in MESSAGES:
        writer.write(message)
    assert writer.drops > 0
    assert not writer.flush(0)
    writer.close()


def test_many_threads_write_whole_messages(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    os.close(ours)
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.append(read_all(theirs)))
    reader.start()

    def work(number: int) -> None:
        for _ in range(300):
            writer.write(b"%d" % number * 100 + b"\n")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.flush(30)
    writer.close()
    reader.join()
    assert sorted(parts[0].splitlines()) == sorted([b"%d" % number * 100 for number in range(8)] * 300)


def test_a_forked_child_writes_for_itself(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    os.close(ours)
    if (child := os.fork()) == 0:
        writer.write(b"child\n")
        os._exit(0)
    os.waitpid(child, 0)
    writer.write(b"parent\n")
    writer.close()
    assert read_all(theirs) == b"child\nparent\n"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_repeat_what_its_parent_has_to_say(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    os.close(ours)
    writer.write(b"x" * 1_000_000)
    if (child := os.fork()) == 0:
        os._exit(0 if writer.flush(0) else 1)
    assert os.waitpid(child, 0)[1] == 0
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.append(read_all(theirs)))
    reader.start()
    assert writer.flush(30)
    writer.close()
    reader.join()
    assert parts == [b"x" * 1_000_000]


def test_a_text_stream_writes_a_message_per_line(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    os.close(ours)
    stream = lossy_text(writer, 2, "<stderr>")
    print("a", "ü", "\ud800", file=stream)
    assert os.read(theirs, 100) == "a ü \\ud800\n".encode()
    print("unfinished", end="", file=stream)
    stream.flush()
    assert os.read(theirs, 100) == b"unfinished"
    assert (stream.fileno(), stream.isatty(), stream.name) == (2, os.isatty(2), "<stderr>")
    stream.close()
    writer.write(b"the writer goes on\n")
    assert os.read(theirs, 100) == b"the writer goes on\n"
    writer.close()


def waiters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rrext-stderr"]


def test_no_thread_stays_when_nothing_waits(ends: Ends) -> None:
    ours, theirs = ends
    writer = LossyWriter(ours, notice)
    writer.write(b"short\n")
    assert waiters() == []
    writer.write(b"x" * 1_000_000)
    (waiter,) = waiters()
    os.close(theirs)
    waiter.join(30)
    assert waiters() == []
    writer.close()
