"""One connection that speaks the Model Context Protocol: its messages in and out, as requests and answers of a session.

Both eras are spoken: versions up to 2025-11-25, which begin with `initialize`, and 2026-07-28, where each request names its
version in `_meta` and `server/discover` takes the place of the handshake. Rules are those of the published `schema.json` of
each version.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Self, cast

import msgspec

from rrext.errors import (
    Cancelled,
    InvalidArguments,
    InvalidRequest,
    ParseError,
    RrextError,
    ShuttingDown,
    ToolNotFound,
    TooManyRequests,
    UnknownCommand,
)
from rrext.faces.mcp.content import content_of, content_of_bytes, content_of_error
from rrext.faces.mcp.limits import TTL
from rrext.faces.mcp.listing import listing, start_of
from rrext.limits import DEFAULTS, Limits
from rrext.version import __version__
from rrext.wire.codec import decode, encode_own, quote
from rrext.wire.framing import Framer
from rrext.wire.messages import MAX_ID, Ignored, Malformed, Request, RequestId, ServerEvent
from rrext.wire.wire_error import wire_error

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
VERSIONS: Final = ("2026-07-28",)
"""The versions without a handshake."""

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"

TIMEOUT_KEY: Final = "rrext/timeout"
"""The member of a call's `_meta` with its deadline, in seconds from its receipt."""

SERVER: Final = {"name": "rrext", "version": __version__}
CAPABILITIES: Final[dict[str, Any]] = {"tools": {}}

NUMBERS: Final = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "unknown_command": -32601,
    "invalid_arguments": -32602,
    "tool_not_found": -32602,
    "internal_error": -32603,
    "unsupported_protocol_version": -32022,
}
OTHER_NUMBER: Final = -32010
"""Every other code. The protocol reserves −32020 to −32099, clients use −32000 and −32001 for themselves."""

CALL: Final = "rrext_process"

_NO_RESULTS: Final = (ToolNotFound, InvalidRequest, TooManyRequests, ShuttingDown)
"""Failures before a tool was found; the protocol wants them as errors of JSON-RPC."""


class UnsupportedVersion(InvalidRequest, code="unsupported_protocol_version"):
    """A request of a version of the protocol that is not spoken here."""

    def __init__(self, version: object) -> None:
        super().__init__(
            f"version {str(version)[:40]} of the protocol is not spoken here",
            data={"supported": [*HANDSHAKE_VERSIONS, *VERSIONS], "requested": str(version)[:40]},
        )


