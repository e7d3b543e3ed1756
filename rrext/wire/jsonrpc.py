"""The JSON-RPC 2.0 dialect: `method` is the command, `params` its arguments, `result` the body; events are notifications."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal, cast

import msgspec

from rrext.errors import NUMBERS, InvalidRequest, RrextError, error_from_wire, number_of
from rrext.limits import DEFAULTS, Limits
from rrext.wire.codec import encode, encode_own, quote
from rrext.wire.dialect import Dialect, Members, pieces_of, wire_error
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

CANCEL = "$/cancelRequest"
"""The Language Server Protocol's notification; it arrives as the command `cancel`."""


class _Request(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A request with the usual members and no others."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | None = None


class _Sent(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """A request as rrext's client writes it."""

    id: int
    method: str
    params: dict[str, Any]


class _Result(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An answer with the members that a success has."""

    jsonrpc: Literal["2.0"]
    id: int | str
    result: Any


_decode_request = msgspec.json.Decoder(_Request).decode
_decode_result = msgspec.json.Decoder(_Result).decode

_CODES = {number: code for code, number in NUMBERS.items()}


class JsonRpc(Dialect):
    """JSON-RPC 2.0 messages."""

    name = "jsonrpc"

    __slots__ = ("_ids",)

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        super().__init__(limits)
        self._ids = count(1)

    # a server's side

    def read_request(self, json: memoryview, tail: bytes | None, nbytes: int) -> ServerEvent:
        try:
            request = _decode_request(json)
        except (ValueError, RecursionError):
            return self._read_request_carefully(json, tail, nbytes)
        request_id = request.id
        if type(request_id) is int:
            if not -MAX_ID <= request_id <= MAX_ID:
                return _bad_id()
        elif request_id is msgspec.UNSET:
            return _request(None, request.method, request.params, tail, nbytes)
        elif len(cast("str", request_id)) > self._limits.max_name:
            return _long_id(self._limits.max_name)
        return _request(request_id, request.method, request.params, tail, nbytes)

    def judge_request(self, value: Any, tail: bytes | None, nbytes: int) -> ServerEvent:
        if isinstance(value, list):
            return Malformed(InvalidRequest("batches are not taken: send one message per frame"))
        if not isinstance(value, dict):
            return Malformed(InvalidRequest("a message must be one JSON object"))
        members = cast("dict[str, Any]", value)
        request_id = _usable(members.get("id"))
        if isinstance(request_id, str) and len(request_id) > self._limits.max_name:
            return _long_id(self._limits.max_name)
        if members.get("jsonrpc") != "2.0":
            return Malformed(_wrong_version(members), request_id)
        if "method" not in members and ("result" in members or "error" in members):
            return Ignored("a server takes no response")
        if "id" in members and request_id is None:
            return _bad_id()
        method, params = members.get("method"), members.get("params")
        if not isinstance(method, str):
            return Malformed(InvalidRequest('"method" must be a string'), request_id)
        if params is not None and not isinstance(params, dict):
            return Malformed(InvalidRequest('"params" must be an object: arguments go by name'), request_id)
        return _request(request_id, method, cast("dict[str, Any] | None", params), tail, nbytes)

    def request_id(self, members: Members) -> RequestId | None:
        return _usable(members.get("id"))

    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        written = b"%d" % request_id if type(request_id) is int else quote(cast("str", request_id))
        return pieces_of(b'{"jsonrpc":"2.0","id":%b,"result":' % written, body)

    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        parts = wire_error(error)
        data: dict[str, Any] = {**parts.data, "code": parts.code}
        if parts.hint is not None:
            data["hint"] = parts.hint
        body = {"code": number_of(parts.code), "message": parts.message, "data": data}
        return [encode_own({"jsonrpc": "2.0", "id": request_id, "error": body})]

    def event(self, name: str, body: bytes) -> list[bytes]:
        return pieces_of(b'{"jsonrpc":"2.0","method":%b,"params":' % quote(name), body)

    # a client's side

    def read_answer(self, json: memoryview, tail: bytes | None, nbytes: int) -> ClientEvent:
        try:
            answer = _decode_result(json)
        except (ValueError, RecursionError):
            return self._read_answer_carefully(json, tail)
        return Response(answer.id, None, _with_data(answer.result, tail), None, tail)

    def judge_answer(self, value: Any, tail: bytes | None) -> ClientEvent:
        if not isinstance(value, dict):
            return Malformed(InvalidRequest("a message must be one JSON object"))
        members = cast("dict[str, Any]", value)
        if isinstance(name := members.get("method"), str):
            if "id" in members:
                return Ignored("a client takes no request")
            return Event(name, _with_data(members.get("params") or {}, tail), tail)
        return _response(members, tail)

    def answer_id(self, members: Members) -> RequestId | None:
        return _usable(members.get("id"))

    def request(self, command: str, arguments: dict[str, Any]) -> tuple[RequestId, bytes]:
        number = next(self._ids)
        return number, encode(arguments, _Sent(number, command, arguments))

    def request_as(self, request_id: RequestId | None, command: str, arguments: dict[str, Any]) -> bytes:
        of_id = {} if request_id is None else {"id": request_id}
        return encode({"jsonrpc": "2.0", **of_id, "method": command, "params": arguments})


def _request(
    request_id: RequestId | None, method: str, params: dict[str, Any] | None, tail: bytes | None, nbytes: int
) -> Request:
    arguments = params or {}
    if method == CANCEL:
        method = "cancel"
        if "id" in arguments:
            arguments["requestId"] = arguments.pop("id")
    return Request(request_id, method, arguments, tail, nbytes)


def _usable(value: object) -> RequestId | None:
    if type(value) is int:
        return value if -MAX_ID <= value <= MAX_ID else None
    return value if isinstance(value, str) else None


def _bad_id() -> Malformed:
    return Malformed(InvalidRequest(f'"id" must be a string, or a whole number up to {MAX_ID}'))


def _long_id(most: int) -> Malformed:
    return Malformed(InvalidRequest(f'"id" has more than max_name, {most} characters'))


def _wrong_version(members: dict[str, Any]) -> InvalidRequest:
    if "jsonrpc" not in members and "type" in members:
        return InvalidRequest("this connection speaks JSON-RPC 2.0, and this is a DAP-style message")
    return InvalidRequest('"jsonrpc" must be "2.0"')


def _with_data(body: Any, tail: bytes | None) -> Any:
    if tail is None:
        return body
    whole = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    whole["data"] = tail
    return whole


def _response(members: dict[str, Any], tail: bytes | None) -> ClientEvent:
    request_id, failure = _usable(members.get("id")), members.get("error")
    if members.get("jsonrpc") != "2.0" or (failure is None and "result" not in members):
        return Malformed(InvalidRequest("neither an answer nor an event of JSON-RPC 2.0"), request_id)
    error = None if failure is None else _failure(failure)
    if request_id is None and error is None:
        return Malformed(InvalidRequest("an answer without a usable id"))
    return Response(request_id, None, _with_data(members.get("result", {}), tail), error, tail)


def _failure(error: Any) -> RrextError:
    members = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    number, message, data = members.get("code"), members.get("message"), members.get("data")
    more: dict[str, Any] = dict(cast("dict[str, Any]", data)) if isinstance(data, dict) else {}
    code, hint = more.pop("code", None), more.pop("hint", None)
    if not isinstance(code, str):
        code = _CODES.get(number, str(number)) if isinstance(number, int) else "tool_failed"
    return error_from_wire(
        code, message if isinstance(message, str) else "failed", hint if isinstance(hint, str) else None, more
    )
