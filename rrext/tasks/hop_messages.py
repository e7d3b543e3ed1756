"""The messages between server and worker, on the server's side: requests out, answers and events in.

Calls and pipes whose begin was published get an end, also from a worker that died.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from itertools import count
from time import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.records import CallEnded, CallStarted, PipeClosed, PipeOpened
from rrext.engine.interface import operations
from rrext.engine.interface.profile_operations import PROFILE_COMMANDS
from rrext.errors import RrextError, ToolError, error_from_wire
from rrext.limits import Limits
from rrext.tasks.settings import ROUTE, without_limits
from rrext.wire.framing import ContentLength

if TYPE_CHECKING:
    from collections.abc import Iterator


COMMANDS: Final[dict[type[operations.Operation], bytes]] = {
    operations.Tool: b'"rrext_process","arguments":{"subcommand":"tool",',
    operations.Open: b'"rrext_process","arguments":{"subcommand":"open",',
    operations.Write: b'"rrext_process","arguments":{"subcommand":"write",',
    operations.Close: b'"rrext_process","arguments":{"subcommand":"close",',
    operations.ListTools: b'"tools","arguments":{',
    operations.ResolveTools: b'"rrext_tools_resolve","arguments":{',
    operations.CallTool: b'"rrext_tools_call","arguments":{',
    **{shape: b'"%b","arguments":{' % command.encode() for command, shape in PROFILE_COMMANDS.items()},
}
"""Operation that a worker runs → the beginning of its request."""

_ROUTE: Final = b'"%b":' % ROUTE.encode()

_ANSWER: Final = re.compile(rb'\{"seq":\d+,"type":"response","request_seq":(\d+),')
"""The beginning of an answer as workers write it."""

log: Final = logging.getLogger("rrext.tasks")

_encode = msgspec.json.Encoder().encode
_EMPTY: Final = msgspec.Raw(b"{}")


class Incoming(msgspec.Struct, gc=False):
    """A message of a worker: an answer, or an event if it has a name."""

    request_seq: int = 0
    success: bool = True
    body: msgspec.Raw = _EMPTY
    event: str = ""
    message: str = ""
    code: str = ""
    hint: str | None = None
    data: dict[str, Any] | None = None

    @property
    def error(self) -> RrextError:
        """The error of an answer, as the worker's engine raised it."""
        return error_from_wire(self.code, self.message, self.hint, self.data)


class HopMessages:
    """Writes requests with growing numbers, and reads what comes back: `on_message(message, body, tail, nbytes)`."""

    def __init__(self, limits: Limits, on_message: Callable[[Incoming, bytes, bytes | None, int], None]) -> None:
        self.framer: ContentLength[Any] = ContentLength(without_limits(limits))
        self.framer.deliver(self._read, self._refused)
        self._decode = msgspec.json.Decoder(Incoming).decode
        self.next_number: Callable[[], int] = count(1).__next__
        """The number of the next request."""
        self._on_message = on_message

    def operation(
        self,
        number: int,
        operation: operations.Operation,
        caller: int,
        request_id: int | str | None,
        left: float | None,
        tail: bytes | None,
        *,
        has_outbox: bool,
    ) -> list[bytes]:
        """The frame of an operation of a caller, which has `left` seconds if it has a deadline. `has_outbox` says whether its
        answer waits in one until a client reads.
        """
        kind = type(operation)
        given = _encode(operation)
        request = b'{"type":"request","seq":%d,"command":%b%b%b%b%b}' % (
            number,
            COMMANDS.get(kind) or _profile_command(kind),
            _ROUTE,
            _encode((caller, request_id, left, has_outbox)),
            b"," if len(given) > 2 else b"",
            given[1:],
        )
        return self.framer.frame([request], tail)

    def order(self, command: str, arguments: Any, tail: bytes | None = None, number: int | None = None) -> list[bytes]:
        """The frame of an order of the server."""
        number = self.next_number() if number is None else number
        head = b'{"type":"request","seq":%d,"command":"%b","arguments":' % (number, command.encode())
        return self.framer.frame([head + _encode(arguments) + b"}"], tail)

    def _read(self, json: memoryview, tail: bytes | None, nbytes: int) -> None:
        try:
            message = self._decode(json)
        except RecursionError:  # the worker wrote it where less of the stack was in use
            message = _unread(json)
        self._on_message(message, bytes(message.body), tail, nbytes)  # a copy: the memory is used again

    def _refused(self, error: RrextError, start: memoryview) -> None:
        raise error


def _unread(json: memoryview) -> Incoming:
    """A failure in place of an answer that is nested too deeply; an event of that kind is dropped."""
    answer = _ANSWER.match(json)
    log.error("a worker sent %s that is nested too deeply to be read", "an answer" if answer else "an event")
    number = int(answer[1]) if answer else 0
    return Incoming(number, success=False, code=ToolError.code, message="The result is nested too deeply to be passed on")


def _profile_command(kind: type[operations.Operation]) -> bytes:
    """The beginning of a request to the profiler of a worker; few servers get one."""
    from rrext.engine.interface.profile_operations import PROFILE_COMMANDS

    name = next(name for name, shape in PROFILE_COMMANDS.items() if shape is kind)
    return b'"%b","arguments":{' % name.encode()


class BegunEvents:
    """The begins without an end."""

    def __init__(self) -> None:
        self._calls: dict[int, CallStarted] = {}
        self._pipes: dict[int | None, PipeOpened] = {}

    def note(self, event: Any) -> None:
        """Note an event of the worker."""
        match event:
            case CallStarted():
                self._calls[event.call] = event
            case CallEnded():
                self._calls.pop(event.call, None)
            case PipeOpened():
                self._pipes[event.pipe_id] = event
            case PipeClosed():
                self._pipes.pop(event.pipe_id, None)
            case _:
                pass

    def ends(self, error: RrextError) -> Iterator[CallEnded | PipeClosed]:
        """The missing ends, which come from `error`."""
        now = time()
        for begun in self._calls.values():
            more = {"seconds": now - begun.time, "code": error.code, "message": error.message}
            yield CallEnded(**_fields(begun, CallEnded), **more)
        for opened in self._pipes.values():
            yield PipeClosed(**_fields(opened, PipeClosed), reason="terminated", seconds=now - opened.time)
        self._calls.clear()
        self._pipes.clear()


def _fields(begun: CallStarted | PipeOpened, ended: type[CallEnded | PipeClosed]) -> dict[str, Any]:
    """The fields that both events have."""
    both = set(begun.__struct_fields__) & set(ended.__struct_fields__)
    return {name: getattr(begun, name) for name in both} | {"time": time()}
