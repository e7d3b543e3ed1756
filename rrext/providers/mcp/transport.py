"""`McpTarget` and `Transport`: where an MCP server is, what carries the messages of a link to it, and how it ended, in words
that a person can act on.

The transport of a server that is a child process has one JSON text per line on its stdin and stdout: `LineReader` cuts the
stdout into lines of bounded size, `StdoutInbox` hands messages to the session, `StdinOutbox` carries them to the stdin, and
`ServerLog` puts the other output of a server into our log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from types import TracebackType
from typing import Any, Final

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from rrext.connections import Connection, McpSettings
from rrext.errors import ResultTooLarge, RrextError, ToolError, Unavailable
from rrext.limits import KIB, MIB, READ_BUFFER
from rrext.providers.provider import ProviderServices
from rrext.transports.descriptor_channel import Buffer, FdChannel
from rrext.transports.process import ChildProcess

MESSAGE_FACTOR: Final = 2
"""A message may be this many times as large as `max_result`: escapes in JSON, and base64 of bytes, make it larger."""


class McpTarget:
    """The server of one connection: a `command`, or the `url` of Streamable HTTP."""

    def __init__(self, connection: Connection, services: ProviderServices) -> None:
        settings = connection.settings
        assert isinstance(settings, McpSettings)
        self.name = connection.name
        self.timeout = connection.timeout
        self.services = services
        self.command = settings.command
        self.url = settings.url or ""
        self.max_message = services.limits.max_result * MESSAGE_FACTOR
        self._secrets = settings.env if settings.command else settings.headers

    def reveal(self) -> dict[str, str]:
        """The environment of the command, or the headers of requests. Reads the secrets: call it in a thread."""
        return {name: secret.reveal() for name, secret in self._secrets.items()}

    def redact(self, text: str) -> str:
        """A text of the server without secrets."""
        return self.services.redactor.text(text)


class Transport:
    """`lost` is set when no message can come any more."""

    def __init__(self) -> None:
        self.lost = anyio.Event()
        self._how = "the connection was closed"
        self._data: dict[str, Any] = {}

    @property
    def is_ending(self) -> bool:
        """Whether the server answers no more; how it ended is known soon."""
        return self.lost.is_set()

    def end(self, how: str, data: dict[str, Any] | None = None) -> None:
        """Note how the server ended; the first note counts."""
        if not self.lost.is_set():
            self._how, self._data = how, data or {}
            self.lost.set()

    async def ending(self) -> tuple[str, dict[str, Any]]:
        """How the server ended, as the end of a sentence, and JSON values for programs. Waits until that is known."""
        await self.lost.wait()
        return self._how, self._data

    async def end_report(self) -> tuple[str, str, dict[str, Any]]:
        """How a server ended, or the last words of one that did not, as the end of a sentence; and JSON values."""
        if self.is_ending:
            how, data = await self.ending()
            return how, "", data
        return ("", *self.last_words())

    def last_words(self) -> tuple[str, dict[str, Any]]:
        """The end of its stderr, if there is any, as a sentence and as JSON values."""
        return "", {}


MAX_QUOTED: Final = 2000
"""Characters of a text of the server in the message of an error."""

RESULT_TOO_LARGE: Final = -31_001
"""The number by which our transports report a message over the limit to the session: outside of all reserved ranges."""

UNREACHABLE: Final = -31_002
"""The number for a request that no server got."""

BROKEN: Final = -31_003
"""The number for a request whose answer got lost on its way."""


def cut(text: str) -> str:
    """A text of a server, short enough for a message."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def of_answer(connection: str, code: int, message: str, data: Any) -> RrextError:
    """The error for a call that the server answered with an error of JSON-RPC."""
    of = f'the MCP server of connection "{connection}"'
    if code == RESULT_TOO_LARGE:
        return ResultTooLarge(f"{of} sent too much: {message}", data={"limit": "max_result"})
    if code == UNREACHABLE:
        return Unavailable(f"{of} is not available: {message}", hint="Check the URL of this connection, and its server.")
    found: dict[str, Any] = {"mcpCode": code}
    if data is not None:
        found["mcpData"] = data
    return ToolError(f"{of} answered error {code}: {cut(message)}", data=found)


def of_lost(connection: str, how: str, data: dict[str, Any]) -> ToolError:
    """The error for a call whose server ended before it answered."""
    return ToolError(
        f'the MCP server of connection "{connection}" was lost during this call: {how}',
        hint="The tool may have run. The next call connects again.",
        data={"connection": connection, **data},
    )


