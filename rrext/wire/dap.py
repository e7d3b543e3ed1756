"""The DAP-style dialect: `{seq, type, command, arguments}` and `{seq, type, request_seq, command, success, body}`."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal, cast

import msgspec

from rrext.errors import InvalidRequest, RrextError, error_from_wire
from rrext.limits import DEFAULTS, MAX_COPIED_PAYLOAD, MAX_TEMPLATES, Limits
from rrext.wire.codec import encode, encode_own, quote
from rrext.wire.dialect import Dialect, Members, pieces_of, utf8, wire_error
from rrext.wire.messages import (
    MAX_ID,
    ClientEvent,
    Event,
    Ignored,
    Malformed,
    Request,
    RequestId,
    Response,
    ServerEvent,
)


class _Request(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The record of a request with exactly the usual members."""

    type: Literal["request"]
    seq: int
    command: str
    arguments: dict[str, Any] | None = None


class _Sent(msgspec.Struct, tag_field="type", tag="request", gc=False):
    """The record of a request that the client writes."""

    seq: int
    command: str
    arguments: dict[str, Any]


class _Success(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """The record of a success, with the members in the order in which rrext writes them, because that is read fastest."""

    seq: int = 0
    type: Literal["response"]
    request_seq: int
    command: str | None = None
    success: bool
    body: dict[str, Any] | None = None


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_success = msgspec.json.Decoder(_Success).decode


class Dap(Dialect):
    """The DAP-style dialect of one connection."""

    name = "dap"

    __slots__ = ("_seq", "_templates")

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__(limits)
        self._seq = count(1)
        self._templates: dict[str, bytes] = {}

    # a server's side

    def read_request(self, json: memoryview, tail: bytes | None, nbytes: int) -> ServerEvent:
        try:
            request = _decode_request(json)
        except (ValueError, RecursionError):
            return self._read_request_carefully(json, tail, nbytes)
        seq = request.seq
        if 0 < seq <= MAX_ID:
            return Request(seq, request.command, request.arguments or {}, tail, nbytes)
        return _bad_seq()

    def judge_request(self, value: Any, tail: bytes | None, nbytes: int) -> ServerEvent:
        if not isinstance(value, dict):
            return Malformed(InvalidRequest("a message must be one JSON object"))
        members = cast("dict[str, Any]", value)
        kind = members.get("type")
        if kind in ("response", "event"):
            return Ignored(f"a server takes no {kind}")
        if kind != "request":
            return Malformed(_wrong_kind(members), _usable(members.get("seq")))
        seq = _usable(members.get("seq"))
        if seq is None:
            return _bad_seq()
        command, arguments = members.get("command"), members.get("arguments")
        if not isinstance(command, str):
            return Malformed(InvalidRequest('"command" must be a string'), seq)
        if arguments is not None and not isinstance(arguments, dict):
            return Malformed(InvalidRequest('"arguments" must be an object'), seq)
        return Request(seq, command, cast("dict[str, Any]", arguments or {}), tail, nbytes)

    def request_id(self, members: Members) -> RequestId | None:
        return _usable(members.get("seq"))

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        template = self._templates.get(command) or self._template(command)
        if len(body) > MAX_COPIED_PAYLOAD:
            return [(template % (next(self._seq), request_id, b""))[:-1], body, b"}"]
        return [template % (next(self._seq), request_id, body)]

    def _template(self, command: str) -> bytes:
        name = quote(command).replace(b"%", b"%%")
        head = b'{"seq":%%d,"type":"response","request_seq":%%d,"command":%b,"success":true,"body":%%b}' % name
        if len(self._templates) < MAX_TEMPLATES:
            self._templates[command] = head
        return head

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        parts = wire_error(error)
        members: dict[str, Any] = {"seq": next(self._seq), "type": "response", "request_seq": _usable(request_id) or 0}
        members |= {"command": utf8(command), "success": False, "message": parts.message, "code": parts.code}
        if parts.hint is not None:
            members["hint"] = parts.hint
        if parts.data:
            members["data"] = parts.data
        return [encode_own(members)]

    def event(self, name: str, body: bytes) -> list[bytes]:
        return pieces_of(b'{"seq":%d,"type":"event","event":%b,"body":' % (next(self._seq), quote(name)), body)

    # a client's side

    def read_answer(self, json: memoryview, tail: bytes | None, nbytes: int) -> ClientEvent:
        try:
            answer = _decode_success(json)
        except (ValueError, RecursionError):
            return self._read_answer_carefully(json, tail)
        if not answer.success:
            return self._read_answer_carefully(json, tail)
        body = answer.body if tail is None and answer.body is not None else _with_data(answer.body, tail)
        return Response(answer.request_seq or None, answer.command, body, None, tail)

    def judge_answer(self, value: Any, tail: bytes | None) -> ClientEvent:
        if not isinstance(value, dict):
            return Malformed(InvalidRequest("a message must be one JSON object"))
        members = cast("dict[str, Any]", value)
        match members.get("type"):
            case "response":
                return _response(members, tail)
            case "event":
                return _event(members, tail)
            case kind:
                return Ignored(f"a client takes no message of type {str(kind)[:40]}")

    def answer_id(self, members: Members) -> RequestId | None:
        return _usable(members.get("request_seq"))

    def request(self, command: str, arguments: dict[str, Any]) -> tuple[RequestId, bytes]:
        seq = next(self._seq)
        return seq, encode(arguments, _Sent(seq, command, arguments))

    def request_as(self, request_id: RequestId | None, command: str, arguments: dict[str, Any]) -> bytes:
        return encode({"type": "request", "seq": request_id, "command": command, "arguments": arguments})


def _usable(seq: object) -> int | None:
    return seq if type(seq) is int and 0 < seq <= MAX_ID else None


def _bad_seq() -> Malformed:
    return Malformed(InvalidRequest(f'"seq" must be a whole number from 1 to {MAX_ID}'))


def _wrong_kind(members: dict[str, Any]) -> InvalidRequest:
    if "jsonrpc" in members:
        return InvalidRequest("this connection speaks DAP-style messages, and this is JSON-RPC")
    return InvalidRequest('"type" must be "request"')


def _with_data(body: Any, tail: bytes | None) -> dict[str, Any]:
    whole = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    if tail is not None:
        whole["data"] = tail
    return whole


def _response(members: dict[str, Any], tail: bytes | None) -> ClientEvent:
    request_seq, command = members.get("request_seq"), members.get("command")
    if type(request_seq) is not int:
        return Malformed(InvalidRequest("an answer without request_seq"))
    command = command if isinstance(command, str) else None
    body = _with_data(members.get("body"), tail)
    error = _failure(members) if members.get("success") is False else None
    return Response(request_seq or None, command, body, error, tail)


def _failure(members: dict[str, Any]) -> RrextError:
    code, message, hint, data = (members.get(key) for key in ("code", "message", "hint", "data"))
    return error_from_wire(
        code if isinstance(code, str) else "tool_failed",
        message if isinstance(message, str) else f"{members.get('command')} failed",
        hint if isinstance(hint, str) else None,
        cast("dict[str, Any]", data) if isinstance(data, dict) else None,
    )


def _event(members: dict[str, Any], tail: bytes | None) -> ClientEvent:
    name = members.get("event")
    if not isinstance(name, str):
        return Malformed(InvalidRequest("an event without a name"))
    return Event(name, _with_data(members.get("body"), tail), tail)
