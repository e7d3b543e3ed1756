"""Connections to MCP servers, and the processes that serve them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self

from free_ports import free_port

from rrext.clock import Clock, LoopClock
from rrext.connections import Connections
from rrext.limits import DEFAULTS, Limits
from rrext.providers.mcp.provider import McpProvider
from rrext.secrets.redaction import Redactor
from rrext.threads import Workers, in_thread
from rrext.tools.context import ToolContext

HERE = Path(__file__).resolve().parent
PATIENCE = 30.0
"""Seconds until something that does not happen is a failure."""


class Services:
    """What an engine does for providers."""

    def __init__(self, limits: Limits, redactor: Redactor, workers: Workers, clock: Clock) -> None:
        self.limits = limits
        self.redactor = redactor
        self.clock = clock
        self._workers = workers
        self._tasks: set[asyncio.Task[None]] = set()

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await in_thread(self._workers, function, *args)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        return task


class ValueProvider(McpProvider):
    """A provider whose calls give values, as callers get them that ask for no content."""

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return (await super().call(tool, arguments, ctx)).value


class Connect:
    """Makes a provider of a connection named `outside`: `connect(command=…)` or `connect(url=…)`."""

    def __init__(self) -> None:
        self.redactor = Redactor()
        self._workers = Workers()
        self._clock = LoopClock(asyncio.get_running_loop())
        self._made: list[McpProvider] = []

    def __call__(self, *, limits: Limits = DEFAULTS, variables: dict[str, str] | None = None, **table: Any) -> McpProvider:
        connections = Connections.of({"outside": {"provider": "mcp", **table}}, variables)
        connections.known_to(self.redactor)
        services = Services(limits, self.redactor, self._workers, self._clock)
        self._made.append(ValueProvider(connections.find("outside", "mcp"), services))
        return self._made[-1]

    async def aclose(self) -> None:
        for provider in self._made:
            await provider.aclose()
        self._workers.stop()


def hand_written(code: str, folder: Path) -> list[str]:
    """The command of a server with this code below `from line_server import *`."""
    file = folder / "server.py"
    head = f"import os, signal, sys, time\nsys.path.insert(0, {str(HERE)!r})\nfrom line_server import *\n"
    file.write_text(head + textwrap.dedent(code))
    return [sys.executable, str(file)]


class HttpServer:
    """A process that serves Streamable HTTP: `python PROGRAM http PORT`."""

    def __init__(self, program: Path = HERE / "mcp_servers.py") -> None:
        self._program = program
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/mcp"
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        command = [sys.executable, str(self._program), "http", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return self
            time.sleep(0.02)
        raise AssertionError("the server does not listen")

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()


async def wait_for_text(path: Path, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text_of(path) != text:
            await asyncio.sleep(0.01)


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as status:
            return status.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