def of_connecting(
    connection: str, error: BaseException, how: str = "", last_words: str = "", data: dict[str, Any] | None = None
) -> RrextError:
    """The one error for a connection that could not be made. `how` its server ended, if it did; else its `last_words`."""
    causes = tuple(_causes(error))
    hint = "Check the command or URL of this connection, and its server."
    said = dict.fromkeys(" ".join(str(cause).split()) or type(cause).__name__ for cause in causes)  # the SDK quotes pages
    text = how or cut("; ".join(said))
    for cause in causes:
        if isinstance(cause, RrextError):
            if "connection" in cause.data:
                return cause
            text, hint = cause.message, cause.hint or hint
        elif isinstance(cause, TimeoutError):
            text = "it did not answer in time"
            hint = "Check that the command or URL is that of an MCP server; a slow one needs a longer timeout."
    return Unavailable(
        f'the MCP server of connection "{connection}" is not available: {text}{last_words}',
        hint=hint,
        data={"connection": connection, **(data or {})},
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors within groups of errors."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


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
                for run in (self._read, self._listen, self._stop_reading, self._outlive, self.outbox.run):
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

    async def _stop_reading(self) -> None:
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


LINE_ENDS: Final = 256
"""Bytes kept of both ends of a line that is too long, in which its id is looked for."""

INBOX_LENGTH: Final = 64
"""Messages that wait for the session before the server is not read any more."""

MESSAGES_PER_TURN: Final = 16
"""Messages of one server that are handled in one iteration of the loop."""

_ID: Final = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,64}")\s*'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ANSWER: Final = rb'"(?:result|error)"\s*:'
_ID_FIRST: Final = re.compile(rb"\s*\{\s*(?:%b,\s*)?%b,\s*%b" % (_VERSION, _ID, _ANSWER))
_ANSWER_FIRST: Final = re.compile(rb"\s*\{\s*(?:%b,\s*)?%b" % (_VERSION, _ANSWER))
_ID_LAST: Final = re.compile(rb"%b(?:,\s*%b)?\}\s*\Z" % (_ID, _VERSION))


class LongLine(msgspec.Struct, frozen=True):
    """Stands in place of a line over the limit: its size, and the bytes at its ends."""

    size: int
    head: bytes
    tail: bytes


