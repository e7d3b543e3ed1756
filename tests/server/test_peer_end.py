"""The end of one peer: what threads are answering right now is waited for, and what they do not finish is told."""

from __future__ import annotations

import asyncio
import threading

import pytest
from session_world import Sink, until

from rrext.clock import LoopClock
from rrext.engine.host.host import Host
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.engine import Engine
from rrext.limits import DEFAULTS
from rrext.server.peer_end import DRAINED, Peer
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength


class Waiting(Engine):
    """Begins calls, and leaves it to the test to answer them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def start(self, call: Call, *, alone: bool = False) -> bool:
        self.calls.append(call)
        return True


class Silent:
    """Reads nothing."""

    has_more = False

    def stop(self) -> None: ...

    def unpause(self) -> None: ...


def ending_peer(sink: Sink) -> tuple[Peer, Call]:
    """A peer that ends while a thread has decided to answer its only call, and is not done."""
    loop = asyncio.get_running_loop()
    engine, framer = Waiting(), ContentLength(DEFAULTS)
    peer = Peer(
        engine,
        ServerConnection(framer, DEFAULTS),
        sink,
        host=Host(loop, limits=DEFAULTS, clock=LoopClock(loop)),
        limits=DEFAULTS,
        caller=Caller(connection_id="c"),
    )
    peer.reading = Silent()
    body = b'{"type":"request","seq":1,"command":"rrext_process","arguments":{"subcommand":"open"}}'
    buffer = framer.get_buffer()
    data = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    buffer[: len(data)] = data
    peer.session.handle_all(framer.buffer_updated(len(data)))
    (call,) = engine.calls
    assert call.claim()
    peer.end_within(0, "the test says so", DRAINED)
    return peer, call


@pytest.mark.promise("life:sigterm:bounded")
async def test_an_answer_that_a_thread_is_at_is_waited_for() -> None:
    sink = Sink()
    peer, call = ending_peer(sink)
    await until(lambda: peer.session.reports_answers and not peer.grace.left())
    threading.Thread(target=peer.session.succeed, args=(call, b"{}", None)).start()
    await peer.ended()
    assert b'"request_seq":1' in sink.taken
    assert peer.has_all


@pytest.mark.promise("life:sigterm:bounded")
async def test_an_answer_that_a_thread_does_not_finish_is_no_success() -> None:
    peer, _ = ending_peer(Sink())
    await peer.ended()
    assert not peer.has_all


@pytest.mark.promise("life:sigterm:bounded")
async def test_an_answer_that_nobody_read_is_no_success_after_the_close_either() -> None:
    peer, call = ending_peer(Sink(room=10))
    peer.session.succeed(call, b"{}", None)
    await peer.ended()
    assert peer.session.outbox.size == 0
    assert not peer.has_all


async def test_an_end_goes_on_when_all_its_tasks_are_cancelled() -> None:
    of_the_tests = asyncio.all_tasks()
    peer, call = ending_peer(Sink())
    for _ in range(5):
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - of_the_tests:
            task.cancel()
    threading.Thread(target=peer.session.succeed, args=(call, b"{}", None)).start()
    await peer.ended()
    assert peer.has_all
