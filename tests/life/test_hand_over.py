"""The moments when reading changes hands, one at a time, with a session that does what the test says."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from raw_client import request

from rrext.limits import CALM_TICKS, DEFAULTS
from rrext.server.reader import Reader
from rrext.threads import Workers
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength


class Outbox:
    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


class ScriptedSession:
    """Handles requests as the test says, and remembers who handled what."""

    def __init__(self) -> None:
        self.limits = msgspec.structs.replace(DEFAULTS, quick=0.0001)
        self.framer: ContentLength[Any] = ContentLength(self.limits)
        self.connection = ServerConnection(self.framer)
        self.outbox = Outbox()
        self.last_was_quick = True
        self.reports_answers = self.is_draining = self.runs_inline = False
        self.unread_bytes = 0
        self.by_loop: list[int] = []
        self.by_thread: list[int] = []
        self.overstays = 0
        self.inline: Callable[[int], bool] = lambda seq: True

    def handle_all(self, events: list[Any]) -> None:
        self.by_loop += [event.id for event in events]

    def handle_inline(self, event: Any, alone: bool = False) -> Any:
        if not self.inline(event.id):
            return event
        self.by_thread.append(event.id)
        return None

    def end_inline(self) -> None:
        self.outbox.flush()

    def overstayed(self) -> None:
        self.overstays += 1


class WatchedReader(Reader):
    """Counts the looks of the watch."""

    ticks = 0

    def _watch(self, reading: Any) -> None:
        self.ticks += 1
        super()._watch(reading)


class Stage:
    """A reader on a pipe, and a thread that stops inside the request that the test names."""

    def __init__(self, **more: Any) -> None:
        self.session = ScriptedSession()
        self.read_fd, self.fd = os.pipe()
        self.ended = asyncio.Event()
        self.reader = WatchedReader(
            self.session,  # type: ignore[arg-type]
            self.session.framer,
            self.read_fd,
            asyncio.get_running_loop(),
            Workers(),
            self.ended.set,
            **more,
        )
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.reader.start()

    def send(self, *seqs: int) -> None:
        os.write(self.fd, b"".join(request(seq, "rrext_ping") for seq in seqs))

    def stop_at(self, seq: int, *, runs: bool, taken: bool) -> None:
        """Stop the thread inside this request, deciding or running; `taken` is what it says of it in the end."""

        def inline(number: int) -> bool:
            if number != seq:
                return True
            self.session.runs_inline = runs
            self.inside.set()
            assert self.go_on.wait(20)
            self.session.runs_inline = False
            return taken

        self.session.inline = inline

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0)

    async def ticks(self, times: int) -> None:
        """Return after so many looks of the watch."""
        last = self.reader.ticks + times
        await self.until(lambda: self.reader.ticks >= last)

    async def lead(self) -> None:
        """Return when a thread reads, and has handled request 2."""
        self.send(1)
        await self.until(lambda: self.session.by_loop)
        self.send(2)
        await self.until(lambda: self.session.by_thread)
        assert repr(self.reader).endswith("a thread>")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    made.go_on.set()
    made.reader.stop()
    os.close(made.fd)


async def test_others_have_their_turn_between_the_shares_of_what_was_read() -> None:
    stage = Stage(share=3)
    stage.session.last_was_quick = False
    handled = stage.session.handle_all
    turns: list[int] = []

    def handle_all(events: list[Any]) -> None:
        turns.append(len(events))
        asyncio.get_running_loop().call_soon(turns.append, 0)  # another client's
        handled(events)

    stage.session.handle_all = handle_all  # type: ignore[method-assign]
    stage.send(*range(1, 9))
    await stage.until(lambda: len(stage.session.by_loop) == 8)
    await stage.until(lambda: len(turns) == 6)
    assert turns == [3, 0, 3, 0, 2, 0]
    assert stage.session.by_loop == list(range(1, 9))
    stage.send(9)
    await stage.until(lambda: stage.session.by_loop[-1] == 9)
    os.close(stage.fd)
    await stage.ended.wait()


async def test_a_thread_that_decides_keeps_reading_however_long_that_takes(stage: Stage) -> None:
    await stage.lead()
    stage.stop_at(3, runs=False, taken=False)
    stage.send(3, 4, 5)
    await stage.until(stage.inside.is_set)
    await stage.ticks(3 * CALM_TICKS)
    assert stage.session.by_loop == [1]
    stage.go_on.set()
    await stage.until(lambda: stage.session.by_loop == [1, 3, 4, 5])
    assert stage.session.by_thread == [2]
    assert stage.session.overstays == 0


async def test_a_thread_that_runs_a_tool_loses_reading_and_what_it_read(stage: Stage) -> None:
    await stage.lead()
    stage.session.last_was_quick = False
    stage.stop_at(3, runs=True, taken=True)
    stage.send(3, 4, 5)
    await stage.until(lambda: stage.session.by_loop == [1, 4, 5])
    assert stage.session.overstays == 1
    stage.send(6)
    await stage.until(lambda: stage.session.by_loop == [1, 4, 5, 6])
    assert stage.session.by_thread == [2]


async def test_the_answer_of_a_tool_that_lost_reading_does_not_stay_in_the_outbox(stage: Stage) -> None:
    await stage.lead()
    stage.session.last_was_quick = False
    stage.stop_at(3, runs=True, taken=True)
    stage.send(3)
    await stage.until(lambda: stage.session.overstays)
    before = stage.session.outbox.flushes
    stage.go_on.set()
    await stage.until(lambda: stage.session.outbox.flushes > before)
    assert stage.session.by_thread == [2, 3]
    assert stage.session.by_loop == [1]


async def test_a_watch_that_sleeps_is_woken_by_the_next_call(stage: Stage) -> None:
    await stage.lead()
    await stage.ticks(CALM_TICKS)
    reading = stage.reader._reading
    assert reading is not None
    await stage.until(lambda: not reading.watched)
    stage.stop_at(3, runs=True, taken=True)
    stage.send(3, 4)
    await stage.until(lambda: stage.session.by_loop == [1, 4])


async def test_a_call_that_begins_while_the_watch_falls_asleep_is_watched(stage: Stage) -> None:
    await stage.lead()
    reading = stage.reader._reading
    assert reading is not None
    reading.watched, reading.seen = True, reading.calls
    reading.calls += 1  # the thread begins a call, and sees that it is watched
    assert not stage.reader._may_sleep(reading)


async def test_a_session_that_cannot_say_who_overstayed_does_not_stop_reading(stage: Stage) -> None:
    await stage.lead()
    stage.session.last_was_quick = False
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    def overstayed() -> None:
        raise RuntimeError("a bug")

    stage.session.overstayed = overstayed  # type: ignore[method-assign]
    stage.stop_at(3, runs=True, taken=True)
    stage.send(3, 4)
    await stage.until(lambda: stage.session.by_loop == [1, 4])
    stage.send(5)
    await stage.until(lambda: stage.session.by_loop == [1, 4, 5])
    assert [type(report["exception"]) for report in reports] == [RuntimeError]


async def test_a_handler_that_fails_on_the_thread_leaves_its_request_to_the_loop(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.lead()
    stage.session.last_was_quick = False

    def inline(seq: int) -> bool:
        raise RecursionError("a bug")

    stage.session.inline = inline
    stage.send(3, 4)
    await stage.until(lambda: stage.session.by_loop == [1, 3, 4])
    assert "the loop reads on" in caplog.text


async def test_an_end_that_a_thread_reads_is_told_on_the_loop(stage: Stage) -> None:
    await stage.lead()
    keep = os.dup(stage.fd)
    os.close(stage.fd)
    stage.fd = os.open(os.devnull, os.O_WRONLY)
    assert not stage.ended.is_set()
    os.close(keep)
    async with asyncio.timeout(20):
        await stage.ended.wait()
    assert stage.reader.ended
    assert repr(stage.reader).endswith("ended>")


async def test_a_pause_ends_also_when_the_last_answer_came_before_anybody_asked(stage: Stage) -> None:
    session = stage.session
    session.last_was_quick = False
    session.unread_bytes = session.limits.max_inflight_bytes + 1
    handle_all = session.handle_all

    def answered_at_once(events: list[Any]) -> None:
        handle_all(events)
        asyncio.get_running_loop().call_soon(lambda: setattr(session, "unread_bytes", 0))

    session.handle_all = answered_at_once  # type: ignore[method-assign]
    stage.send(1)
    await stage.until(lambda: session.by_loop == [1])
    stage.send(2)
    await stage.until(lambda: session.by_loop == [1, 2])
    assert not stage.reader.paused or session.unread_bytes == 0
