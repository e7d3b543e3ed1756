"""The protocol between a server and its child processes: frames, and the results and errors of calls.

length  4 bytes: of the message
call    8 bytes: the number of the call, the same in its request, its answer and its cancel message
message msgpack
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Final

import msgspec

from rrext.errors import RrextError, error_from_wire

_ENCODER: Final = msgspec.msgpack.Encoder()

HEAD: Final = struct.Struct("<IQ")
"""The maximum size of a message is 4 GB. The longest, a page of 1000 chunks of 200,000 characters, is far below."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """The result of a call, as JSON."""

    result: bytes


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The error of a call. `data` is JSON."""

    code: str
    message: str
    hint: str | None = None
    data: bytes = b"{}"

    @classmethod
    def of(cls, error: RrextError) -> Failed:
        """Make the message for an error."""
        return cls(error.code, error.message, error.hint, msgspec.json.encode(error.data))

    def error(self) -> RrextError:
        """Make the error from the message."""
        return error_from_wire(self.code, self.message, self.hint, msgspec.json.decode(self.data))


Answer = Done | Failed
"""An answer of the process to a call."""


def frame(call: int, message: msgspec.Struct) -> bytearray:
    """Encode a message as a frame; `call` is the number of its call."""
    data = bytearray(HEAD.size)
    _ENCODER.encode_into(message, data, HEAD.size)  # no second copy: a message may hold a document
    HEAD.pack_into(data, 0, len(data) - HEAD.size, call)
    return data


def receive(stream: BinaryIO) -> tuple[int, bytes] | None:
    """Receive the next message and its call, not yet decoded; None if the other end is gone."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    size, call = HEAD.unpack(head)
    data = stream.read(size)
    return (call, data) if len(data) == size else None
