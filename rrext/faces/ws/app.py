"""The WebSockets of a port: the app behind it, and each client, with its messages on their way to its session and its answers
on their way back. HTTP requests go to `faces/ws/endpoints.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from operator import itemgetter
from threading import Lock, get_ident
from typing import Any, Final, TypeAlias

import msgspec
from starlette.types import Receive, Scope, Send
from websockets.frames import CloseCode

from rrext.engine.interface.call import Caller, in_log
from rrext.engine.interface.totals import CallTimes
from rrext.errors import Cancelled, NotAuthenticated, RrextError
from rrext.faces.http.budget import NOTED, Budgets, UserBudget
from rrext.faces.http.door import Arrival, address_of, arrival_of
from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws.authentication import COMMANDS, PROBE, AuthArguments, Authentication, welcome
from rrext.faces.ws.endpoints import Endpoints
from rrext.faces.ws.protocol import CONNECTION, MAX_STRANGERS_MESSAGE, RawMessage, SocketProtocol
from rrext.limits import KIB, REQUESTS_PER_ITERATION
from rrext.server.commands import decode, probe_body, refuse_tail
from rrext.server.peer_end import CLOSED, DRAINED, Peer, RestartingTask
from rrext.server.process import ServingProcess
from rrext.server.session import Session
from rrext.wire.connection import ServerConnection
from rrext.wire.messages import Request


class WebApp:
    """Serves the clients of one port. `caller` is their caller without the user, `keys` says who they are, `metrics_keys` who
    operates the server.
    """

    def __init__(
        self, process: ServingProcess, caller: Caller, keys: UserTokens | None, metrics_keys: UserTokens | None = None
    ) -> None:
        process.engine.times = CallTimes(process.host.clock.now)
        self._process = process
        self._caller = caller
        self._keys = keys
        self.on_answer: Callable[[], object] = lambda: None
        self._budgets = Budgets(process.host.loop, process.limits.max_user_bytes, has_users=keys is not None)
        self._endpoints = Endpoints(process, caller, keys, self._budgets, lambda: self.on_answer(), metrics_keys)
        self._numbers = count(1)
        self._clients: set[SocketClient] = set()
        if keys is not None:
            keys.on_change.append(self._check_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or serve a WebSocket to its end."""
        if scope["type"] == "websocket":
            await self._serve(scope, receive, send)
        else:
            await self._endpoints(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        protocol: SocketProtocol = scope["extensions"][CONNECTION]
        protocol.refuse_garbled()
        client = SocketClient(
            self._process,
            protocol,
            send,
            msgspec.structs.replace(self._caller, connection_id=f"ws-{next(self._numbers)}", address=address_of(scope)),
            Authentication(self._keys),
            arrival_of(scope),
            self._budgets,
        )
        self._clients.add(client)
        try:
            await client.run(receive)
        finally:
            self._clients.discard(client)

    def _check_keys(self) -> None:
        for client in list(self._clients):
            client.check_key()

    async def run(self) -> None:
        """Wait for a cancel: what lives longer than a request has tasks of its own."""
        await self._process.host.loop.create_future()

    @property
    def is_busy(self) -> bool:
        """Whether a request over HTTP is unanswered; clients of WebSockets are peers of the process."""
        return self._endpoints.is_busy

    def drain(self) -> None:
        """Refuse new calls over HTTP."""
        self._endpoints.drain()

    def fail_all(self) -> None:
        """Answer the unanswered requests with an error."""
        self._endpoints.fail_all()


AUTH_TIMEOUT: Final = 30.0
"""Seconds until a client without a key is cut off."""

log: Final = logging.getLogger("rrext.server")


def joined(message: list[bytes], tail: bytes | None) -> list[bytes]:
    """The piece of a message: binary with a raw tail, which only clients get that asked for tails, else text."""
    if tail is None:
        return [b"".join(message)]
    return [RawMessage(b"".join([*message, b"\n", tail]))]


class SocketPeer(Peer):
    """The peer at a WebSocket. Its last answers leave also while the loop is stuck."""

    def __init__(self, process: ServingProcess, connection: ServerConnection, sink: MessageSink, caller: Caller) -> None:
        super().__init__(
            process.engine,
            connection,
            sink,
            host=process.host,
            limits=process.limits,
            caller=caller,
            recorder=process.recorder,
        )
        self._message_sink = sink

    def answer_without_loop(self) -> None:
        self._message_sink.go_without_loop()
        super().answer_without_loop()


class SocketClient:
    """Serves one WebSocket, until the client or the server ends it.

    `caller` is the caller without its user; `arrival` is told whether its client has shown a key.
    """

    def __init__(
        self,
        process: ServingProcess,
        protocol: SocketProtocol,
        send: Send,
        caller: Caller,
        authentication: Authentication,
        arrival: Arrival,
        budgets: Budgets,
    ) -> None:
        self._process = process
        self._protocol = protocol
        self._send = send
        self._authentication = authentication
        self._arrival = arrival
        self._loop = process.host.loop
        self._sink = MessageSink(protocol, self._loop)
        self._connection = ServerConnection(None, process.limits, join=joined)
        self._stranger = caller
        self.peer = SocketPeer(process, self._connection, self._sink, caller)
        self._session = self.peer.session
        self._reading = SocketReading(self._session, protocol, self._loop, self._take, self._without_room)
        self.peer.reading = self._reading
        self._session.client.memory = self._reading
        sink, outbox = self._sink, self._session.outbox
        outbox.unsent, sink.on_room = lambda: sink.unsent_bytes, outbox.want_room
        self._budgets = budgets
        self._patience: asyncio.TimerHandle | None = None
        self._set_user(authentication.user)

    async def run(self, receive: Receive) -> None:
        """Take messages until the connection ends."""
        process, peer = self._process, self.peer
        process.add(peer, None)
        self._farewell = RestartingTask(self._loop, self._close_at_end, f"client {self._stranger.connection_id}")
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                data = message.get("bytes")
                self._reading.take([(message["text"].encode(), False) if data is None else (data, True)])
        finally:
            self._sink.lose()
            peer.lost("the client is gone")
            await peer.ended()
            self._wait_no_longer()

    # in

    def _take(self, messages: Sequence[Received]) -> None:
        """Handle messages. A binary one may have raw bytes after its first line."""
        events: list[Any] = []
        for data, is_binary in messages:
            cut = data.find(b"\n") if is_binary else -1
            head, tail = (data, None) if cut < 0 else (memoryview(data)[:cut], data[cut + 1 :])
            event = self._connection.receive_message(head, tail)
            if isinstance(event, Request) and (event.command in COMMANDS or self._authentication.user is None):
                self._flush(events)
                self._handle_ours(event)
            else:
                events.append(event)
        self._flush(events)

    def _flush(self, events: list[Any]) -> None:
        if events:
            self._session.handle_all(events)
            events.clear()

    def _handle_ours(self, request: Request) -> None:
        """Answer a command of this transport, or refuse that of a stranger."""
        attempts = self._authentication.attempts
        try:
            if request.command in COMMANDS:
                self._own(request)
                return
            raise NotAuthenticated("Not authenticated", hint="send `auth` with a key of this server")
        except RrextError as error:
            if self._authentication.attempts > attempts:
                self._refuse_key(request, error)
            else:
                self._refuse(request, error)

    def _refuse(self, request: Request, error: RrextError, *, ends: bool = False) -> None:
        self._session.refuse(request, error)
        self._session.outbox.flush()
        if ends:
            self.peer.end_within(0, "too many wrong keys", CLOSED)

    def _refuse_key(self, request: Request, error: RrextError) -> None:
        """Refuse a wrong key: the later, the more of them the address has shown, also on other connections."""
        delay, too_many = self._arrival.refuse_wrong_key()
        ends = too_many is not None or self._authentication.is_exhausted
        if ends:
            self._reading.stop()  # what comes before the late answer is not looked at any more
        refuse = partial(self._refuse, request, too_many or error, ends=ends)
        self._loop.call_later(delay, refuse) if delay else refuse()

    def _own(self, request: Request) -> None:
        """Answer a command of this transport. Raises `RrextError`."""
        if request.tail is not None:
            refuse_tail()
        body: dict[str, Any] = {}
        if request.command == PROBE:
            body = probe_body()
        elif request.command == "auth":
            given = decode(request.arguments, AuthArguments, self._session.limits)
            user = self._authentication.show(given)
            if user != self._authentication.user:
                self._sign_off("the client signed off")
            if user is not None:
                self._set_user(user)
            client = self._session.client
            client.name, client.version = given.client_name or "", given.client_version or ""
            who, where = self._stranger.connection_id, in_log(self._stranger.address)
            level = logging.DEBUG if user is None else logging.INFO
            log.log(level, "%s is user %s, with %s, from %s", who, in_log(user), in_log(given.client_name), where)
            body = welcome(user)
        elif self._authentication.leave():
            self._sign_off("the client signed off")
        self._session.answer_own(request, body)

    # who it is

    def _set_user(self, user: str | None) -> None:
        """Set the user of the client; None for a stranger, who is cut off after a while."""
        self._authentication.user = user
        self._wait_no_longer()
        if user is None:
            self._arrival.mark_stranger()
            self._session.caller = msgspec.structs.replace(self._stranger, trusted=False, is_keyed=True)
            self._protocol.expect(MAX_STRANGERS_MESSAGE)
            self._patience = self._loop.call_later(AUTH_TIMEOUT, self._arrival.cut_off)
        else:
            self._arrival.accept_client()
            self._session.caller = msgspec.structs.replace(
                self._stranger, user_id=user if self._stranger.is_keyed else None, counts_for=self._budgets.counts_for(user)
            )
            self._protocol.expect()
            self._reading.belong_to(self._budgets.of(user))
        self._session.client.caller = self._session.caller

    def _wait_no_longer(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _without_room(self) -> None:
        log.info("%s is cut off: its user has no room for its message", self._stranger.connection_id)
        self._protocol.fail(CloseCode.MESSAGE_TOO_BIG, "max_user_bytes")
        self.peer.end_within(0, "no room for its message", CLOSED)

    def check_key(self) -> None:
        """Cut the client off if its key stands for its user no more: the keys have changed."""
        if not self._authentication.is_valid:
            log.info("%s is cut off: its key is gone", self._stranger.connection_id)
            self._sign_off("the key of this client is gone")
            self.peer.end_within(0, "its key is gone", CLOSED)

    def _sign_off(self, why: str) -> None:
        """End all that the user did on this connection, whose client is a stranger from now on."""
        if self._authentication.user is not None:
            self._session.fail_all("cancelled", lambda: Cancelled(f"cancelled: {why}"))
            self._process.engine.disconnect(self._stranger.connection_id)
            self._set_user(None)

    # out

    async def _close_at_end(self) -> None:
        """Close the socket at the end of its session, after the last answers."""
        peer = self.peer
        await peer.ended()
        self._process.remove(peer)
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAINED.flush):
                await self._sink.drained()
        code = CloseCode.POLICY_VIOLATION if self._authentication.user is None else CloseCode.GOING_AWAY
        with suppress(OSError, RuntimeError):  # the client is gone, or closed first
            await self._send({"type": "websocket.close", "code": code, "reason": ""})


Received: TypeAlias = tuple[bytes, bool]
"""A message, and whether it is binary."""

_data_of = itemgetter(0)


class SocketReading:
    """Gives the messages of a connection to `handle`, and pauses reading while too much of them waits for answers."""

    __slots__ = (
        "_budget", "_handle", "_is_due", "_is_held_up", "_is_noted", "_is_paused", "_is_stopped", "_loop", "_on_no_room",
        "_protocol", "_session", "_waiting", "_wants_more",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        protocol: SocketProtocol,
        loop: asyncio.AbstractEventLoop,
        handle: Callable[[Sequence[Received]], object],
        on_no_room: Callable[[], object],
    ) -> None:
        self._session = session
        self._protocol = protocol
        self._loop = loop
        self._handle = handle
        self._on_no_room = on_no_room
        self._waiting: deque[Received] = deque()
        self._is_due = False
        self._is_paused = False
        self._is_stopped = False
        self._wants_more = True
        self._is_held_up = False
        self._budget: UserBudget | None = None
        self._is_noted = False
        protocol.on_messages = self.take
        protocol.on_more = self.note_memory

    def take(self, messages: Sequence[Received]) -> None:
        """Take messages that arrived."""
        if self._is_stopped:
            return
        self._waiting.extend(messages)
        if not (self._is_due or self._is_paused):
            self._go_on()

    def _go_on(self) -> None:
        """Handle some messages, after other work of the loop."""
        self._is_due = False
        waiting, session = self._waiting, self._session
        if self._is_stopped:
            return
        self._handle([waiting.popleft() for _ in range(min(len(waiting), REQUESTS_PER_ITERATION))])
        if self._is_stopped:
            return
        unread = session.unread_bytes
        if self._is_noted or unread + session.outbox.size >= NOTED:
            self.note_memory()
        if unread > session.limits.max_inflight_bytes:
            log.debug("reading pauses: too much waits for an answer")
            self._is_paused = session.reports_answers = True
            self._let_read(wants_more=False)
            self._loop.call_soon(self.unpause)  # an answer may have come just before
        elif waiting:
            self._is_due = True
            self._let_read(wants_more=False)
            self._loop.call_soon(self._go_on)
        else:
            self._let_read(wants_more=True)

    def _let_read(self, *, wants_more: bool) -> None:
        self._wants_more = wants_more
        self._protocol.let_read(reads=wants_more and not self._is_held_up)

    def unpause(self) -> None:
        session = self._session
        if self._is_paused and not self._is_stopped and session.unread_bytes <= session.limits.max_inflight_bytes:
            self._is_paused = False
            session.reports_answers = session.is_draining
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def stop(self) -> None:
        self._is_stopped = True
        self._waiting.clear()
        self._let_read(wants_more=True)  # for the answer to the end of the WebSocket

    # the memory of its user

    def belong_to(self, budget: UserBudget) -> None:
        """Count for that budget from now on, and for no other. It ends when nothing is kept: after the end, or a sign-off."""
        if self._budget is not None:
            self._budget.remove(self)
        self._budget = budget
        self.note_memory()

    def note_memory(self) -> None:
        """Report the memory of the connection to the budget of its user."""
        if self._budget is not None:
            self._is_noted = self._budget.note(self)

    @property
    def held_bytes(self) -> int:
        """The beginning of a message, the requests in flight, and the answers that were not read."""
        protocol, session = self._protocol, self._session
        waiting = sum(map(len, map(_data_of, self._waiting)))
        return protocol.unfinished_bytes + waiting + session.held_bytes

    @property
    def is_unfinished(self) -> bool:
        """Whether it has the beginning of a message."""
        return self._protocol.unfinished_bytes > 0

    @property
    def is_held_up(self) -> bool:
        """Whether it reads no more, because its user has no room."""
        return self._is_held_up

    def hold_up(self, *, is_held_up: bool) -> None:
        """Read no more until told otherwise, and let calls wait for the answers of earlier ones to be read."""
        if is_held_up != self._is_held_up:
            self._is_held_up = is_held_up
            session = self._session
            session.outbox.be_full_beyond(0 if is_held_up else session.limits.outbox_bytes)
            self._protocol.let_read(reads=self._wants_more and not is_held_up)

    def refuse(self) -> None:
        """End the connection, whose message got no room."""
        self._on_no_room()

    @property
    def has_more(self) -> bool:
        return bool(self._waiting) and not self._is_paused


SINK_WINDOW: Final = 256 * KIB
"""Bytes of answers that are handed over to be sent at a time; the others wait in the outbox, which is limited."""


class MessageSink:
    """Sends messages, a piece each, while the client reads. Made on the loop's thread; other threads hand theirs over to it."""

    def __init__(self, protocol: SocketProtocol, loop: asyncio.AbstractEventLoop) -> None:
        self._protocol = protocol
        self._loop = loop
        self._loop_thread = get_ident()
        self._lock = Lock()
        self._handed: deque[bytes | memoryview] = deque()
        """The messages of other threads, in order."""
        self.handed_bytes = 0
        """The size of these."""
        self._action: Callable[[], None] | None = None
        self._changed = asyncio.Event()
        self._is_lost = False
        self._is_loop_stuck = False
        protocol.on_writable = self._on_writable
        self.on_room: Callable[[], object] = lambda: None
        """Called when the client has read what was sent."""

    def write(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Take as many messages as there is room for; the number of their bytes."""
        if self._is_lost:
            raise ConnectionResetError("the client is gone")
        if get_ident() != self._loop_thread and not self._is_loop_stuck:
            return self._hand_over(pieces)
        self._send_handed()
        if self._handed or not self._protocol.writable.is_set():
            return 0
        taken, size = _first(pieces)
        self._protocol.send_messages(taken)
        return size

    def _hand_over(self, pieces: Sequence[bytes | memoryview]) -> int:
        if self.handed_bytes >= SINK_WINDOW:
            return 0
        taken, size = _first(pieces)
        with self._lock:
            self.handed_bytes += size
        self._handed.extend(taken)
        self._on_loop(self._go_on)
        return size

    def go_without_loop(self) -> None:
        """From now on send in the thread that writes: the loop is stuck, and the process ends."""
        self._is_loop_stuck = True

    def when_writable(self, action: Callable[[], None]) -> None:
        self._on_loop(lambda: self._wait(action))

    def _on_loop(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:  # the loop is closed, and nobody gets answers any more
            pass

    # on the loop

    def _wait(self, action: Callable[[], None]) -> None:
        self._action = action
        self._go_on()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were taken from the outbox, and that the system has not taken yet."""
        return self.handed_bytes + self._protocol.unsent_bytes

    def _on_writable(self) -> None:
        self._go_on()
        self.on_room()

    def _go_on(self) -> None:
        """Send what other threads handed over, and let the outbox write if there is room."""
        was_full = self.handed_bytes >= SINK_WINDOW
        self._send_handed()
        if was_full:
            self.on_room()
        if self._action is not None and (self._is_lost or (self._protocol.writable.is_set() and not self._handed)):
            action, self._action = self._action, None
            self._loop.call_soon(action)

    def _send_handed(self) -> None:
        handed = self._handed
        if self._is_lost:
            handed.clear()
            self.handed_bytes = 0
        while handed and self._protocol.writable.is_set():
            taken, size = _first(list(handed))
            try:
                self._protocol.send_messages(taken)
            except ConnectionError:  # the connection ends, which its messages say too
                self.lose()
                return
            for _ in taken:
                handed.popleft()
            with self._lock:
                self.handed_bytes -= size
        if not handed:
            self._changed.set()

    async def drained(self) -> None:
        """Wait until the messages of other threads are sent, or the client is lost."""
        while self._handed and not self._is_lost:
            self._changed.clear()
            await self._changed.wait()

    def lose(self) -> None:
        """Take no more: the client is gone."""
        if not self._is_lost:
            self._is_lost = True
            self._changed.set()
            self._go_on()


def _first(pieces: Sequence[bytes | memoryview]) -> tuple[list[bytes | memoryview], int]:
    """The first messages, up to a limited size, and their size."""
    taken: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if size >= SINK_WINDOW:
            break
        taken.append(piece)
        size += len(piece)
    return taken, size
