"""Recordings: the messages of each connection, without secrets, as lines of a trace file.

A message is written in the thread that reads or answers it: a request before anything is done with it, an answer before it
leaves, so that the order of the lines is one in which all of it can happen again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.limits import Limits
from rrext.pipefile.text.problems import below, value_at
from rrext.secrets.names import HIDDEN, PLACEHOLDER, masked, without_keys
from rrext.server.commands import cut_short
from rrext.server.journal.trace_file import (
    RawTail,
    RecordedAnswer,
    RecordedEnd,
    RecordedEvent,
    RecordedRefusal,
    RecordedRequest,
)
from rrext.wire.connection import ServedConnection, ServerConnection
from rrext.wire.dialect import wire_error
from rrext.wire.messages import Malformed, Request, RequestId, ServerEvent

if TYPE_CHECKING:
    from rrext.errors import RrextError
    from rrext.secrets.redaction import Redactor
    from rrext.server.journal.trace_file import TraceFile
    from rrext.wire.framing import Framer

OF_TRANSPORT: Final = frozenset(("auth", "deauth"))
"""Commands with which clients of a network show their keys; they are not recorded."""

ABOUT: Final = ("subcommand", "pipe_id", "handle")
"""Arguments that are written of a request that is too large: what it does, and to which pipe or file."""

OPEN: Final = "token"
"""The argument, and the member of a body, that names a pipeline: it would be a secret by its name."""

UNSHOWN: Final = (ValueError, RecursionError, MemoryError)
"""What makes a content that cannot be shown: it is left out, as one that is too large."""


MOST_BEFORE: Final = 1024
"""Characters of a text that comes in pieces, in which a secret may begin that goes on in the next piece."""

MOST_PIECES: Final = 256
"""Texts in pieces whose ends are remembered; those of pipes and calls that have ended are forgotten for later ones."""


class Recorder:
    """Writes the messages of connections.

    `used` is the redactor of the engine. `known` knows every variable, because tasks in processes of their own use some that
    their server does not; `value_of` gives the value of a name.
    """

    def __init__(
        self, file: TraceFile, used: Redactor, known: Redactor, value_of: Callable[[str], str | None], limits: Limits
    ) -> None:
        self.file = file
        self.limits = limits
        self._used = used
        self._known = known
        self._value_of = value_of
        self._ends: dict[tuple[str, str, RequestId], str] = {}
        self._remembering = threading.Lock()
        file.redact = self._value

    def _text(self, text: str) -> str:
        shown: str = without_keys(self._known.text(self._used.text(text)))
        return shown

    def _value(self, value: Any) -> Any:
        return without_keys(self._known.value(self._used.value(value)))

    def _goes_on(self, connection_id: str, of: str, number: Any, piece: str) -> bool:
        """Whether a piece of a text, as of pipe 1, has more of a secret that began in those before it."""
        if not isinstance(number, int | str):
            return False
        begin = piece[:MOST_BEFORE]
        with self._remembering:
            before = self._ends.pop((connection_id, of, number), "")
            self._ends[connection_id, of, number] = (before + piece)[-MOST_BEFORE:]
            if len(self._ends) > MOST_PIECES:
                del self._ends[next(iter(self._ends))]
        return bool(before) and self._text(before + begin) != self._text(before) + self._text(begin)

    def follow(self, connection: ServedConnection, connection_id: str) -> RecordedConnection:
        """The same connection, whose messages are recorded from now on."""
        assert isinstance(connection, ServerConnection)  # no other one has its messages in our dialects
        return RecordedConnection(self, connection, connection_id)

    def request(self, connection_id: str, dialect: Any, request: Request) -> None:
        """Write a request."""
        line = RecordedRequest(
            time=time(),
            connection_id=connection_id,
            id=self._value(request.id),
            command=self._text(cut_short(request.command, self.limits.max_name)),
            dialect=dialect or "dap",
            size=request.nbytes,
        )
        if request.nbytes <= self.limits.max_event_data:
            with suppress(*UNSHOWN):
                line = self._with_content(line, request)
        if line.arguments is msgspec.UNSET:
            known = {name: request.arguments.get(name) for name in ABOUT}
            about = {name: self._value(value) for name, value in known.items() if self._is_short(value)}
            line = msgspec.structs.replace(line, about=about)
        self.file.add(line)

    def _with_content(self, line: RecordedRequest, request: Request) -> RecordedRequest:
        given, secrets = self._without_env(request.arguments)
        known = masked_body(given)
        shown = self._value(known)
        hidden = [*_changed(given, known)]
        for place in _changed(known, shown):
            (secrets if self._can_return(value_at(known, place), value_at(shown, place)) else hidden).append(place)
        tail = None
        of, number = ("pipe", given["pipe_id"]) if "pipe_id" in given else ("file", given.get("handle"))
        if request.tail is not None:
            tail, before, after = self._tail(request.tail)
            if self._goes_on(line.connection_id, of, number, before):
                tail, after = RawTail(text=HIDDEN), HIDDEN
            if before != after:
                (secrets if self._can_return(before, after) else hidden).append("/data")
        elif isinstance(data := given.get("data"), str) and self._goes_on(line.connection_id, of, number, data):
            shown["data"] = HIDDEN
            hidden.append("/data")
        if line.command != request.command:
            hidden.append("")
        return msgspec.structs.replace(line, arguments=shown, tail=tail, secrets=tuple(secrets), hidden=tuple(hidden))

    def _is_short(self, value: Any) -> bool:
        return type(value) is int or (isinstance(value, str) and len(value) <= self.limits.max_name)

    def _without_env(self, given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The arguments with names in the place of the variables that they give to a pipeline, and where these are."""
        env = given.get("env")
        if not isinstance(env, dict):
            return given, []
        for name, value in env.items():
            self._known.learn(name, str(value))
        return {**given, "env": {name: f"${{{name}}}" for name in env}}, [below("/env", name) for name in env]

    def _can_return(self, before: Any, after: Any) -> bool:
        """Whether the values of its variables make the text again that it was."""
        if not isinstance(before, str) or not isinstance(after, str):
            return False
        return re.sub(PLACEHOLDER, lambda match: self._value_of(match[1]) or match[0], after) == before

    def _tail(self, data: bytes) -> tuple[RawTail, str, str]:
        before = data.decode("utf-8", "surrogateescape")
        after = self._text(before)
        try:
            after.encode()
        except UnicodeEncodeError:
            return RawTail(base64=after.encode("utf-8", "surrogateescape")), before, after
        return RawTail(text=after), before, after

    def answer(
        self, connection_id: str, request_id: RequestId, command: str, body: bytes, tail: bytes | None, member: str | None
    ) -> None:
        """Write a success; `member` of the body has the bytes, if they are no tail of the message."""
        size, shown, raw = self._shown(body, tail)
        line = RecordedAnswer(
            time=time(),
            connection_id=connection_id,
            id=self._value(request_id),
            command=self._text(command),
            body=shown,
            tail=raw,
            member=member,
            size=size,
        )
        self.file.add(line)

    def failure(self, connection_id: str, request_id: RequestId | None, command: str, error: RrextError, size: int) -> None:
        """Write a failure, with all members that tell something; of one that is too large the code alone."""
        parts = msgspec.structs.asdict(wire_error(error))
        told: dict[str, Any] = {"code": parts["code"]}
        if size <= self.limits.max_event_data:
            with suppress(*UNSHOWN):
                told = self._value(masked({name: value for name, value in parts.items() if value not in (None, {})}))
        line = RecordedAnswer(
            time=time(),
            connection_id=connection_id,
            id=self._value(request_id),
            command=self._text(command),
            error=told,
            size=size,
        )
        self.file.add(line)

    def event(self, connection_id: str, name: str, body: bytes, tail: bytes | None, member: str | None) -> None:
        """Write an event."""
        size, shown, raw = self._shown(body, tail)
        chunk = msgspec.json.decode(body).get("chunk") if isinstance(shown, dict) and "chunk" in shown else None
        if isinstance(chunk, str) and self._goes_on(connection_id, "call", shown.get("request"), chunk):
            shown["chunk"] = HIDDEN
        line = RecordedEvent(
            time=time(),
            connection_id=connection_id,
            name=name,
            request=None if shown is not msgspec.UNSET else msgspec.json.decode(body, type=_OfRequest).request,
            body=shown,
            tail=raw,
            member=member,
            size=size,
        )
        self.file.add(line)

    def refusal(self, connection_id: str, found: Malformed) -> None:
        """Write that something could not be read."""
        error = found.error
        line = RecordedRefusal(
            time=time(),
            connection_id=connection_id,
            id=self._value(found.id),
            code=error.code,
            message=self._text(cut_short(error.message, self.limits.max_name)),
        )
        self.file.add(line)

    def end(self, connection_id: str, why: str) -> None:
        """Write that a connection ends."""
        self.file.add(RecordedEnd(time=time(), connection_id=connection_id, why=why))

    def _shown(self, body: bytes, tail: bytes | None) -> tuple[int, Any, RawTail | None]:
        """The size of a message, its body and its raw bytes, both without secrets if they are not too large."""
        size = len(body) + len(tail or b"")
        if size > self.limits.max_event_data:
            return size, msgspec.UNSET, None
        with suppress(*UNSHOWN):
            return size, self._value(masked_body(msgspec.json.decode(body))), None if tail is None else self._tail(tail)[0]
        return size, msgspec.UNSET, None