class _Message(msgspec.Struct, gc=False):
    """The members that a request can have; others are ignored."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Message).decode


class _Command(str):
    """A command of the session with the method of its request, and the fact on which the answer depends: the version that the
    host asked for, or the number of the first tool. A table by request id would not do: a host may use an id twice in one read.
    """

    __slots__ = ("fact", "method")

    def __new__(cls, command: str, method: str, fact: Any) -> Self:
        made = super().__new__(cls, command)
        made.method, made.fact = method, fact
        return made


WRAPPED_CALL: Final = _Command(CALL, "tools/call", True)
"""A call of a tool whose structured content is always `{result: value}`."""


class McpConnection:
    """A server's side of one connection. Writing methods may be called from any thread, and return pieces of one message."""

    raw_tail = False
    """The protocol has no raw tails; `initialize` of a session sets what its arguments say, which is never this."""

    def __init__(self, framer: Framer[ServerEvent], limits: Limits = DEFAULTS) -> None:
        self.framer = framer
        self._limits = limits
        self._shakes_hands = False
        self._wrapping: frozenset[str] = frozenset()  # tools whose structured content is `{result: value}`, as listed
        self._progress: dict[RequestId, Any] = {}  # the progress tokens of calls
        self._cancelled: set[RequestId] = set()  # those that get no answer; also some that were answered before
        framer.deliver(self._read, self._refuse)

    # in

    def _read(self, json: memoryview, tail: bytes | None, nbytes: int) -> ServerEvent:
        try:
            message = _decode(json)
        except (ValueError, RecursionError):
            return self._judge(json)
        request_id = message.id
        if request_id is msgspec.UNSET:
            return self._notified(message.method, message.params, nbytes)
        if type(request_id) is int:
            if not -MAX_ID <= request_id <= MAX_ID:
                return Malformed(InvalidRequest(f'"id" must be a string, or a whole number up to {MAX_ID}'))
        elif len(cast("str", request_id)) > self._limits.max_name:
            return Malformed(InvalidRequest(f'"id" has more than max_name, {self._limits.max_name} characters'))
        try:
            return self._requested(request_id, message.method, message.params, nbytes)
        except RrextError as error:
            return Malformed(error, request_id)

    def _requested(self, request_id: RequestId, method: str, params: dict[str, Any], nbytes: int) -> Request:
        meta = params.get("_meta")
        if not self._shakes_hands and isinstance(meta, dict):
            version = cast("dict[str, Any]", meta).get(VERSION_KEY)
            if version is not None and version not in VERSIONS and method != "initialize":
                raise UnsupportedVersion(version)
        if method == "tools/call":
            arguments = self._call(request_id, params, meta)
            wraps = arguments["tool"] in self._wrapping
            return Request(request_id, WRAPPED_CALL if wraps else CALL, arguments, None, nbytes)
        command, arguments, fact = "rrext_ping", {}, None  # a ping and a discovery
        if method == "tools/list":
            command, arguments, fact = "tools", {"format": "mcp"}, start_of(params.get("cursor"))
        elif method == "initialize":
            command, arguments, fact = "initialize", _client(params.get("clientInfo")), params.get("protocolVersion")
        elif method not in ("ping", "server/discover"):
            raise UnknownCommand(f"Method not found: {method[: self._limits.max_name]}")
        return Request(request_id, _Command(command, method, fact), arguments, None, nbytes)

    def _call(self, request_id: RequestId, params: dict[str, Any], meta: Any) -> dict[str, Any]:
        name = params.get("name")
        if not isinstance(name, str):
            raise InvalidArguments.at("/name", "expected the name of a tool")
        arguments: dict[str, Any] = {"subcommand": "tool", "tool": name, "input": params.get("arguments", {})}
        if not isinstance(meta, dict):
            return arguments
        timeout, token = cast("dict[str, Any]", meta).get(TIMEOUT_KEY), cast("dict[str, Any]", meta).get("progressToken")
        if timeout is not None:
            arguments["timeout"] = timeout
        if token is not None:
            if type(token) is not int and not isinstance(token, str):
                raise InvalidArguments.at("/_meta/progressToken", "expected a string or a whole number")
            self._progress.setdefault(request_id, token)
            arguments["progress"] = True
        return arguments

    def _notified(self, method: str, params: dict[str, Any], nbytes: int) -> ServerEvent:
        if method == "notifications/cancelled" and isinstance(request_id := params.get("requestId"), int | str):
            if len(self._cancelled) > self._limits.max_inflight:
                self._cancelled.clear()
            self._cancelled.add(request_id)
            return Request(None, "cancel", {"requestId": request_id}, None, nbytes)
        return Ignored(f"nothing is done for {method[:100]}")

    def _judge(self, json: memoryview) -> ServerEvent:
        """The event of a message that is no request: an answer to a request of ours, or a mistake."""
        try:
            value = decode(json)
        except ParseError as error:
            return self._refuse(error, json[: self._limits.id_recovery])
        if not isinstance(value, dict):
            return Malformed(InvalidRequest("a message must be one JSON object: batches are not taken"))
        members = cast("dict[str, Any]", value)
        if "method" not in members and ("result" in members or "error" in members):
            return Ignored("nothing was asked of the client")
        request_id = members.get("id")
        usable = request_id if isinstance(request_id, str) or (type(request_id) is int and abs(request_id) <= MAX_ID) else None
        if members.get("jsonrpc") != "2.0":
            return Malformed(InvalidRequest('"jsonrpc" must be "2.0"'), usable)
        if not isinstance(members.get("method"), str):
            return Malformed(InvalidRequest('"method" must be a string'), usable)
        if not isinstance(members.get("params", {}), dict):
            return Malformed(InvalidRequest('"params" must be an object'), usable)
        return Malformed(InvalidRequest('"id" must be a string or a whole number'))

    def _refuse(self, error: RrextError, start: memoryview) -> ServerEvent:
        from rrext.wire.recovery import recover_members  # few connections ever need it

        found = recover_members(start).get("id")
        return Malformed(error, found)

    # out

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """A success; `body` is the encoded object of the session's command."""
        if command == CALL:
            self._progress.pop(request_id, None)
            return self._result(request_id, content_of(body, wraps=isinstance(command, _Command)))
        assert isinstance(command, _Command)
        if command.method == "initialize":
            self._shakes_hands = True
            return self._result(request_id, encode_own(self._handshake(command.fact))[1:-1])
        if command.method == "server/discover":
            return self._result(request_id, encode_own(self._discovery())[1:-1])
        if command.method == "tools/list":
            members, self._wrapping = listing(body, command.fact)
            cached = b"" if self._shakes_hands else b',"ttlMs":%d,"cacheScope":"private"' % (TTL * 1000)
            return self._result(request_id, members + cached)
        return self._result(request_id, b"")

    def result_tail(self, request_id: RequestId, command: str, body: bytes, tail: bytes, member: str = "result") -> list[bytes]:
        """A success that consists of bytes."""
        self._progress.pop(request_id, None)
        return self._result(request_id, content_of_bytes(tail))

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """A failure: of a tool as a result, so that the model sees it; of anything else as an error of JSON-RPC.

        A request that its client cancelled gets no answer, as the protocol wants it.
        """
        if request_id is not None:
            self._progress.pop(request_id, None)
            if isinstance(error, Cancelled) and request_id in self._cancelled:
                self._cancelled.discard(request_id)
                return [b""]
            if command == CALL and not isinstance(error, _NO_RESULTS):
                return self._result(request_id, content_of_error(error))
        parts = wire_error(error)
        data = {**parts.data, "code": parts.code} | ({} if parts.hint is None else {"hint": parts.hint})
        number = NUMBERS.get(parts.code, OTHER_NUMBER)
        failure = {"code": number, "message": parts.message, "data": data}
        known = {} if request_id is None else {"id": request_id}
        return self.framer.frame([encode_own({"jsonrpc": "2.0", **known, "error": failure})])

    def event(self, name: str, body: bytes, tail: bytes | None = None, member: str = "chunk") -> list[bytes]:
        """The progress of a call. The protocol has no other event for a call."""
        told: dict[str, Any] = msgspec.json.decode(body)
        token = self._progress.get(told.pop("request"))
        if name != "rrext_progress" or token is None:
            return [b""]
        params = {"progressToken": token, **told}
        return self.framer.frame([encode_own({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})])

    def _result(self, request_id: RequestId, members: bytes) -> list[bytes]:
        written = b"%d" % request_id if type(request_id) is int else quote(cast("str", request_id))
        if not self._shakes_hands:
            members = b'"resultType":"complete"%b%b' % (b"," if members else b"", members)
        return self.framer.frame([b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (written, members)])

    def _handshake(self, wanted: object) -> dict[str, Any]:
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER}

    def _discovery(self) -> dict[str, Any]:
        versions = [*VERSIONS, *reversed(HANDSHAKE_VERSIONS)]
        found = {"supportedVersions": versions, "capabilities": CAPABILITIES, "cacheScope": "private", "ttlMs": 0}
        return {**found, "_meta": {SERVER_KEY: SERVER}}


def _client(info: Any) -> dict[str, Any]:
    """The arguments of a session's `initialize`."""
    given = cast("dict[str, Any]", info) if isinstance(info, dict) else {}
    name, version = given.get("name"), given.get("version")
    found = {"clientName": name, "clientVersion": version}
    return {key: value for key, value in found.items() if isinstance(value, str)}