class LineReader:
    """Holds the beginning of an unfinished line, at most `limit` bytes; of a longer line only its ends."""

    __slots__ = ("_head", "_limit", "_line", "_skipped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._head = b""
        self._skipped = 0

    @property
    def skipped(self) -> int:
        """Bytes of the present line that were thrown away; 0 for a line within the limit."""
        return self._skipped

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        """Take bytes as they come, and return the lines that they finish, without line feeds."""
        *ends, rest = data.split(b"\n")
        lines: list[bytes | LongLine] = []
        for end in ends:
            if self._line or self._skipped:
                self._add(end)
                lines.append(self._finished())
            elif len(end) <= self._limit:
                lines.append(end)
            else:
                lines.append(LongLine(len(end), end[:LINE_ENDS], end[-LINE_ENDS:]))
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._line += piece
        if self._skipped == 0 and len(self._line) <= self._limit:
            return
        if self._skipped == 0:
            self._head = bytes(self._line[:LINE_ENDS])
        cut = max(0, len(self._line) - LINE_ENDS)
        self._skipped += cut
        del self._line[:cut]

    def _finished(self) -> bytes | LongLine:
        line, self._line = bytes(self._line), bytearray()
        skipped, self._skipped = self._skipped, 0
        return LongLine(skipped + len(line), self._head, line) if skipped else line


def answered_id(head: bytes, tail: bytes) -> int | str | None:
    """The id of the request that an unreadable message answers, found at its ends; None if that is not certain."""
    found = _ID_FIRST.match(head)
    if found is None and _ANSWER_FIRST.match(head):
        found = _ID_LAST.search(tail)
    return None if found is None else msgspec.json.decode(found[1])


class StdoutInbox:
    """A stream as the SDK reads it, filled by plain calls: an answer reaches the session without a task in between."""

    __slots__ = ("_is_closed", "_is_ended", "_messages", "_room", "_turn", "_waiter")

    def __init__(self) -> None:
        self._messages: deque[SessionMessage | Exception] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._room: anyio.Event | None = None
        self._turn = 0
        self._is_ended = self._is_closed = False

    def put(self, message: SessionMessage) -> None:
        """Add a message; after `close` it is dropped."""
        if not self._is_closed:
            self._messages.append(message)
            self._wake()

    def end(self) -> None:
        """Nothing more comes."""
        self._is_ended = True
        self._wake()

    def close(self) -> None:
        """Nobody reads any more."""
        self._is_closed = True
        self._messages.clear()
        self._make_room()
        self.end()

    def room(self) -> anyio.Event | None:
        """None while there is room, else an event that is set when there is room again."""
        if len(self._messages) <= INBOX_LENGTH:
            return None
        self._room = self._room or anyio.Event()
        return self._room

    async def receive(self) -> SessionMessage | Exception:
        """The next message. Raises `EndOfStream` after the last."""
        self._turn += 1
        if self._turn % MESSAGES_PER_TURN == 0:  # a flood must not keep the loop from other tasks
            await checkpoint()
        while not self._messages:
            if self._is_ended:
                raise anyio.EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        message = self._messages.popleft()
        if not self._messages:
            self._make_room()
        return message

    async def aclose(self) -> None:
        self.close()

    def __aiter__(self) -> StdoutInbox:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> StdoutInbox:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None


MAX_BACKLOG: Final = 32 * MIB
"""Bytes that wait for a server that does not read its stdin, before further calls fail."""

_encode = msgspec.json.Encoder(enc_hook=lambda model: model.model_dump(by_alias=True, exclude_unset=True)).encode


class StdinOutbox:
    """A stream as the SDK writes it. A message is written at once if the pipe has room; else `run` writes it later.

    `send` never waits, so that a cancelled call cannot leave half a line in the pipe.
    """

    __slots__ = ("_backlog", "_channel", "_is_writing", "_size", "_wake", "broken")

    def __init__(self, channel: FdChannel) -> None:
        self.broken = anyio.Event()
        """Set when the server reads no more."""
        self._channel = channel
        self._backlog: list[Buffer] = []
        self._size = 0
        self._is_writing = False
        self._wake = anyio.Event()

    async def send(self, item: SessionMessage) -> None:
        """Write a message. Raises `BrokenResourceError` after the end of the server, `Unavailable` for a request to a
        server that has not read its stdin for long."""
        message = item.message
        data = _encode({name: getattr(message, name) for name in message.model_fields_set}) + b"\n"
        pieces: list[Buffer] = [data]
        if not self._is_writing:
            try:
                pieces = self._channel.write_now(pieces)
            except anyio.BrokenResourceError:
                self.broken.set()
                raise
            if not pieces:
                return
        elif self._size > MAX_BACKLOG and isinstance(message, JSONRPCRequest):
            raise Unavailable(f"the MCP server does not read its stdin: {self._size:,} bytes wait for it")
        elif self._size > 2 * MAX_BACKLOG:
            return  # answers to a server that asks without end; cancels are few, as each has its request
        self._backlog += pieces
        self._size += sum(map(len, pieces))
        self._is_writing = True
        self._wake.set()

    async def run(self) -> None:
        """Write what found no room. Ends when the server reads no more."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            try:
                while self._backlog:
                    pieces, self._backlog, self._size = self._backlog, [], 0
                    await self._channel.write(pieces)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.broken.set()
                return
            self._is_writing = False

    async def aclose(self) -> None:
        """The pipe belongs to the process, which closes it."""

    async def __aenter__(self) -> StdinOutbox:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        return None


LOGGED_LINES: Final = 100
"""Lines of a server's stderr and of other text on its stdout that are logged in `LOGGED_TIME`; the rest is counted."""

LOGGED_TIME: Final = 10.0
"""Seconds to which `LOGGED_LINES` applies."""

LOGGED_LINE: Final = 2000
"""Characters of one logged line."""

server_log = logging.getLogger("rrext.providers.mcp")


class ServerLog:
    """Logs whole lines of bounded size and number, without secrets; the lines beyond that number are counted."""

    def __init__(self, connection: str, redact: Callable[[str], str]) -> None:
        self._connection = connection
        self._redact = redact
        self._rest = ""
        self._begun = 0.0
        self._count = 0

    def piece(self, data: bytes) -> None:
        """A piece of the server's stderr, cut anywhere."""
        *lines, rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        self._rest = rest[: 2 * LOGGED_LINE]  # the rest of a long line is left out, and no secret is cut into two lines
        for line in lines:
            self.line("stderr", line)

    def end(self) -> None:
        """The end of the server's stderr."""
        self.line("stderr", self._rest)

    def line(self, origin: str, text: str) -> None:
        """A line that the server wrote to `origin`."""
        text = text[: 2 * LOGGED_LINE].strip()  # before the redaction, which takes time, and with room for cut secrets
        if not text:
            return
        if monotonic() - self._begun > LOGGED_TIME:
            if self._count > LOGGED_LINES:
                server_log.warning("connection %s: %d more lines were not logged", self._connection, self._count - LOGGED_LINES)
            self._begun, self._count = monotonic(), 0
        self._count += 1
        if self._count <= LOGGED_LINES:
            server_log.info("connection %s, %s: %s", self._connection, origin, self._redact(text)[:LOGGED_LINE])
