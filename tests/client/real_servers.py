"""Clients of real servers: a server that the client spawns, and a server that listens for WebSockets."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from rrext.client.client import Client
from rrext.client.server_address import serve_command, server_env
from rrext.transports.process import ChildProcess

__all__ = ["ENV", "NODES", "PIPELINE", "joined", "spawned"]

HERE: Final = Path(__file__).resolve().parent
ENV: Final = {"PYTHONPATH": str(HERE.parents[1])}
NODES: Final = [HERE / "real_nodes.py"]
PIPELINE: Final = HERE / "real.pipe"


def spawned(*files: Path, **more: Any) -> Client:
    """A client that spawns a server, by default of the pipeline of this folder."""
    return Client.spawn(*(files or (PIPELINE,)), nodes=NODES, env=ENV, **more)


@asynccontextmanager
async def joined(*, args: Sequence[str] = (), **more: Any) -> AsyncIterator[Client]:
    """A client of a server that listens for WebSockets, and ends with it."""
    command = serve_command([PIPELINE], nodes=NODES, args=["--ws", "127.0.0.1:0", "--trust-clients", *args])
    said, ready = bytearray(), anyio.Event()

    def hear(piece: bytes) -> None:
        said.extend(piece)
        if b"listening at" in said and b"\n" in said:
            ready.set()

    process = ChildProcess(command, env=server_env(ENV), on_stderr=hear)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.drain_stderr)
            with anyio.fail_after(30):
                await ready.wait()
            async with Client.connect(said.decode().split()[3], **more) as client:
                yield client
            tasks.cancel_scope.cancel()
    finally:
        process.signal_group(signal.SIGTERM)
        await process.stop()
        process.close()
