"""One connection: a dialect, and on a stream a framer. Bytes in → events, answers in → bytes. It does no I/O."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeAlias, cast

from rrext.errors import NotConnected, ParseError, RrextError, ServerExited, UsageError
from rrext.limits import DEFAULTS, MAX_QUOTED_LINES, Limits
from rrext.wire.codec import Bytes, decode, insert_member, within_memory
from rrext.wire.dap import Dap
from rrext.wire.dialect import Dialect, DialectName
from rrext.wire.framing import Framer
from rrext.wire.messages import ClientEvent, Malformed, RequestId, ServerEvent


class ServedConnection(Protocol):
    """A session's view of its connection. Writing methods may be called from any thread, and return pieces to be written in
    order; large payloads are among them uncopied.
    """

    raw_tail: bool
    """Whether the client takes raw tails, as its `initialize` tells."""

    @property
    def framer(self) -> Framer[ServerEvent] | None:
        """The framer of a stream; None if the transport keeps messages apart."""
        ...

    @property
    def has_tails(self) -> bool:
        """Whether the transport carries raw tails."""
        ...

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """A success; `body` is an encoded JSON object."""
        ...

    def takes_tail(self, command: str) -> bool:
        """Whether the client takes the raw bytes of a command's answer as a tail."""
        ...

    def result_tail(self, request_id: RequestId, command: str, body: bytes, tail: bytes, member: str = "result") -> list[bytes]:
        """A success that carries bytes, which JSON would have in `member` of `body`."""
        ...

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """A failure. Without id: the answer to something that had none which could be used."""
        ...

    def event(self, name: str, body: bytes, tail: bytes | None = None, member: str = "chunk") -> list[bytes]:
        """An event; `body` is an encoded JSON object, and bytes belong in `member` of it."""
        ...

    def input_ended(self) -> None:
        """The client has ended its side, and sends no more."""
        ...


FILE_STORE: Final = "rrext_store"
"""The command whose bytes RocketRide's clients read from the tail of a message."""

P = ParamSpec("P")
Read: TypeAlias = Callable[[memoryview, "bytes | None", int], ServerEvent]
"""Makes the event of a whole message."""
Refuse: TypeAlias = Callable[[RrextError, memoryview], ServerEvent]
"""Makes the event of a message that cannot be read, from the first bytes of the message."""

Join: TypeAlias = Callable[[list[bytes], bytes | None], list[bytes]]
"""Makes the one piece of a message and its raw tail, for a transport that keeps messages apart."""


class ServerConnection:
    """A server's side. The first valid message decides the dialect.

    `framer` finds the messages in a stream, and its events are this connection's; without one the transport keeps messages
    apart, `receive_message` takes each, and `join` makes one piece of a message and its raw tail, if the transport carries
    tails. `raw_tail` says that the client takes raw tails, as its `initialize` tells. Writing methods may be called from any
    thread, as `ServedConnection` says.
    """

    __slots__ = ("_dap", "_dialect", "_frame", "_on_event", "_read", "dialect", "framer", "has_tails", "limits", "raw_tail")

    def __init__(self, framer: Framer[ServerEvent] | None, limits: Limits = DEFAULTS, *, join: Join | None = None) -> None:
        self.framer = framer
        self.limits = limits
        self.dialect: DialectName | None = None
        self.raw_tail = False
        self.has_tails = framer is not None or join is not None
        self._frame = (join or _whole) if framer is None else framer.frame
        self._dap = Dap(limits)
        self._dialect: Dialect = self._dap
        self._on_event: Callable[[ServerEvent], object] | None = None
        self._deliver(self._read_first, self._refuse_first)

    def __repr__(self) -> str:
        state = "unframed" if self.framer is None else self.framer.state()
        return f"<ServerConnection {self.dialect or 'undecided'}, {state}>"

    def _deliver(self, read: Read, refused: Refuse) -> None:
        """Read messages by these functions from now on."""
        if self._on_event is not None:
            read, refused = _told(self._on_event, read), _told(self._on_event, refused)
        self._read = within_memory(read, refused, self.limits.id_recovery)
        if self.framer is not None:
            self.framer.deliver(read, refused)

    def watch(self, on_event: Callable[[ServerEvent], object]) -> None:
        """Tell `on_event` of each message when it is read, before anything is done with it. Call it before the first one."""
        self._on_event = on_event
        self._deliver(self._read_first, self._refuse_first)

    def receive_message(self, message: Bytes, tail: bytes | None = None) -> ServerEvent:
        """The event of one whole message, with the raw bytes that came with it."""
        return self._read(memoryview(message), tail, len(message) + len(tail or b""))

    def _read_first(self, json: memoryview, tail: bytes | None, nbytes: int) -> ServerEvent:
        try:
            value = decode(json)
        except ParseError as error:
            return self._refuse_first(error, json[: self.limits.id_recovery])
        self._answer_like(_says_jsonrpc(value))
        event = self._dialect.judge_request(value, tail, nbytes)
        if not isinstance(event, Malformed):
            self._decide()
        return event

    def _refuse_first(self, error: RrextError, start: memoryview) -> ServerEvent:
        from rrext.wire.recovery import recover_members  # few connections ever need it

        members = recover_members(start)
        self._answer_like("jsonrpc" in members)
        return Malformed(error, self._dialect.request_id(members))

    def _answer_like(self, jsonrpc: bool) -> None:
        """Until a valid frame decides, an answer has the form that its request seems to have; DAP's if it has none."""
        self._dialect = _new_dialect("jsonrpc", self.limits) if jsonrpc else self._dap

    def _decide(self) -> None:
        self.dialect = self._dialect.name
        self._deliver(self._dialect.read_request, self._dialect.refused_request)

    def input_ended(self) -> None:
        """Go on: requests that were read are answered."""

    def takes_tail(self, command: str) -> bool:
        """Whether the client takes the raw bytes of a command's answer as a tail. RocketRide's clients, who keep messages
        apart, take those of the file store."""
        return self.raw_tail or (command == FILE_STORE and self.framer is None and self.has_tails)

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """A success; `body` is an encoded JSON object."""
        return self._frame(self._dialect.result(request_id, command, body), None)

    def result_tail(self, request_id: RequestId, command: str, body: bytes, tail: bytes, member: str = "result") -> list[bytes]:
        """A success that carries bytes: as a raw tail, or as base64 in `member` of `body` if the client takes no tails.

        In an answer of the file store they are `data` in any case.
        """
        place = self.member_of(command, member)
        if place is None:
            return self._frame(self._dialect.result(request_id, command, body), tail)
        return self._frame(self._dialect.result(request_id, command, _with_base64(body, place, tail)), None)

    def member_of(self, command: str, member: str = "result") -> str | None:
        """The member of a body that has the bytes of an answer in base64; None if they are its tail."""
        return None if self.takes_tail(command) else "data" if command == FILE_STORE else member

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """A failure. Without id: the answer to something that had none which could be used."""
        return self._frame(self._dialect.error(request_id, command, error), None)

    def event(self, name: str, body: bytes, tail: bytes | None = None, member: str = "chunk") -> list[bytes]:
        """An event; `body` is an encoded JSON object. Bytes go as a raw tail, or as base64 in `member` of `body`."""
        if tail is None or self.raw_tail:
            return self._frame(self._dialect.event(name, body), tail)
        return self._frame(self._dialect.event(name, _with_base64(body, member, tail)), None)


