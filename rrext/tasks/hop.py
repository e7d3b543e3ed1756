"""The connection between the server and a worker: messages of the server, and windows for those of the worker.

`HopMessages` writes requests and reads answers and events, on the server's side. A worker sends the messages of the calls of
a connection while few bytes of it are on the way; the rest waits in the worker, and calls of that connection that have not
begun wait too. The server gives credit as the outbox of the client has room. So a client that does not read keeps neither
memory of the server nor the pipe, which all connections of the worker share. Each connection may send one message, however
large: the large ones of all connections take turns, and small ones pass between them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.events.records import CallEnded, CallStarted, PipeClosed, PipeOpened
from rrext.engine.interface import operations
from rrext.engine.interface.rare_operations import PROFILE_COMMANDS
from rrext.errors import RrextError, ToolError, error_from_wire
from rrext.limits import LARGE_RESULT, MIB, Limits
from rrext.server.outbox import Outbox
from rrext.tasks.settings import MAX_ANY, ROUTE, without_limits
from rrext.wire.framing import ContentLength

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rrext.engine.host.host import Host
    from rrext.engine.interface.call import Outlet
    from rrext.server.call_feed import FeedPort, LateEvent, Questions
    from rrext.wire.connection import ServedConnection


HOP_WINDOW: Final = MIB
"""Bytes of a connection on their way from a worker to its client before further ones wait: enough to keep a fast client busy,
and little beside the answers that wait for a slow one."""

CREDIT: Final = HOP_WINDOW // 4
"""Bytes for which credit is given at once: a message for each answer would cost more than the answer."""

_HEADER_END: Final = b"\r\n\r\n"


def _body_size(pieces: Sequence[bytes]) -> int:
    """The bytes of a message behind its header block, as the server counts them."""
    size = len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
    return size - pieces[0].index(_HEADER_END) - len(_HEADER_END)


class LargeTurns:
    """The large messages of a worker, which enter the way to the server one after the other, when little waits on it.

    Windows have their turn in the order in which they asked for it.
    """

    __slots__ = ("_host", "_line", "_outbox", "_turn")

    def __init__(self, outbox: Outbox, host: Host) -> None:
        self._outbox = outbox
        self._host = host
        self._line: deque[HopWindow] = deque()
        self._turn: HopWindow | None = None

    def lets(self, window: HopWindow) -> bool:
        """Whether a large message of a window may leave now. From any thread."""
        return window is self._turn or (self._has_room() and not self._line)

    def wait(self, window: HopWindow) -> None:
        """Let a window write at its turn. From any thread."""
        self._host.loop.call_soon_threadsafe(self._join, window)

    def _join(self, window: HopWindow) -> None:
        self._line.append(window)
        if len(self._line) == 1:
            self._host.spawn(self._take_turns(), "large messages")

    async def _take_turns(self) -> None:
        while self._line:
            await self._outbox.until(self._has_room)
            self._turn = self._line[0]
            self._turn.retry()
            self._turn = None
            self._line.popleft()

    def _has_room(self) -> bool:
        return self._outbox.size <= HOP_WINDOW


class HopWindow(Outbox):
    """What waits of a connection in a worker, in order, and the bytes of its messages that are on the way.

    `send` and `has_room_for` may be called from any thread. It is full while more waits than may be on the way, so that answers
    of a batch that goes on without credit hold up no call. Bytes are credited, not messages: two threads that send at once may
    count their messages in one order and send them in the other.
    """

    __slots__ = ("_action", "_guard", "_late", "_on_the_way", "_port", "_turns", "_window")

    def __init__(self, port: FeedPort, loop: asyncio.AbstractEventLoop, turns: LargeTurns) -> None:
        super().__init__(self, HOP_WINDOW, loop, self._room)
        self._turns = turns
        self._port = port
        self._guard = Lock()
        self._on_the_way = 0
        self._window = HOP_WINDOW
        self._action: Callable[[], None] | None = None
        self._late: set[LateEvent] = set()

    @property
    def held(self) -> int:
        """What waits here, and what the server has not passed on; the little is not counted for which no credit was due yet."""
        on_the_way = 0 if self.is_broken or self._on_the_way <= CREDIT else self._on_the_way
        return self.size + on_the_way

    def has_room_for(self, pieces: Sequence[bytes]) -> bool:
        """Whether a message may leave at once, which the caller sends then; it counts from now on."""
        size = _body_size(pieces)
        with self._guard:
            if self.size or self._on_the_way >= self._window or (size > LARGE_RESULT and not self._has_turn()):
                return False
            self._on_the_way += size
        return True

    def _has_turn(self) -> bool:
        """Whether a large message may leave, if there is credit for it."""
        return self._window == MAX_ANY or self._turns.lets(self)

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send a message of the connection, now or when there is credit for it, and its turn if it is large."""
        if self.has_room_for(pieces):
            self._port.send(pieces)
        else:
            self.keep(pieces)

    def keep(self, pieces: Sequence[bytes]) -> None:
        """Let a message wait, in one piece: it leaves as a whole."""
        super().send(pieces if len(pieces) == 1 else [b"".join(pieces)])

    def give(self, nbytes: int) -> None:
        """Take credit for messages of so many bytes, which the server has passed on. From any thread."""
        with self._guard:
            self._on_the_way = max(0, self._on_the_way - nbytes)  # the refusal of a request that became no call never counted
        self._go_on()

    def open(self) -> None:
        """Let all leave from now on: the connection to the server ends."""
        self._window = MAX_ANY
        self.retry()

    def _go_on(self) -> None:
        with self._guard:
            action, self._action = self._action, None
        if action is not None:
            action()

    # as the sink of its own queue

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Pass messages on, as far as the credit goes."""
        taken: list[bytes] = []
        with self._guard:
            for piece in pieces:
                message: Any = piece  # a whole one
                size = _body_size([message])
                if self._on_the_way >= self._window or (size > LARGE_RESULT and not self._has_turn()):
                    break
                self._on_the_way += size
                taken.append(message)
        if taken:
            self._port.send(taken)
        return sum(map(len, taken))

    def when_writable(self, action: Callable[[], None]) -> None:
        """Call `action` when there is credit; a large message has its turn then."""
        with self._guard:
            if self._on_the_way >= self._window:
                self._action = action
                return
        first: Any = self._queue[0]
        if _body_size([first]) > LARGE_RESULT:
            self._turns.wait(self)
        else:
            self._loop.call_soon_threadsafe(action)

    # as the port of the feeds of its calls

    @property
    def outbox(self) -> Outbox:
        """Itself."""
        return self

    @property
    def connection(self) -> ServedConnection:
        """What gives messages their form."""
        return self._port.connection

    @property
    def questions(self) -> Questions:
        """The questions that wait for an answer."""
        return self._port.questions

    def late_event(self, event: LateEvent) -> None:
        """Remember an event that waits for room."""
        self._late.add(event)
        self.want_room()

    def _room(self) -> None:
        """There is room: send delayed events."""
        while self._late and not self.is_full:
            self._late.pop().catch_up()


class HopCredit:
    """The credit of a connection that the server owes a worker. `give` sends it some for that many bytes. On the loop.

    It waits long before an outbox is full: else the bytes of a client that reads nothing would be there and in the worker.
    """

    __slots__ = ("_give", "_host", "_is_over", "_is_waiting", "_outlet", "nbytes")

    def __init__(self, outlet: Outlet, host: Host, give: Callable[[int], object]) -> None:
        self._outlet = outlet
        self._host = host
        self._give = give
        self.nbytes = 0
        self._is_waiting = self._is_over = False

    def took(self, nbytes: int) -> None:
        """Count a message of the connection, and return credit if there is room for more."""
        self.nbytes += nbytes
        if self.nbytes > CREDIT and not self._is_waiting:
            self._settle()

    def _settle(self) -> None:
        if self._has_room():
            self._return()
        else:
            self._is_waiting = True
            self._host.spawn(self._wait(), "credit of a slow client")

    def _has_room(self) -> bool:
        return self._outlet.held <= HOP_WINDOW and not self._outlet.is_full

    async def _wait(self) -> None:
        await self._outlet.until(lambda: self._is_over or self._has_room())
        self._is_waiting = False
        self._return()

    def _return(self) -> None:
        nbytes, self.nbytes = self.nbytes, 0
        if not self._is_over:
            self._give(nbytes)

    def end(self) -> None:
        """Give no more: the connection has ended."""
        self._is_over = True


COMMANDS: Final[dict[type[operations.Operation], bytes]] = {
    operations.Tool: b'"rrext_process","arguments":{"subcommand":"tool",',
    operations.Open: b'"rrext_process","arguments":{"subcommand":"open",',
    operations.Write: b'"rrext_process","arguments":{"subcommand":"write",',
    operations.Close: b'"rrext_process","arguments":{"subcommand":"close",',
    operations.ListTools: b'"tools","arguments":{',
    operations.ListStores: b'"rrext_process","arguments":{"subcommand":"stores",',
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


_decode: Final = msgspec.json.Decoder(Incoming).decode


class HopMessages:
    """Writes requests with growing numbers, and reads what comes back: `on_message(message, body, tail, nbytes)`."""

    def __init__(self, limits: Limits, on_message: Callable[[Incoming, bytes, bytes | None, int], None]) -> None:
        self.framer: ContentLength[Any] = ContentLength(without_limits(limits))
        self.framer.deliver(self._read, self._refused)
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
            message = _decode(json)
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
    from rrext.engine.interface.rare_operations import PROFILE_COMMANDS

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
