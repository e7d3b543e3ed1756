"""The child's side of a child process: its streams, its settings, its answers and its end.

Server and child send frames to each other:

length  4 bytes: of the message
call    8 bytes: the number of the call, the same in its request, its answer and its cancel message
message msgpack
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final, TypeVar

import msgspec

from rrext.errors import InternalError, RrextError, error_from_wire

S = TypeVar("S", bound=msgspec.Struct)

LEFT_TO_SERVER: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals for a whole process group. The server decides their meaning, and the child process ends after the server."""


class AnswerStream:
    """The way of answers to the server. Threads may share it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, call: int, answer: Answer) -> None:
        """Send the answer of a call. No error if the server is gone: reading the next request tells that."""
        data = frame(call, answer)
        with self._lock, contextlib.suppress(OSError):
            self._stream.write(data)
            self._stream.flush()


def begin(settings: type[S]) -> tuple[BinaryIO, AnswerStream, S]:
    """Leave signals to the server, and return the requests, the way of the answers, and the settings, the first message.

    Ends the process if the server is gone.
    """
    for number in LEFT_TO_SERVER:
        signal.signal(number, signal.SIG_IGN)
    requests, answers = private_streams()
    received = receive(requests)
    given = sys.exit() if received is None else msgspec.msgpack.decode(received[1], type=settings)
    return requests, AnswerStream(answers), given


def private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Move the standard streams to new descriptors: output that a library prints goes to the standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b") as nothing:
        for number in (0, 1):
            os.dup2(nothing.fileno(), number)
    with contextlib.suppress(OSError):  # a server may have no standard error
        os.dup2(2, 1)
    return requests, answers


def answer_of(function: Callable[[], Any], what: str) -> Answer:
    """Call the function; return its result, or its error, as an answer. `what` is the subject of the message about a bug."""
    try:
        return Done(msgspec.json.encode(function()))
    except RrextError as error:
        return Failed.of(error)
    except BaseException:
        traceback.print_exc()
        return Failed.of(InternalError(f"{what} failed; the server's log has it"))


@contextlib.contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """A block at the end of the process, which ends the process after so many seconds: a statement that nothing stops must
    not keep a process without a server alive."""
    leaving = threading.Timer(seconds, os._exit, (1,))
    leaving.daemon = True
    leaving.start()
    yield
    leaving.cancel()


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