class ClientConnection:
    """A client's side, in the dialect that it chose. `request` may be called from any thread."""

    __slots__ = ("_dialect", "dialect", "framer")

    def __init__(self, framer: Framer[ClientEvent], dialect: DialectName = "dap", limits: Limits = DEFAULTS) -> None:
        self.framer = framer
        self.dialect: DialectName = dialect
        self._dialect = _new_dialect(dialect, limits)
        framer.deliver(self._dialect.read_answer, self._dialect.refused_answer)

    def __repr__(self) -> str:
        return f"<ClientConnection {self.dialect}, {self.framer.state()}>"

    def request(self, command: str, arguments: dict[str, Any], tail: bytes | None = None) -> tuple[RequestId, list[bytes]]:
        """The id of a new request, and its frame. Raises `UsageError` for arguments outside of JSON, and names the place."""
        try:
            number, message = self._dialect.request(command, arguments)
        except ValueError as error:
            raise UsageError(f"arguments cannot be sent: {error}") from None
        return number, self.framer.frame([message], tail)

    def request_as(
        self, request_id: RequestId | None, command: str, arguments: dict[str, Any], tail: Bytes | None
    ) -> list[bytes]:
        """The frame of a request with an id of the caller's. Raises `UsageError` as `request` does."""
        try:
            message = self._dialect.request_as(request_id, command, arguments)
        except ValueError as error:
            raise UsageError(f"arguments cannot be sent: {error}") from None
        return self.framer.frame([message], None if tail is None else bytes(tail))


def _told(on_event: Callable[[ServerEvent], object], make: Callable[P, ServerEvent]) -> Callable[P, ServerEvent]:
    """The same function, whose events are told."""

    def telling(*args: P.args, **kwargs: P.kwargs) -> ServerEvent:
        event = make(*args, **kwargs)
        on_event(event)
        return event

    return telling


def _new_dialect(dialect: DialectName, limits: Limits) -> Dialect:
    if dialect == "dap":
        return Dap(limits)
    from rrext.wire.jsonrpc import JsonRpc  # many processes never hear it, and start sooner without

    return JsonRpc(limits)


def _whole(message: list[bytes], tail: bytes | None = None) -> list[bytes]:
    """A message for a transport that keeps messages apart: one piece, without a tail."""
    assert tail is None, "raw_tail was set on a connection that has no framer"
    return [b"".join(message)]


def _says_jsonrpc(value: object) -> bool:
    first: object = cast("list[object]", value)[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and "jsonrpc" in first


def _with_base64(body: bytes, member: str, tail: bytes) -> bytes:
    return insert_member(body, member, b'"%b"' % b2a_base64(tail, newline=False))


def client_closed() -> RrextError:
    """The error of calls after `close`, or after the end of the client's block."""
    return NotConnected("The client is closed.")


def connection_lost(defect: RrextError | None, *, is_new: bool) -> RrextError:
    """The server closed the connection, or `defect` made its bytes unreadable. `is_new`: before its first message."""
    why = "closed the connection" if defect is None else f"sent what cannot be read: {defect.message}"
    hint = None
    if is_new and defect is None:
        why = "closed the connection at once"
        hint = "it may end just now, have all the clients that it takes (maxConnections), or be another user's: its log says"
    return ServerExited(f"The server {why}.", hint=hint, data={"exit_code": None, "stderr": ""})


def server_exited(code: int | None, stderr: str, defect: RrextError | None) -> RrextError:
    """A spawned server ended, with exit code and the end of its stderr; without code it closed its output and still runs."""
    how = "closed its output, but still runs" if code is None else f"exited with code {code}"
    if defect is not None:
        how = f"sent what cannot be read ({defect.message}) and {how}"
    lines = stderr.rstrip().splitlines()[-MAX_QUOTED_LINES:]
    text = "\n".join([f"The server {how}." if not lines else f"The server {how}. It wrote:", *lines])
    return ServerExited(text, data={"exit_code": code, "stderr": stderr})
