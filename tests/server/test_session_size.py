"""What a connection costs while it does nothing."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from session_world import Sink

from rrext.engine.interface.call import Caller
from rrext.engine.local_engine import LocalEngine
from rrext.limits import DEFAULTS
from rrext.server.session import Session
from rrext.wire.connection import ServerConnection
from rrext.wire.framing import ContentLength

MANY = 100


async def cost(*, framed: bool) -> float:
    """Bytes per idle session that has answered `initialize`."""
    engine = LocalEngine()
    loop = asyncio.get_running_loop()

    def open_session(number: int) -> Session:
        connection = ServerConnection(ContentLength() if framed else None)
        caller = Caller(f"client-{number}")
        session = Session(
            engine, connection, Sink(), loop=loop, limits=DEFAULTS, caller=caller, now=loop.time, on_shutdown=lambda why: None
        )
        message = b'{"type":"request","seq":1,"command":"initialize"}'
        if connection.framer is None:
            session.handle_all([connection.receive_message(message)])
        else:
            framed_message = b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
            session.handle_all(connection.framer.receive_data(framed_message))
        session.outbox._sink.taken.clear()  # type: ignore[attr-defined] # the client's memory, not ours
        return session

    try:
        open_session(0)  # what is imported and cached once
        gc.collect()
        tracemalloc.start()
        try:
            sessions = [open_session(number + 1) for number in range(MANY)]
            gc.collect()
            return tracemalloc.get_traced_memory()[0] / len(sessions)
        finally:
            tracemalloc.stop()
    finally:
        await engine.aclose()


async def test_an_idle_session_without_framer_holds_at_most_8_kib() -> None:
    assert await cost(framed=False) <= 8 * 1024


async def test_an_idle_session_with_framer_holds_no_more_than_its_small_buffer_beside_that() -> None:
    assert await cost(framed=True) <= (8 + 12 + 1) * 1024
