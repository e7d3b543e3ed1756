"""The base class of dialects: conversion between the bytes of one message and its event, without headers, and the parts of an
error in a message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from rrext.errors import ParseError, RrextError
from rrext.limits import DEFAULTS, MAX_COPIED_PAYLOAD, Limits
from rrext.wire.codec import decode, encode
from rrext.wire.messages import ClientEvent, Malformed, RequestId, ServerEvent

DialectName: TypeAlias = Literal["dap", "jsonrpc"]

Members: TypeAlias = dict[str, int | str | None]
"""The top-level members found in a body. None: the member's value is neither a usable integer nor a string."""


def pieces_of(head: bytes, payload: bytes) -> list[bytes]:
    """`head`, `payload` and a closing brace, as the pieces of one message."""
    return [b"%b%b}" % (head, payload)] if len(payload) <= MAX_COPIED_PAYLOAD else [head, payload, b"}"]


class Dialect(ABC):
    """Reads and writes the messages of one connection. Writing methods may be called from any thread.

    A written message is a list of pieces to be joined: a large payload is one of them, uncopied.

    A message is first decoded into a record that has exactly the usual members, which is fast. If that fails for any
    reason, it is decoded as plain JSON and checked member by member.
    """

    name: ClassVar[DialectName]

    __slots__ = ("_limits",)

    def __init__(self, limits: Limits = DEFAULTS) -> None:
        self._limits = limits

    # a server's side

    @abstractmethod
    def read_request(self, json: memoryview, tail: bytes | None, nbytes: int) -> ServerEvent:
        """The event of a message of the client."""

    @abstractmethod
    def judge_request(self, value: Any, tail: bytes | None, nbytes: int) -> ServerEvent:
        """Like `read_request`, for a decoded body."""

    @abstractmethod
    def request_id(self, members: Members) -> RequestId | None:
        """The id of an unreadable request, from the members that were found."""

    @abstractmethod
    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """Write a success; `body` is an encoded object."""

    @abstractmethod
    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """Write a failure; without an id if the request had no usable one."""

    @abstractmethod
    def event(self, name: str, body: bytes) -> list[bytes]:
        """Write an event; `body` is an encoded object."""

    # a client's side

    @abstractmethod
    def read_answer(self, json: memoryview, tail: bytes | None, nbytes: int) -> ClientEvent:
        """The event of a message of the server."""

    @abstractmethod
    def judge_answer(self, value: Any, tail: bytes | None) -> ClientEvent:
        """Like `read_answer`, for a decoded body."""

    @abstractmethod
    def answer_id(self, members: Members) -> RequestId | None:
        """The id of the request that an unreadable message answers, from the members that were found."""

    @abstractmethod
    def request(self, command: str, arguments: dict[str, Any]) -> tuple[RequestId, bytes]:
        """Write a request with the next free id. Raises `ValueError`, which names the place, for values outside of JSON."""

    @abstractmethod
    def request_as(self, request_id: RequestId | None, command: str, arguments: dict[str, Any]) -> bytes:
        """Write a request with that id; None is a notification of JSON-RPC. Raises `ValueError` as `request` does."""

    # the careful way

    def refused_request(self, error: RrextError, start: memoryview) -> ServerEvent:
        """The event of an unreadable request, given the first bytes of its body."""
        from rrext.wire.recovery import recover_members  # few connections ever need it

        return Malformed(error, self.request_id(recover_members(start)))

    def refused_answer(self, error: RrextError, start: memoryview) -> ClientEvent:
        """The event of an unreadable answer, given the first bytes of its body."""
        from rrext.wire.recovery import recover_members

        return Malformed(error, self.answer_id(recover_members(start)))

    def _read_request_carefully(self, json: memoryview, tail: bytes | None, nbytes: int) -> ServerEvent:
        try:
            value = decode(json)
        except ParseError as error:
            return self.refused_request(error, json[: self._limits.id_recovery])
        return self.judge_request(value, tail, nbytes)

    def _read_answer_carefully(self, json: memoryview, tail: bytes | None) -> ClientEvent:
        try:
            value = decode(json)
        except ParseError as error:
            return self.refused_answer(error, json[: self._limits.id_recovery])
        return self.judge_answer(value, tail)


class WireError(msgspec.Struct, frozen=True):
    """The parts of an error that can be encoded for certain."""

    code: str
    message: str
    hint: str | None
    data: dict[str, Any]


def wire_error(error: RrextError) -> WireError:
    """The parts of an error. An answer must go out in any case: data of a tool that JSON cannot hold is left out, and
    the message says so."""
    message, data = error.message, error.data
    try:
        encode(data)
    except ValueError as reason:
        message, data = f"{message} (its data is left out: {reason})", {}
    hint = None if error.hint is None else utf8(error.hint)
    return WireError(utf8(error.code), utf8(message), hint, data)


def utf8(text: str) -> str:
    """Lone surrogates, which file names bring, as `?`."""
    return str(text).encode("utf-8", "replace").decode()
