"""A client and an engine, connected in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio

from rrext.client.client import Client
from rrext.engine.local_engine import LocalEngine
from rrext.testing.sessions import MemorySession, PipeSession

SESSIONS = {"memory": MemorySession, "pipes": PipeSession}


@asynccontextmanager
async def pair(
    engine: LocalEngine,
    *,
    over: Literal["memory", "pipes"] = "memory",
    dialect: Literal["dap", "jsonrpc"] = "dap",
    context: Mapping[str, Any] | None = None,
    trusted: bool = True,
) -> AsyncIterator[Client]:
    """A `Client` of an engine in this process, on asyncio, with the behaviour of a spawned server.

    `over` selects the transport: memory, entirely on the event loop, or two pipes of the system, as to a process. A client that
    is not `trusted` gets no texts of exceptions. The engine stays open at the end.
    """
    session = SESSIONS[over](engine, trusted=trusted)
    serving = engine.host.spawn(session.run(), "pair")
    try:
        async with Client.over(session.client_end, dialect=dialect, context=context) as client:
            yield client
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([serving], timeout=engine.limits.drain)