class _OfRequest(msgspec.Struct):
    """The member of an event of a call."""

    request: int | str | None = None


def masked_body(body: dict[str, Any]) -> dict[str, Any]:
    """Arguments, or a body, without the values whose names are those of secrets."""
    return {name: item if name == OPEN and isinstance(item, str) else masked(item, name) for name, item in body.items()}


def _changed(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where two values differ that were the same, as pointers; a key that differs is one of the whole object."""
    if isinstance(before, dict) and isinstance(after, dict):
        if before.keys() != after.keys():
            yield path
            return
        for key, item in before.items():
            yield from _changed(item, after[key], below(path, key))
    elif isinstance(before, list) and isinstance(after, list):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changed(one, other, below(path, index))
    elif before != after:
        yield path


class RecordedConnection:
    """A connection whose messages are recorded, as its session sees it."""

    def __init__(self, recorder: Recorder, connection: ServerConnection, connection_id: str) -> None:
        self._recorder = recorder
        self._inner = connection
        self._id = connection_id
        connection.watch(self._received)

    def _received(self, event: ServerEvent) -> None:
        if isinstance(event, Request):
            if event.command not in OF_TRANSPORT:
                self._recorder.request(self._id, self._inner.dialect, event)
        elif isinstance(event, Malformed):
            self._recorder.refusal(self._id, event)

    def ended(self, why: str) -> None:
        """Record the end of the connection."""
        self._recorder.end(self._id, why)

    @property
    def raw_tail(self) -> bool:
        """Whether the client takes raw tails."""
        return self._inner.raw_tail

    @raw_tail.setter
    def raw_tail(self, value: bool) -> None:
        self._inner.raw_tail = value

    @property
    def framer(self) -> Framer[ServerEvent] | None:
        """The framer of a stream."""
        return self._inner.framer

    @property
    def has_tails(self) -> bool:
        """Whether the transport carries raw tails."""
        return self._inner.has_tails

    def takes_tail(self, command: str) -> bool:
        """Whether the client takes the bytes of this command's answer as a tail."""
        return self._inner.takes_tail(command)

    def input_ended(self) -> None:
        """Pass it on."""
        self._inner.input_ended()

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """A success."""
        pieces = self._inner.result(request_id, command, body)
        if command not in OF_TRANSPORT:
            self._recorder.answer(self._id, request_id, command, body, None, None)
        return pieces

    def result_tail(self, request_id: RequestId, command: str, body: bytes, tail: bytes, member: str = "result") -> list[bytes]:
        """A success that carries bytes."""
        pieces = self._inner.result_tail(request_id, command, body, tail, member)
        self._recorder.answer(self._id, request_id, command, body, tail, self._inner.member_of(command, member))
        return pieces

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """A failure. One over the limit is not sent: a shorter one follows."""
        pieces = self._inner.error(request_id, command, error)
        if command not in OF_TRANSPORT and len(pieces[-1]) <= self._recorder.limits.max_result:
            self._recorder.failure(self._id, request_id, command, error, sum(map(len, pieces)))
        return pieces

    def event(self, name: str, body: bytes, tail: bytes | None = None, member: str = "chunk") -> list[bytes]:
        """An event."""
        pieces = self._inner.event(name, body, tail, member)
        self._recorder.event(self._id, name, body, tail, None if tail is None or self.raw_tail else member)
        return pieces


def put_back(value: Any, values: Callable[[str], str | None]) -> str:
    """A text with the values of variables where their names stand. Raises `KeyError` with a name that has none, or the text
    where no name stands, as that of a secret of a connection.
    """

    def value_of(match: re.Match[str]) -> str:
        found = values(match[1])
        if found is None:
            raise KeyError(match[1])
        return found

    text, number = re.subn(PLACEHOLDER, value_of, value)
    if not number:
        raise KeyError(value.removeprefix("${").removesuffix("}"))
    return text
