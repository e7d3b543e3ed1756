"""One client of the WebSocket face: its session, and its messages both ways."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from websockets.frames import CloseCode

from rrext.engine.interface.call import Caller, in_log
from rrext.errors import Cancelled, NotAuthenticated, RrextError
from rrext.faces.http.budget import Budgets
from rrext.faces.http.door import Arrival
from rrext.faces.ws.authentication import COMMANDS, PROBE, AuthArguments, Authentication, welcome
from rrext.faces.ws.protocol import MAX_STRANGERS_MESSAGE, RawMessage, SocketProtocol
from rrext.faces.ws.reading import Received, SocketReading
from rrext.faces.ws.sink import MessageSink
from rrext.server.commands import decode, probe_body, refuse_tail
from rrext.server.peer_end import CLOSED, DRAINED, Peer, RestartingTask
from rrext.server.process import ServingProcess
from rrext.wire.connection import ServerConnection
from rrext.wire.messages import Request

AUTH_TIMEOUT: Final = 30.0
"""Seconds until a client without a key is cut off."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log: Final = logging.getLogger("rrext.server")


def joined(message: list[bytes], tail: bytes | None) -> list[bytes]:
    """The piece of a message: binary with a raw tail, which only clients get that asked for tails, else text."""
    if tail is None:
        return [b"".join(message)]
    return [RawMessage(b"".join([*message, b"\n", tail]))]


class SocketPeer(Peer):
    """The peer at a WebSocket. Its last answers leave also while the loop is stuck."""

    def __init__(self, process: ServingProcess, connection: ServerConnection, sink: MessageSink, caller: Caller) -> None:
        super().__init__(process.engine, connection, sink, host=process.host, limits=process.limits, caller=caller)
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
        self._recognise(authentication.user)

    async def run(self, receive: Receive) -> None:
        """Take messages until the connection ends."""
        process, peer = self._process, self.peer
        process.add(peer, None)
        self._farewell = RestartingTask(self._loop, self._see_off, f"client {self._stranger.connection_id}")
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
        delay, too_many = self._arrival.shows_wrong_key()
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
                self._recognise(user)
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

    def _recognise(self, user: str | None) -> None:
        """The client is that user from now on; None for a stranger, who is cut off after a while."""
        self._authentication.user = user
        self._wait_no_longer()
        if user is None:
            self._arrival.forgets_client()
            self._session.caller = msgspec.structs.replace(self._stranger, trusted=False, is_keyed=True)
            self._protocol.expect(MAX_STRANGERS_MESSAGE)
            self._patience = self._loop.call_later(AUTH_TIMEOUT, self._arrival.cut_off)
        else:
            self._arrival.knows_client()
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

    def look_at_key(self) -> None:
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
            self._recognise(None)

    # out

    async def _see_off(self) -> None:
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
