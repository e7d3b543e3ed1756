"""What a call of an external MCP server costs through rrext, beside the SDK's own client: each has a server of its own."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench_client import ServerGone
from bench_sdk import BLOCK, take_turns, timed
from bench_subject import ADD, SUM, Figures, Size, Subject, check, on_one_core, same_core

HERE = Path(__file__).resolve().parent
SERVER = [sys.executable, str(HERE / "servers" / "mcp_python.py")]


def outside_calls(subject: Subject, size: Size) -> Figures:
    """Both on one core: what counts is all the work that a call needs, here and in the server."""
    with tempfile.TemporaryDirectory() as folder, on_one_core():
        connections = Path(folder) / "connections.toml"
        connections.touch(0o600)
        connections.write_text(f"[bench]\nprovider = 'mcp'\ncommand = {SERVER!r}\n")
        command = [*subject.command[:-1], "--connections", str(connections), str(HERE / "outside.pipe")]
        try:
            return asyncio.run(both(Subject("outside", command, subject.dialect), size.calls // BLOCK))
        except ExceptionGroup as group:  # the SDK wraps what goes wrong beside its client
            raise ServerGone(f"{group}: {group.exceptions}") from group


async def both(subject: Subject, turns: int) -> Figures:
    from mcp import Client, StdioServerParameters

    async with AsyncExitStack() as stack:
        server = stack.enter_context(subject.start(seconds=300, cpus=same_core()))
        alone = await stack.enter_async_context(Client(StdioServerParameters(command=SERVER[0], args=SERVER[1:])))
        requests = server.frames(BLOCK, "add", ADD)

        async def through_rrext() -> list[float]:
            return server.latencies(requests)

        async def call() -> Any:
            return await alone.call_tool("add", {"a": 1, "b": 2})

        check(server.call("add", ADD), SUM)
        check((await call()).structured_content, SUM)
        return await take_turns({"through rrext": through_rrext, "SDK client alone": timed(call)}, turns)
