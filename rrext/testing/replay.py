"""Plays a recording to a server: each request when all has come that had come before it, each answer compared with its own."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import TaskGroup

from rrext.client.channels import GONE, Channel
from rrext.errors import UsageError
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS
from rrext.pipefile.text.problems import parts_of, value_at
from rrext.server.journal.trace_file import (
    RawTail,
    RecordedAnswer,
    RecordedEnd,
    RecordedEvent,
    RecordedLine,
    RecordedRefusal,
    RecordedRequest,
)
from rrext.server.recording import error_members, masked_body, put_back
from rrext.testing.expectations import Difference
from rrext.testing.likeness import Likeness, Number, RunLikeness, numbers_in, without_calls
from rrext.transports.descriptor_channel import FdChannel
from rrext.wire.connection import ClientConnection
from rrext.wire.dialect import DialectName
from rrext.wire.framing import ContentLength
from rrext.wire.messages import MAX_ID, Event, Fatal, Malformed, RequestId, Response

RECEIVED: Final = msgspec.structs.replace(DEFAULTS, max_frame=CLIENT_DEFAULTS.max_frame)
"""The limits of incoming messages."""

STATUS_COMMANDS: Final = frozenset({"rrext_get_task_status", "rrext_dashboard", "rrext_list_connections", "rrext_list_tasks"})
"""Commands that tell the state of a server, which is another one: their answers are not compared."""

ENDINGS: Final = frozenset({"shutdown", "disconnect"})
"""Requests that end a connection, and are answered after that."""

ENDS_OF_INPUT: Final = frozenset({"end of stdin", "end of input"})
"""Ends of a client that sends no more, and still reads."""

ENDS_OF_GAPS: Final[dict[Any, dict[str, Any]]] = {"close": {}, "fs_close": {"discard": True}}
"""Subcommands that end what numbers stand for, with the arguments that keep nothing of a file with a gap."""

STOPPED: Final = frozenset({"cancelled", "tool_timeout", "shutting_down"})
"""Codes of calls that were stopped: how far they had come depends on the moment."""

MOST_PAUSE: Final = 60.0
"""Seconds that calls in flight are left before the next request: clocks that are set make longer pauses."""

MOST_SHOWN: Final = 20
"""Differences of an answer that are told."""

Connect = Callable[[str], Awaitable[Channel]]
"""Opens a channel to the server for a connection of the recording, by its id."""

Tell = Callable[[str, list[str]], object]
"""Takes a headline, and the sentences below it."""


class ReplayCounts(msgspec.Struct):
    """How a replay went: requests that were played and not, answers that differ, and what was not compared."""

    played: int = 0
    skipped: int = 0
    differ: int = 0
    too_large: int = 0
    unanswered: int = 0
    of_states: int = 0


class ReplayedRequest(msgspec.Struct):
    """A request of the recording, with what it and its replay brought. `reason` says why it is not played."""

    line: RecordedRequest
    reason: str | None = None
    recorded: dict[str, list[RecordedEvent]] = {}
    replayed: dict[str, list[dict[str, Any]]] = {}
    answer: Response | None = None
    is_late: bool = False

    @property
    def label(self) -> str:
        """The request as people name it: `tool files_1.read_file`."""
        given = arguments_of(self.line)
        words = [str(given.get("subcommand") or self.line.command)]
        if tool := given.get("tool"):
            words.append(f"{given['nodeId']}.{tool}" if given.get("nodeId") else str(tool))
        return " ".join(words)


class ReplayedConnection:
    """A connection to the server, with the dialect and the ids of a recorded one."""

    def __init__(self, channel: Channel, dialect: DialectName, run: RunLikeness) -> None:
        framer: ContentLength[Any] = ContentLength(RECEIVED)
        self._channel = channel
        self._wire = ClientConnection(framer, dialect, RECEIVED)
        self.get_buffer = framer.get_buffer
        self.likeness = Likeness(run)
        self.exchanges: dict[RequestId, ReplayedRequest] = {}
        self.gaps: dict[Number, str] = {}
        """Pipes and files, by their recorded numbers, of which a request was not played, with the first such request."""
        self.is_over = False
        self._changed = anyio.Event()
        self._reading = anyio.CancelScope()
        self._has_read = anyio.Event()

    @property
    def waiting(self) -> list[ReplayedRequest]:
        """The requests that were played, and have no answer yet in the recording."""
        return [exchange for exchange in self.exchanges.values() if exchange.reason is None]

    def exchange_of(self, request_id: Any) -> ReplayedRequest | None:
        """The request in flight with an id that a message names, whatever stands there."""
        return self.exchanges.get(request_id) if isinstance(request_id, int | str) else None

    async def pump(self) -> None:
        """Take what comes, until the connection ends."""
        try:
            with self._reading, suppress(*GONE):
                await self._channel.pump(self)
        finally:
            self.is_over = True
            self._changed.set()
            self._has_read.set()

    def buffer_updated(self, n: int) -> anyio.Event | None:
        """Take the messages that are complete."""
        for message in self._wire.framer.buffer_updated(n):
            self._take(message)
        self._changed.set()
        return None

    def _take(self, message: Any) -> None:
        if isinstance(message, Event):
            if (exchange := self.exchange_of(message.body.get("request"))) is not None:
                exchange.replayed.setdefault(message.name, []).append(message.body)
        elif isinstance(message, Response) and message.id is not None:
            if (exchange := self.exchanges.get(message.id)) is not None:
                exchange.answer = message
        elif isinstance(message, Malformed) and message.id is not None:
            if (exchange := self.exchanges.get(message.id)) is not None:
                exchange.answer = Response(message.id, None, None, message.error)
        elif isinstance(message, Fatal):
            self.is_over = True

    async def send(self, request_id: RequestId | None, command: str, arguments: dict[str, Any], tail: bytes | None) -> None:
        """Send a request. Raises `UsageError` for one that cannot be sent."""
        pieces = self._wire.request_as(request_id, command, arguments, tail)
        with suppress(*GONE):  # the end of the input says it
            await self._channel.write(pieces)

    async def until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until something has come; False if it did not in time, or the connection ended before."""
        with anyio.move_on_after(seconds):
            while not reached() and not self.is_over:
                self._changed = anyio.Event()
                await self._changed.wait()
        return reached()

    def ends_with(self, why: str) -> bool:
        """End what is sent, if the recorded client did no more; False if the connection has to be closed."""
        if why in ENDS_OF_INPUT and isinstance(self._channel, FdChannel):
            self._channel.close_write()
            return True
        return why in ENDINGS

    async def show_key(self, key: str) -> None:
        """Show a key, as clients of a network do first. Raises `RrextError`."""
        line = RecordedRequest(time=0.0, connection_id="", command="auth")
        exchange = self.exchanges[MAX_ID] = ReplayedRequest(line)
        await self.send(MAX_ID, "auth", {"auth": key, "clientName": "rrext replay"}, None)
        await self.until(lambda: exchange.answer is not None, CLIENT_DEFAULTS.start)
        del self.exchanges[MAX_ID]
        if exchange.answer is None or exchange.answer.error is not None:
            raise (exchange.answer and exchange.answer.error) or UsageError("the server closed the connection at once")

    async def aclose(self) -> None:
        """End the connection."""
        self._reading.cancel()
        await self._has_read.wait()  # a descriptor is closed when nobody reads from it
        await self._channel.aclose()


