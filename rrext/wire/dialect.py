"""A dialect: it makes events of the bytes of one message, and the bytes of one message of events. It knows no header."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, TypeAlias

from rrext.errors import ParseError, RrextError
from rrext.limits import DEFAULTS, MAX_COPIED_PAYLOAD, Limits
from rrext.wire.codec import decode
from rrext.wire.messages import ClientEvent, Malformed, RequestId, ServerEvent

DialectName: TypeAlias = Literal["dap", "jsonrpc"]

Members: TypeAlias = dict[str, int | str | None]
"""Top-level members that were found in a body. None: it is there, and is neither a usable integer nor a string."""


def pieces_of(head: bytes, payload: bytes) -> list[bytes]:
    """`head`, `payload` and a closing brace, as the pieces of one message."""
    return [b"%b%b}" % (head, payload)] if len(payload) <= MAX_COPIED_PAYLOAD else [head, payload, b"}"]


class Dialect(ABC):
    """The messages of one connection, in one dialect. Writing methods may be called from any thread.

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
        """`read_request` of a body that is decoded already."""

    @abstractmethod
    def request_id(self, members: Members) -> RequestId | None:
        """The id of a request of which only these members are known."""

    @abstractmethod
    def result(self, request_id: RequestId, command: str, body: bytes) -> list[bytes]:
        """A success; `body` is an encoded object."""

    @abstractmethod
    def error(self, request_id: RequestId | None, command: str, error: RrextError) -> list[bytes]:
        """A failure; without id if the request had none that can be used."""

    @abstractmethod
    def event(self, name: str, body: bytes) -> list[bytes]:
        """An event; `body` is an encoded object."""

    # a client's side

    @abstractmethod
    def read_answer(self, json: memoryview, tail: bytes | None, nbytes: int) -> ClientEvent:
        """The event of a message of the server."""

    @abstractmethod
    def judge_answer(self, value: Any, tail: bytes | None) -> ClientEvent:
        """`read_answer` of a body that is decoded already."""

    @abstractmethod
    def answer_id(self, members: Members) -> RequestId | None:
        """The id of the request that is answered by a message of which only these members are known."""

    @abstractmethod
    def request(self, command: str, arguments: dict[str, Any]) -> tuple[RequestId, bytes]:
        """A request under the next free id. Raises `ValueError`, which names the place, for values outside of JSON."""

    # the careful way

    def refused_request(self, error: RrextError, start: memoryview) -> ServerEvent:
        """A request that cannot be read, given the first bytes of its body."""
        from rrext.wire.recovery import recover_members  # few connections ever need it

        return Malformed(error, self.request_id(recover_members(start)))

    def refused_answer(self, error: RrextError, start: memoryview) -> ClientEvent:
        """An answer that cannot be read, given the first bytes of its body."""
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
