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
"""Texts of a connection in pieces whose ends are remembered; those of pipes and calls that have ended are forgotten for later
ones."""


class Recorder:
    """Takes secrets out of the messages of connections.

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
        file.redact = self.value

    def follow(self, connection: ServedConnection, connection_id: str) -> RecordedConnection:
        """The same connection, whose messages are recorded from now on."""
        assert isinstance(connection, ServerConnection)  # no other one has its messages in our dialects
        return RecordedConnection(self, connection, connection_id)

    def text(self, text: str) -> str:
        """A text without secrets."""
        shown: str = without_keys(self._known.text(self._used.text(text)))
        return shown

    def name(self, text: str) -> str:
        """A text of a client without secrets, and no longer than a name."""
        return self.text(cut_short(text, self.limits.max_name))

    def value(self, value: Any) -> Any:
        """A JSON value without secrets."""
        return without_keys(self._known.value(self._used.value(value)))

    def tail(self, data: bytes) -> tuple[RawTail, str, str]:
        """Raw bytes without secrets, and their text before and after."""
        before = data.decode("utf-8", "surrogateescape")
        after = self.text(before)
        return RawTail.of(after.encode("utf-8", "surrogateescape")), before, after

    def learn(self, env: dict[str, Any]) -> None:
        """Learn the variables that a client gives to a pipeline."""
        for name, value in env.items():
            self._known.learn(name, str(value))

    def can_return(self, before: Any, after: Any) -> bool:
        """Whether the values of its variables make the text again that it was."""
        if not isinstance(before, str) or not isinstance(after, str):
            return False
        return re.sub(PLACEHOLDER, lambda match: self._value_of(match[1]) or match[0], after) == before


class RecordedConnection:
    """A connection whose messages are recorded, as its session sees it."""

    def __init__(self, recorder: Recorder, connection: ServerConnection, connection_id: str) -> None:
        self._recorder = recorder
        self._inner = connection
        self._id = connection_id
        self._ends: dict[tuple[str, RequestId], str] = {}
        self._remembering = threading.Lock()
        connection.watch(self._received)

    # what comes

    def _received(self, event: ServerEvent) -> None:
        if isinstance(event, Request):
            if event.command not in OF_TRANSPORT:
                self._recorder.file.add(self._request(event))
        elif isinstance(event, Malformed):
            number, text = self._recorder.value(event.id), self._recorder.name(event.error.message)
            self._recorder.file.add(RecordedRefusal(time(), self._id, id=number, code=event.error.code, message=text))

    def _request(self, request: Request) -> RecordedRequest:
        recorder = self._recorder
        line = RecordedRequest(
            time(),
            self._id,
            id=recorder.value(request.id),
            command=recorder.name(request.command),
            dialect=self._inner.dialect or "dap",
            size=request.nbytes,
        )
        if request.nbytes <= recorder.limits.max_event_data:
            with suppress(*UNSHOWN):
                return self._with_content(line, request)
        known = {name: request.arguments.get(name) for name in ABOUT}
        about = {name: recorder.value(value) for name, value in known.items() if self._is_short(value)}
        return msgspec.structs.replace(line, about=about)

    def _is_short(self, value: Any) -> bool:
        return type(value) is int or (isinstance(value, str) and len(value) <= self._recorder.limits.max_name)

    def _with_content(self, line: RecordedRequest, request: Request) -> RecordedRequest:
        recorder, given, secrets = self._recorder, request.arguments, list[str]()
        if isinstance(env := given.get("env"), dict):
            recorder.learn(env)
            given = {**given, "env": {name: f"${{{name}}}" for name in env}}
            secrets += [below("/env", name) for name in env]
        known = masked_body(given)
        shown = recorder.value(known)
        hidden = [*_changed(given, known)]
        for place in _changed(known, shown):
            (secrets if recorder.can_return(value_at(known, place), value_at(shown, place)) else hidden).append(place)
        tail = None
        of, number = ("pipe", given["pipe_id"]) if "pipe_id" in given else ("file", given.get("handle"))
        if request.tail is not None:
            tail, before, after = recorder.tail(request.tail)
            if self._goes_on(of, number, before):
                tail, after = RawTail(text=HIDDEN), HIDDEN
            if before != after:
                (secrets if recorder.can_return(before, after) else hidden).append("/data")
        elif isinstance(data := given.get("data"), str) and self._goes_on(of, number, data):
            shown["data"] = HIDDEN
            hidden.append("/data")
        if line.command != request.command:
            hidden.append("")
        return msgspec.structs.replace(line, arguments=shown, tail=tail, secrets=tuple(secrets), hidden=tuple(hidden))

    def _goes_on(self, of: str, number: Any, piece: str) -> bool:
        """Whether a piece of a text, as of pipe 1, has more of a secret that began in those before it."""
        if not isinstance(number, int | str):
            return False
        begin, text = piece[:MOST_BEFORE], self._recorder.text
        with self._remembering:
            before = self._ends.pop((of, number), "")
            self._ends[of, number] = (before + piece)[-MOST_BEFORE:]
            if len(self._ends) > MOST_PIECES:
                del self._ends[next(iter(self._ends))]
        return bool(before) and text(before + begin) != text(before) + text(begin)

    # what leaves

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """A success."""
        pieces = self._inner.result(request_id, command, body)
        if command not in OF_TRANSPORT:
            self._answered(request_id, command, body)
        return pieces

    def result_tail(self, request_id: RequestId, command: str, body: bytes, tail: bytes, member: str = "result") -> list[bytes]:
        """A success that carries bytes."""
        pieces = self._inner.result_tail(request_id, command, body, tail, member)
        self._answered(request_id, command, body, tail, self._inner.member_of(command, member))
        return pieces

    def _answered(
        self, request_id: RequestId, command: str, body: bytes, tail: bytes | None = None, member: str | None = None
    ) -> None:
        recorder, (size, shown, raw) = self._recorder, self._shown(body, tail)
        number, name = recorder.value(request_id), recorder.text(command)
        line = RecordedAnswer(time(), self._id, id=number, command=name, body=shown, tail=raw, member=member, size=size)
        recorder.file.add(line)

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """A failure; of a large one the code alone is written. One over the limit is not sent: a shorter one follows."""
        pieces, recorder = self._inner.error(request_id, command, error), self._recorder
        if command not in OF_TRANSPORT and len(pieces[-1]) <= recorder.limits.max_result:
            told, size = {"code": wire_error(error).code}, sum(map(len, pieces))
            if size <= recorder.limits.max_event_data:
                with suppress(*UNSHOWN):
                    told = recorder.value(error_members(error))
            number, name = recorder.value(request_id), recorder.text(command)
            recorder.file.add(RecordedAnswer(time(), self._id, id=number, command=name, error=told, size=size))
        return pieces

    def event(self, name: str, body: bytes, tail: bytes | None = None, member: str = "chunk") -> list[bytes]:
        """An event."""
        pieces = self._inner.event(name, body, tail, member)
        place = None if tail is None or self.raw_tail else member
        size, shown, raw = self._shown(body, tail)
        about = None if shown is not msgspec.UNSET else msgspec.json.decode(body, type=_OfRequest).request
        chunk = msgspec.json.decode(body)["chunk"] if isinstance(shown, dict) and "chunk" in shown else None
        if isinstance(shown, dict) and isinstance(chunk, str) and self._goes_on("call", shown.get("request"), chunk):
            shown["chunk"] = HIDDEN
        line = RecordedEvent(time(), self._id, name=name, request=about, body=shown, tail=raw, member=place, size=size)
        self._recorder.file.add(line)
        return pieces

    def ended(self, why: str) -> None:
        """The connection ends."""
        self._recorder.file.add(RecordedEnd(time(), self._id, why=why))

    def _shown(self, body: bytes, tail: bytes | None) -> tuple[int, Any, RawTail | None]:
        """The size of a message, its body and its raw bytes, both without secrets if they are not too large."""
        size, recorder = len(body) + len(tail or b""), self._recorder
        if size <= recorder.limits.max_event_data:
            with suppress(*UNSHOWN):
                shown = recorder.value(masked_body(msgspec.json.decode(body)))
                return size, shown, None if tail is None else recorder.tail(tail)[0]
        return size, msgspec.UNSET, None

    # the rest of a connection

    @property
    def raw_tail(self) -> bool:
        """Whether the client takes raw tails."""
        return self._inner.raw_tail

    @raw_tail.setter
    def raw_tail(self, value: bool) -> None:
        self._inner.raw_tail = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _OfRequest(msgspec.Struct):
    """The member of an event of a call."""

    request: int | str | None = None


def error_members(error: RrextError) -> dict[str, Any]:
    """The members of a failure that tell something, without the values whose names are those of secrets."""
    parts = msgspec.structs.asdict(wire_error(error))
    return masked_body({name: value for name, value in parts.items() if value not in (None, {})})


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
