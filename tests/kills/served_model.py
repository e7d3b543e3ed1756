"""A server for the random model, and its connections on each way: bytes as they travel, without rrext's client."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from killing import HERE, descendants
from listening_server import PATIENCE

WAYS = ("stdio", "unix", "ws", "process")
TASKS = {"model": "model", "later": "model_later"}
"""Token → provider, of the pipelines that the operator names."""
LIMITS = {"outbox_bytes": 200_000}
"""A reader that stalls is a slow one soon."""
WITH_LIMITS = """
import json, sys, msgspec, rrext.limits
rrext.limits.DEFAULTS = msgspec.structs.replace(rrext.limits.DEFAULTS, **json.loads(sys.argv.pop(1)))
from rrext.tasks import remote_tasks
remote_tasks.LAST_RELOAD_DELAY = 1.0  # many kills in a row leave the pipeline not away for longer than a test waits
from rrext.cli.main import main
sys.exit(main())
"""

Message = dict[str, Any]


def pipeline(provider: str, project: str) -> dict[str, Any]:
    """A pipeline with one node of the model."""
    source = {"id": "webhook_1", "provider": "webhook", "config": {"mode": "Source", "type": "webhook"}}
    node = {"id": "model_1", "provider": provider, "config": {}, "input": [{"lane": "tags", "from": "webhook_1"}]}
    return {"components": [source, node], "source": "webhook_1", "project_id": project, "version": 1}


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_web: bool = False) -> None:
        self._reader = reader
        self._writer = writer
        self._is_web = is_web

    async def open(self) -> None:
        """Open the WebSocket, if it is one."""
        if self._is_web:
            self._writer.write(
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            head = await self._reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 "), head

    def send(self, message: Message) -> None:
        """Send a message; what the server does not read yet waits here."""
        body = json.dumps(message).encode()
        size = len(body)
        if not self._is_web:
            head = b"Content-Length: %d\r\n\r\n" % size
        elif size < 126:
            head = bytes((0x81, 0x80 | size)) + bytes(4)  # the mask is zero
        elif size < 1 << 16:
            head = b"\x81\xfe" + size.to_bytes(2, "big") + bytes(4)
        else:
            head = b"\x81\xff" + size.to_bytes(8, "big") + bytes(4)
        self._writer.write(head + body)

    async def receive(self) -> Message | None:
        """The next message; None at the end."""
        try:
            while True:
                found = await (self._web_message() if self._is_web else self._framed_message())
                if found is not None:
                    return json.loads(found)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _framed_message(self) -> bytes:
        head = await self._reader.readuntil(b"\r\n\r\n")
        return await self._reader.readexactly(int(head.partition(b":")[2]))

    async def _web_message(self) -> bytes | None:
        opcode, size = await self._reader.readexactly(2)
        more = {126: 2, 127: 8}.get(size, 0)
        if more:
            size = int.from_bytes(await self._reader.readexactly(more), "big")
        payload = await self._reader.readexactly(size)
        return payload if opcode == 0x81 else None

    def kill(self) -> None:
        """Be gone, with all that is on its way."""
        self._writer.transport.abort()

    def end(self) -> None:
        """Send nothing more."""
        self._writer.close()


class Server:
    """The process. `log` is what it says on stderr."""

    def __init__(self, way: str, folder: Path) -> None:
        self.way = way
        self.log = ""
        self.runs_workers = way == "process"
        self._folder = folder
        self._listens = asyncio.Event()
        self.process: asyncio.subprocess.Process

    async def start(self) -> None:
        """Return when clients can connect."""
        files = []
        for token, provider in TASKS.items():
            files.append(self._folder / f"{token}.pipe")
            files[-1].write_text(json.dumps(pipeline(provider, token)))
        where = {"stdio": [], "unix": ["--listen", f"unix:{self._folder / 's'}"]}.get(self.way, ["--ws", "127.0.0.1:0"])
        trust = ["--trust-clients"] if self.way in ("ws", "process") else []
        isolation = ["--isolation", "process" if self.runs_workers else "none"]
        options = ["--drain", "0.2", "--pipe-idle", "600", "--nodes", HERE / "model_nodes.py"]
        command = ["-c", WITH_LIMITS, json.dumps(LIMITS), "serve", *options, *where, *trust, *isolation, *files]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        self._hears = asyncio.create_task(self._hear())
        if self.way != "stdio":
            async with asyncio.timeout(PATIENCE):
                await self._listens.wait()

    async def _hear(self) -> None:
        assert self.process.stderr is not None
        while piece := await self.process.stderr.read(1 << 16):
            self.log += piece.decode(errors="replace")
            if "listening at" in self.log and self.log.endswith("\n"):
                self._listens.set()
        self._listens.set()

    async def connect(self) -> Line:
        """A connection; on stdio the only one."""
        if self.way == "stdio":
            assert self.process.stdout is not None
            assert self.process.stdin is not None
            return Line(self.process.stdout, self.process.stdin)
        if self.way == "unix":
            reader, writer = await asyncio.open_unix_connection(self._folder / "s")
            return Line(reader, writer)
        found = re.search(r"listening at \S+:(\d+)", self.log)
        assert found is not None, self.log
        line = Line(*await asyncio.open_connection("127.0.0.1", int(found[1])), is_web=True)
        await line.open()
        return line

    async def end(self) -> list[int]:
        """End it, and what of its processes is left."""
        below = descendants(self.process.pid)
        if self.way != "stdio":
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await self.process.wait()
            await self._hears
            while left := [pid for pid in below if lives(pid)]:
                await asyncio.sleep(0.01)
        return left

    def kill(self) -> None:
        """End it, however it is."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "XZ"
    except OSError:
        return False


@asynccontextmanager
async def served(way: str, folder: Path) -> AsyncIterator[Server]:
    """A server."""
    server = Server(way, folder)
    await server.start()
    try:
        yield server
    finally:
        server.kill()
        await server.process.wait()