class Replay:
    """Plays the lines of one run of a recording.

    `connect` reaches the server; one that `is_shared` serves others too, and no replay ends it. `tell` gets what differs, with
    secrets. `begun` is when the recording began, in seconds since 1970; `value_of` gives the values of variables. Beyond the
    time that the recorded server took, answers have `patience` seconds. Differences at the pointers `ignored` (`*` is any one
    part) do not count.
    """

    def __init__(
        self,
        connect: Connect,
        tell: Tell,
        *,
        begun: float,
        value_of: Callable[[str], str | None],
        key: str | None = None,
        is_shared: bool = False,
        patience: float = 30.0,
        ignored: Iterable[str] = (),
    ) -> None:
        self.counts = ReplayCounts()
        self._connect = connect
        self._tell = tell
        self._value_of = value_of
        self._key = key
        self._is_shared = is_shared
        self._patience = patience
        self._ignored = {pattern: parts_of(pattern) for pattern in ignored}
        self.met: set[str] = set()
        """Those of `ignored` at which something differed."""
        self._run = RunLikeness(begun, value_of)
        self._connections: dict[str, ReplayedConnection] = {}
        self._ended: set[str] = set()
        self._paused: tuple[float, float] | None = None
        """When the last line was written, and when it was played."""
        self._tasks: TaskGroup

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Replay]:
        """Play lines inside of the block; its end closes the connections."""
        async with anyio.create_task_group() as self._tasks:
            try:
                yield self
                await self._end()
            finally:
                with anyio.CancelScope(shield=True):
                    for connection in self._connections.values():
                        await connection.aclose()
                self._tasks.cancel_scope.cancel()

    async def play(self, line: RecordedLine) -> None:
        """Play a line: send a request, or wait for what came then. Raises `RrextError` if the server cannot be reached."""
        self._run.reached = max(self._run.reached, line.time)
        if line.connection_id in self._ended:
            return
        try:
            await self._play(line)
        except RecursionError:
            self._skip(line, "its line is nested too deeply", getattr(line, "id", None))
        self._paused = line.time, anyio.current_time()

    async def _play(self, line: RecordedLine) -> None:
        if isinstance(line, RecordedRequest):
            await self._request(line)
        elif isinstance(line, RecordedRefusal):
            self._skip(line, f"it is no request that can be read: {line.message} [{line.code}]", line.id)
        elif (connection := self._connections.get(line.connection_id)) is not None:
            if isinstance(line, RecordedEvent):
                await self._event(connection, line)
            elif isinstance(line, RecordedAnswer):
                await self._answer(connection, line)
            elif isinstance(line, RecordedEnd) and not connection.ends_with(line.why):
                if line.why == "fatal":
                    self._skip(line, "bytes without frames ended its connection", None)
                self._ended.add(line.connection_id)
                self.counts.unanswered += len(connection.waiting)
                connection.exchanges.clear()
                await connection.aclose()

    # requests

    async def _request(self, line: RecordedRequest) -> None:
        connection = self._connections.get(line.connection_id) or await self._opened(line)
        arguments, tail, reason = self._prepared(connection, line)
        if line.id is not None:
            if (former := connection.exchanges.get(line.id)) is not None:
                self._skip(line, f"its id is that of {former.label}, which has no answer yet", line.id, former.label)
                return
            connection.exchanges[line.id] = exchange = ReplayedRequest(line, reason)
        else:
            exchange = ReplayedRequest(line, reason)
        if reason is None or arguments:
            await self._keep_pace(line)
            try:
                await connection.send(line.id, line.command, arguments, tail)
            except UsageError as error:
                exchange.reason = reason = error.message
        if reason is None:
            self.counts.played += 1
            return
        self._skip(line, reason, line.id, exchange.label)
        connection.gaps |= dict.fromkeys(numbers_in(arguments_of(line)) - connection.gaps.keys(), exchange.label)

    async def _opened(self, line: RecordedRequest) -> ReplayedConnection:
        channel = await self._connect(line.connection_id)
        connection = self._connections[line.connection_id] = ReplayedConnection(channel, line.dialect, self._run)
        self._tasks.start_soon(connection.pump)
        if self._key is not None:
            await connection.show_key(self._key)
        return connection

    def _prepared(
        self, connection: ReplayedConnection, line: RecordedRequest
    ) -> tuple[dict[str, Any], bytes | None, str | None]:
        """The arguments and the raw bytes of a request, or why it is not played. The end of what has a gap has both: it frees
        its place all the same.
        """
        if line.arguments is msgspec.UNSET:
            return {}, None, f"its {line.size:,} bytes are too many for the recording"
        if line.hidden:
            return {}, None, f"it has a secret without a name at {', '.join(place or '/' for place in line.hidden)}"
        if line.command == "shutdown" and self._is_shared:
            return {}, None, "it would end a server that others use"
        arguments, tail = line.arguments, None if line.tail is None else line.tail.data
        try:
            for place in line.secrets:
                if place == "/data" and tail is not None:
                    text = put_back(tail.decode("utf-8", "surrogateescape"), self._value_of)
                    tail = text.encode("utf-8", "surrogateescape")
                elif isinstance(text := value_at(arguments, place), str):
                    arguments = _with(arguments, parts_of(place), put_back(text, self._value_of))
                else:
                    return {}, None, f"the recording is damaged: it has no text at {place}"
        except KeyError as error:
            return {}, None, f"it needs the value of ${{{error.args[0]}}}: set the variable, and name it by --env"
        if (lost := self._lost(connection, line, arguments)) is not None:
            return {}, None, lost
        known = connection.likeness.translated(arguments)
        if gap := next((number for number in sorted(numbers_in(arguments)) if number in connection.gaps), None):
            why = f"{connection.gaps[gap]}, of the same {gap[0]}, is not replayed"
            return known | ENDS_OF_GAPS[ends] if (ends := known.get("subcommand")) in ENDS_OF_GAPS else {}, None, why
        return known, tail, None

    def _lost(self, connection: ReplayedConnection, line: RecordedRequest, arguments: dict[str, Any]) -> str | None:
        """Why a request means nothing here: it is about something that the replay did not bring."""
        for name, number in sorted(connection.likeness.lost & numbers_in(arguments)):
            return f"{name} {number} of the recording is none here"
        about = connection.exchange_of(arguments.get("requestId")) if line.command == "cancel" else None
        return None if about is None or about.reason is None else f"{about.label}, which it cancels, is not replayed"

    async def _keep_pace(self, line: RecordedRequest) -> None:
        """Leave calls in flight the time that they had; where nothing was in flight, nobody notices."""
        if self._paused is None or not any(other.waiting for other in self._connections.values()):
            return
        written, played = self._paused
        pause = min(line.time - written, MOST_PAUSE)
        await anyio.sleep(max(0.0, pause - (anyio.current_time() - played)))

    def _skip(self, line: RecordedLine, why: str, request_id: RequestId | None, label: str = "message") -> None:
        self.counts.skipped += 1
        self._tell(f"{_place(line, request_id)} {label}: not replayed: {why}", [])

    # what came

    async def _event(self, connection: ReplayedConnection, line: RecordedEvent) -> None:
        about = line.request if line.body is msgspec.UNSET else line.body.get("request")
        if about is None:
            self.counts.of_states += 1
            return
        if (exchange := connection.exchange_of(about)) is None:
            return
        if exchange.reason is not None:
            connection.likeness.lose(line.body)
            return
        recorded = exchange.recorded.setdefault(line.name, [])
        recorded.append(line)
        replayed = exchange.replayed.setdefault(line.name, [])
        if await self._has(connection, exchange, line, lambda: len(replayed) >= len(recorded)):
            connection.likeness.learn(line.body, replayed[len(recorded) - 1])
        else:
            connection.likeness.lose(line.body)

    async def _has(
        self, connection: ReplayedConnection, exchange: ReplayedRequest, line: RecordedLine, is_there: Callable[[], bool]
    ) -> bool:
        """Wait for a message, at most until the answer to its request."""
        if not exchange.is_late:
            seconds = max(0.0, line.time - exchange.line.time) + self._patience
            if not await connection.until(lambda: is_there() or exchange.answer is not None, seconds):
                exchange.is_late = True
        return is_there()

    async def _answer(self, connection: ReplayedConnection, line: RecordedAnswer) -> None:
        exchange = connection.exchanges.get(line.id) if line.id is not None else None
        if exchange is None:
            return  # to something that was no request, which is told already
        assert line.id is not None
        if exchange.reason is None:
            await self._has(connection, exchange, line, lambda: exchange.answer is not None)
            if exchange.answer is not None:
                connection.likeness.learn(line.body, exchange.answer.body)
        if exchange.answer is None or exchange.answer.error is not None:
            connection.likeness.lose(line.body)
        del connection.exchanges[line.id]
        if exchange.reason is not None:
            return
        if line.error is None and line.body is msgspec.UNSET and exchange.answer is not None:
            self.counts.too_large += 1
            return
        if exchange.line.command in STATUS_COMMANDS and line.error is None and exchange.answer and not exchange.answer.error:
            self.counts.of_states += 1
            return
        found = [each for each in self._differences(connection, exchange, line) if not self._is_ignored(each)]
        if found:
            more = [f"and {len(found) - MOST_SHOWN} more differences"] if len(found) > MOST_SHOWN else []
            self.counts.differ += 1
            self._tell(f"{_place(line, line.id)} {exchange.label}:", [*map(str, found[:MOST_SHOWN]), *more])

    def _differences(
        self, connection: ReplayedConnection, exchange: ReplayedRequest, line: RecordedAnswer
    ) -> Iterable[Difference]:
        answer, like = exchange.answer, connection.likeness
        if answer is None:
            why = "the connection ended" if connection.is_over else f"none came within {self._patience:g} s more than it took"
            yield Difference("/", f"an answer is missing: {why}")
            return
        failure = None if answer.error is None else error_members(answer.error)
        yield from self._of_events(exchange, like, is_stopped=failure is not None and failure["code"] in STOPPED)
        if line.error is not None and failure is not None:
            if line.error.keys() == {"code"}:  # the others are too large for a recording
                failure = {"code": failure["code"]}
            yield from like.differences({"error": line.error}, {"error": failure})
        elif line.error is not None:
            yield Difference("/error", f"expected {_said(line.error)}, and it succeeded")
        elif failure is not None:
            yield Difference("/error", f"is not expected: {_said(failure)}")
        else:
            yield from like.differences(_with_raw(line), _as_recorded(answer.body, line.member))

    def _of_events(self, exchange: ReplayedRequest, like: Likeness, *, is_stopped: bool) -> Iterable[Difference]:
        for name in dict.fromkeys([*exchange.recorded, *exchange.replayed]):
            lines, bodies = exchange.recorded.get(name, []), exchange.replayed.get(name, [])
            if is_stopped:
                lines, bodies = lines[: len(bodies)], bodies[: len(lines)]
            recorded: list[Any] = []
            replayed: list[Any] = []
            for line, body in zip_longest(lines, bodies):
                if line is not None and line.body is msgspec.UNSET:
                    self.counts.too_large += 1
                    continue
                if line is not None:
                    recorded.append(_with_raw(line))
                if body is not None:
                    replayed.append(_as_recorded(body, None if line is None else line.member))
            if name == "rrext_call":
                recorded, replayed = without_calls(recorded), without_calls(replayed)
            found = [*like.differences({name: recorded}, {name: replayed})]
            if found and name == "rrext_call":  # of calls that run at once, each may come first
                found = [*like.differences({name: recorded}, {name: like.in_order_of(recorded, replayed)})]
            yield from found

    def _is_ignored(self, difference: Difference) -> bool:
        parts = parts_of(difference.path)
        met = [
            pointer
            for pointer, pattern in self._ignored.items()
            if len(parts) >= len(pattern) and all(map(fnmatchcase, parts, pattern))
        ]
        self.met.update(met)
        return bool(met)

    # ends

    async def _end(self) -> None:
        """Tell what becomes of requests at whose answers the recording ends, as at the crash of its server."""
        for connection in self._connections.values():
            waiting = connection.waiting
            self.counts.unanswered += len(waiting)
            if not waiting:
                continue
            await connection.until(lambda these=waiting: all(each.answer is not None for each in these), self._patience)
            lacks = "nor came one here: the connection ended" if connection.is_over else "nor came one here in time"
            for exchange in waiting:
                line, outcome = exchange.line, lacks if exchange.answer is None else "and one came here"
                self._tell(f"{_place(line, line.id)} {exchange.label}: the recording has no answer, {outcome}", [])


