"""An MCP server that is a child process: one JSON text per line on its stdin and stdout."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
import msgspec
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from rrext.errors import Unavailable
from rrext.limits import KIB, MIB, READ_BUFFER
from rrext.providers.mcp.failures import RESULT_TOO_LARGE
from rrext.providers.mcp.server_log import ServerLog
from rrext.providers.mcp.stdin_outbox import StdinOutbox
from rrext.providers.mcp.stdout import LineReader, LongLine, StdoutInbox, answered_id
from rrext.providers.mcp.transport import McpTarget, Transport
from rrext.transports.process import ChildProcess

CLOSE_PATIENCE: Final = 1.0
"""Seconds that a server gets to end after the end of its stdin, and again after SIGTERM, before it is killed."""

MAX_SKIPPED: Final = 1024 * MIB
"""Bytes of one line that are read and thrown away; of a longer line the end is not awaited."""
STDERR_TAIL: Final = 4 * KIB
"""Bytes of a server's stderr, kept for the error when the server ends."""
EXIT_WAIT: Final = 0.5
"""Seconds for the exit code and the last words of a server that closed its stdout."""

KEPT: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""Variables of our environment that a server gets: those with which programs find their files and their language."""
_GUARD: Final = 'read -r released || kill -s KILL -- "-$1"'

log = logging.getLogger(__name__)


class StdioTransport(Transport):
    """A running server with its messages both ways."""

    def __init__(self, target: McpTarget, process: ChildProcess, guard: OrphanGuard, server_log: ServerLog) -> None:
        super().__init__()
        self.inbox = StdoutInbox()
        self.outbox = StdinOutbox(process)
        self._target = target
        self._process = process
        self._guard = guard
        self._log = server_log
        self._buffer = memoryview(bytearray(READ_BUFFER))
        self._lines = LineReader(target.max_message)
        self._stderr_ended = anyio.Event()
        self._stdout_ended = False
        self._reads = 0
        self._reading = anyio.CancelScope()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve the pipes of the server during the block; then end the server."""
        try:
            async with anyio.create_task_group() as tasks:
                for run in (self._read, self._listen, self._give_up, self._outlive, self.outbox.run):
                    tasks.start_soon(run)
                try:
                    yield
                finally:
                    self.inbox.close()  # a server that is stuck in writing must be read, or it never ends
                    await self._process.stop(CLOSE_PATIENCE)
                    self.end("the connection was closed")
                    tasks.cancel_scope.cancel()
        finally:
            self._process.close()
            with anyio.CancelScope(shield=True):
                await self._target.services.in_thread(self._guard.release)

    async def _read(self) -> None:
        """Read the server's stdout to its end, and note how the server ended."""
        how: str | None = "it closed its stdin"
        try:
            with self._reading:
                await self._process.pump(self)
                how = None
            if self._process.returncode is not None:
                how = None
        except _EndlessLine as error:
            how = str(error)
        except OSError as error:
            how = f"its stdout cannot be read: {error.strerror}"
        self._stdout_ended = True
        self.inbox.end()  # which fails the calls
        if how is None:
            with anyio.move_on_after(EXIT_WAIT):
                await self._process.wait()
                await self._stderr_ended.wait()
        self._note_end(how)

    async def _give_up(self) -> None:
        """Read no more from a server that does not read either: mostly it has ended, and its stdout ends by itself."""
        await self.outbox.broken.wait()
        await anyio.sleep(EXIT_WAIT)
        self._reading.cancel()

    async def _outlive(self) -> None:
        """Read no more from a server that has ended, once nothing comes: a child of it may hold its stdout open for long."""
        await self._process.wait()
        before = -1
        while before != self._reads:
            before = self._reads
            await anyio.sleep(EXIT_WAIT)
        self._reading.cancel()

    async def _listen(self) -> None:
        """Read the server's stderr to its end."""
        with suppress(OSError, anyio.ClosedResourceError):
            await self._process.drain_stderr()
        self._log.end()
        self._stderr_ended.set()

    def _note_end(self, how: str | None) -> None:
        code = self._process.returncode if how is None else None
        data: dict[str, Any] = {} if code is None else {"exitCode": code}
        words, said = self.last_words()
        self.end((how or _how(code)) + words, data | said)

    def last_words(self) -> tuple[str, dict[str, Any]]:
        tail = self._process.stderr_tail
        if len(tail) >= STDERR_TAIL:
            tail = f"…{tail}"  # a secret that is cut there is recognised by this sign
        stderr = self._target.redact(tail).strip()
        return (f". The end of its stderr:\n{stderr}", {"stderr": stderr}) if stderr else ("", {})

    @property
    def is_ending(self) -> bool:
        return self._stdout_ended or self.outbox.broken.is_set() or self.lost.is_set()

    def get_buffer(self, hint: int = READ_BUFFER) -> memoryview:
        return self._buffer

    def buffer_updated(self, n: int) -> anyio.Event | None:
        self._reads += 1
        for line in self._lines.feed(bytes(self._buffer[:n])):
            if isinstance(line, LongLine):
                self._refuse(line)
            elif line and not line.isspace():
                self._take(line)
        if self._lines.skipped > MAX_SKIPPED:
            raise _EndlessLine(f"it sent a line of more than {MAX_SKIPPED:,} bytes")
        return self.inbox.room()

    def _take(self, line: bytes) -> None:
        try:
            message = _message(line)
        except (ValueError, msgspec.DecodeError, RecursionError):
            request_id = answered_id(line, line)
            if request_id is None:
                self._log.line("stdout", line[:READ_BUFFER].decode("utf-8", "replace"))
            else:
                self._answer(request_id, INTERNAL_ERROR, "the answer is no valid JSON-RPC")
        else:
            self.inbox.put(SessionMessage(message))

    def _refuse(self, line: LongLine) -> None:
        request_id = answered_id(line.head, line.tail)
        text = f"{line.size:,} bytes, more than the {self._target.max_message:,} bytes of a message"
        if request_id is None:
            raise _EndlessLine(f"it sent a line of {text}")
        self._answer(request_id, RESULT_TOO_LARGE, f"the answer has {text}")

    def _answer(self, request_id: int | str, code: int, message: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))
        self.inbox.put(SessionMessage(error))


