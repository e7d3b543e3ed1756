"""What waits to be written: in order, in whole frames, with everybody who waits for room told of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_world import Sink, until

from rrext.server.outbox import Outbox


def made(room: int = 1 << 60, limit: int = 100) -> tuple[Outbox, Sink, list[str]]:
    told: list[str] = []
    sink = Sink(room)
    return Outbox(sink, limit, asyncio.get_running_loop(), lambda: told.append("room")), sink, told


@given(
    st.lists(st.tuples(st.sampled_from(["append", "send", "flush", "drain"]), st.lists(st.binary(max_size=30), max_size=3))),
    st.integers(0, 40),
)
def test_bytes_leave_in_the_order_in_which_they_came_however_the_peer_reads(steps: Any, step: int) -> None:
    async def run() -> None:
        outbox, sink, _ = made(room=step)
        sent = b""
        for what, pieces in steps:
            if what == "append":
                outbox.append(pieces)
            elif what == "send":
                outbox.send(pieces)
            elif what == "flush":
                outbox.flush()
            else:
                sink.drain(step)
                await asyncio.sleep(0)
            if what in ("append", "send"):
                sent += b"".join(pieces)
            assert sent.startswith(bytes(sink.taken))
            assert outbox.size == len(sent) - len(sink.taken)
        sink.drain()
        await asyncio.sleep(0)
        outbox.flush()
        assert bytes(sink.taken) == sent
        assert outbox.size == 0

    asyncio.run(run())


async def test_thousands_of_pieces_leave_in_writes_that_a_system_takes() -> None:
    outbox, sink, _ = made()
    outbox.append([b"%d," % n for n in range(3000)])
    outbox.flush()
    assert bytes(sink.taken) == b"".join(b"%d," % n for n in range(3000))
    assert sink.writes == 6


@pytest.mark.parametrize("how", ["blocked", "never blocked"])
async def test_who_waits_for_room_goes_on_also_if_the_sink_never_said_that_it_was_full(how: str) -> None:
    """Answers that are only queued, until the batch ends, make it full as well."""
    outbox, sink, told = made(room=0 if how == "blocked" else 1 << 60)
    outbox.append([b"x" * 200])
    assert outbox.is_full
    outbox.want_room()
    through = threading.Event()
    thread = threading.Thread(target=lambda: (outbox.wait_for_room(), through.set()))
    thread.start()
    waiting = [asyncio.ensure_future(outbox.room()), asyncio.ensure_future(outbox.drained())]
    await asyncio.sleep(0)
    assert not through.is_set()
    outbox.flush()
    if how == "blocked":
        await asyncio.sleep(0)
        assert not through.is_set()
        assert told == []
        sink.drain()
    await asyncio.gather(*waiting)
    await until(through.is_set)
    assert told == ["room"]
    thread.join()


async def test_room_that_is_there_is_not_waited_for() -> None:
    outbox, _, told = made()
    outbox.append([b"x" * 100])
    assert not outbox.is_full
    outbox.wait_for_room()
    await outbox.room()
    outbox.want_room()
    await asyncio.sleep(0)
    assert told == ["room"]


async def test_a_reader_that_takes_a_little_wakes_nobody_before_there_is_room() -> None:
    outbox, sink, told = made(room=0)
    outbox.send([b"x" * 300])
    waiting = asyncio.ensure_future(outbox.room())
    for left in (250, 150, 101):
        sink.drain(outbox.size - left)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (outbox.size, waiting.done(), told) == (left, False, [])
    sink.drain(1)
    await waiting
    assert told == ["room"]
    drained = asyncio.ensure_future(outbox.drained())
    await asyncio.sleep(0)
    assert not drained.done()
    sink.drain()
    await drained


async def test_a_producer_whose_call_is_over_waits_no_longer() -> None:
    outbox, _, _ = made(room=0)
    outbox.send([b"x" * 200])
    over, through = threading.Event(), threading.Event()
    threading.Thread(target=lambda: (outbox.wait_for_room(over.is_set), through.set())).start()
    outbox.wake_waiters()
    over.set()
    outbox.wake_waiters()
    await until(through.is_set)
    assert outbox.is_full


@pytest.mark.parametrize("how", ["write", "break off"])
@pytest.mark.parametrize("blocked", [False, True])
async def test_a_lost_peer_frees_who_waits_and_what_is_sent_later_is_dropped(how: str, blocked: bool) -> None:
    outbox, sink, _ = made(room=0 if blocked else 1 << 60)
    outbox.append([b"x" * 200])
    if blocked:
        outbox.flush()
    through = threading.Event()
    threading.Thread(target=lambda: (outbox.wait_for_room(), through.set())).start()
    waiting = [asyncio.ensure_future(outbox.room()), asyncio.ensure_future(outbox.drained())]
    await asyncio.sleep(0)
    sink.is_broken = True
    if how == "break off":
        outbox.break_off()
    elif blocked:
        sink.drain()
    else:
        outbox.flush()
    await asyncio.gather(*waiting)
    await until(through.is_set)
    assert outbox.is_broken
    for _ in range(3):
        outbox.send([b"y" * 200])
        outbox.append([b"y" * 200])
        assert not outbox.is_full, "who waits for room would look again for ever"
    outbox.flush()
    assert outbox.size == 0
    await outbox.room()
    await outbox.drained()
    outbox.wait_for_room()


async def test_what_is_sent_inside_of_a_write_leaves_after_it_and_waits_for_nobody() -> None:
    """As by a finalizer, which runs wherever the garbage collector does."""
    outbox, sink, _ = made()
    write, more = sink.write, [[b"3", b"4"], [b"5"]]

    def interrupted(pieces: Any) -> int:
        if more:
            outbox.send(more.pop(0))
        return write(pieces)

    sink.write = interrupted  # type: ignore[method-assign]
    outbox.send([b"1", b"2"])
    assert bytes(sink.taken) == b"12345"
    assert outbox.size == 0


async def test_frames_of_many_threads_never_mix_and_none_is_lost() -> None:
    outbox, sink, _ = made(room=0, limit=500)
    count, threads = 300, 6

    def send(name: int) -> None:
        for number in range(count):
            outbox.send([b"<%d:" % name, b"%d" % number, b">"])
            if number % 10 == 0:
                outbox.wait_for_room()

    workers = [threading.Thread(target=send, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        sink.drain(97)
        await asyncio.sleep(0)
    sink.drain()
    await outbox.drained()
    frames = bytes(sink.taken).decode().strip("<>").split("><")
    for name in range(threads):
        assert [frame for frame in frames if frame.startswith(f"{name}:")] == [f"{name}:{n}" for n in range(count)]
    assert len(frames) == count * threads


async def test_what_is_told_after_the_loop_has_ended_troubles_no_thread() -> None:
    loop = asyncio.new_event_loop()
    outbox = Outbox(Sink(), 100, loop)
    outbox.append([b"x" * 200])
    outbox.want_room()
    loop.close()
    outbox.flush()
    assert outbox.size == 0