def _place(line: RecordedLine, request_id: RequestId | None) -> str:
    return f"{line.connection_id} {request_id if request_id is not None else '-'}"


def arguments_of(line: RecordedRequest) -> dict[str, Any]:
    """The arguments of a request, or what is known of those that are left out."""
    return line.about if line.arguments is msgspec.UNSET else line.arguments


def _said(error: dict[str, Any]) -> str:
    return f"{error.get('message', '')} [{error.get('code', '')}]"


def _with_raw(line: RecordedAnswer | RecordedEvent) -> dict[str, Any]:
    """A recorded body with its raw bytes, as they are compared."""
    body = {} if line.body is msgspec.UNSET else line.body
    return body if line.tail is None else {**body, line.member or "data": msgspec.to_builtins(line.tail)}


def _as_recorded(body: dict[str, Any], member: str | None) -> dict[str, Any]:
    """A body as a recording has it; `member` is that of bytes in base64, of a client that takes no tails."""
    place = member or "data"
    raw = body.get(place)
    if member is not None and isinstance(raw, str):
        try:
            raw = b64decode(raw, validate=True)
        except NotBase64:
            raw = None
    if not isinstance(raw, bytes):
        return masked_body(body)
    others = {name: value for name, value in body.items() if name != place}
    return {**masked_body(others), place: msgspec.to_builtins(RawTail.of(raw))}


def _with(value: Any, parts: list[str], text: str) -> Any:
    """A value with another text at a place that it has."""
    if not parts:
        return text
    first, rest = parts[0], parts[1:]
    if isinstance(value, list):
        return [_with(item, rest, text) if str(index) == first else item for index, item in enumerate(value)]
    return {**value, first: _with(value[first], rest, text)}