def _message(line: bytes) -> JSONRPCMessage:
    """The message of a line. Results take a short way past the SDK's models, which would read them twice."""
    match msgspec.json.decode(line):
        case {"jsonrpc": "2.0", "id": int() | str() as number, "result": dict() as result, **rest} if not rest:
            return JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=result)
        case found:
            return jsonrpc_message_adapter.validate_python(found, by_name=False)


class _EndlessLine(Exception):
    """A line that cannot be skipped."""


def _how(code: int | None) -> str:
    if code is None:
        return "it closed its stdout"
    if code < 0:
        return f"it was killed by {signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'}"
    return f"it ended with exit code {code}"


class OrphanGuard:
    """A small shell that kills a server after our end, however we ended.

    Its stdin ends with this process, even by SIGKILL; a server that ignores the end of its own stdin is killed then.
    """

    def __init__(self, group: int) -> None:
        """Guard a process group; where no shell can be started, without effect."""
        self._shell: subprocess.Popen[bytes] | None = None
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "sh", str(group)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as error:
            log.debug("no guard for the process group %d: %s", group, error)

    def release(self) -> None:
        """The group has ended: end the guard too, in a thread."""
        if self._shell is not None:
            self._shell.communicate(b"\n")


def start(target: McpTarget, variables: Mapping[str, str]) -> tuple[ChildProcess, OrphanGuard, ServerLog]:
    """Start a server, in a thread. Its environment has no variables of ours beside `KEPT`. Raises `Unavailable`."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ} | dict(variables)
    server_log = ServerLog(target.name, target.redact)
    try:
        process = ChildProcess(target.command, env=environment, on_stderr=server_log.piece, stderr_tail=STDERR_TAIL)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        hint = "Name a program that is installed, with its whole path if it is not in PATH."
        raise Unavailable(f"{target.command[0]} cannot be started: {reason}", hint=hint) from None
    return process, OrphanGuard(process.pid), server_log
