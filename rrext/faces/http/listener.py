"""A port of HTTP in a serving process, on the engine's loop."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from h11 import IDLE, SEND_BODY, Request
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from rrext.errors import UsageError
from rrext.faces.http.access import Access
from rrext.faces.http.address import Address, Proxies
from rrext.faces.http.door import ARRIVAL, Arrival, Door, arrival_of
from rrext.faces.http.kept_files import KeptFiles
from rrext.faces.http.tokens import UserTokens
from rrext.limits import ACCEPT_RETRY_INTERVAL, READ_BUFFER, Limits
from rrext.server.peer_end import DRAINED, Grace, RestartingTask
from rrext.server.process import ServingProcess
from rrext.threads import note_dropped

if TYPE_CHECKING:
    from rrext.faces.http.certificate import Certificate

MAX_CONNECTIONS: Final = 512
"""Connections at once; a client has one for each of its requests, and a process may often have 1024 descriptors."""
CLIENT_PATIENCE: Final = 30.0
"""Seconds in which a client sends a whole request, or reads a full buffer of its answers, before its connection is closed;
and in which a client whose connection has ended reads its last answers."""
LOOK_INTERVAL: Final = 5.0
"""Seconds between two looks for such clients."""
BACKLOG: Final = 1024
"""Connections that wait to be accepted; the system of a client beyond them tries again a second later."""
ACCEPTS_PER_ITERATION: Final = 32
"""Connections that are accepted in an iteration of the loop: a flood delays others by some milliseconds."""
PING_INTERVAL: Final = 30.0
"""Seconds between two pings of the server, which notice a client that vanished without a word."""
PING_TIMEOUT: Final = 300.0
"""Seconds in which a client answers a ping; a busy one may be late, and RocketRide's client has the same patience."""

log: Final = logging.getLogger("rrext.server")

NO_PROXIES: Final = Proxies()
TWO_LENGTHS: Final = PlainTextResponse(
    "Content-Length and Transfer-Encoding in one request: it may end elsewhere for a proxy", 400, {"Connection": "close"}
)


class PortApp(Protocol):
    """A face behind a port, as an ASGI app that lives with the port."""

    on_answer: Callable[[], object]
    """Called after the answer of each call."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        ...

    async def run(self) -> None:
        """Keep what lives longer than a request, until a cancel."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a call is unanswered."""
        ...

    def drain(self) -> None:
        """Refuse new calls."""
        ...

    def fail_all(self) -> None:
        """Answer the unanswered calls with an error, and end the streams that have no end of their own."""
        ...


class UpgradedProtocol(Protocol):
    """The protocol of a WebSocket."""

    def cut(self) -> None:
        """End the connection at once."""
        ...


class HttpClients:
    """Listens at an address for the clients of an app.

    A client that does not send a whole request, or does not read its answer, is cut off after a while; one without a key
    sooner, where many are.
    """

    def __init__(
        self,
        address: Address,
        make_app: Callable[[ServingProcess], PortApp],
        on_listening: Callable[[Address], object],
        *,
        tokens: UserTokens | None,
        origins: Sequence[str] = (),
        proxies: Proxies = NO_PROXIES,
        upgrade: Callable[..., UpgradedProtocol] | None = None,
        tls: Certificate | None = None,
        files: KeptFiles | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """`start` will listen at the address, and then call `on_listening` with it; port 0 is replaced by a free one.

        `tokens` are those that every request must have; None if the app asks for them. `proxies` tell the clients behind
        them. `upgrade` makes the protocol of a WebSocket, which the app serves to its end; its first argument is called when
        the connection is lost. `files` are read again when they change.
        """
        self._upgrade = upgrade
        self._tls = tls
        self._files = files or KeptFiles()
        self._max_connections = max_connections
        self._address = address
        self._make_app = make_app
        self._on_listening = on_listening
        self._tokens = tokens
        self._origins = origins
        self._proxies = proxies
        self._state = ServerState()
        self._arriving: set[asyncio.Task[None]] = set()
        self._quiet_until = 0.0
        self._lost = asyncio.Event()
        self._waiting: dict[Any, float] = {}  # connections that wait for their client, and since when

    def start(self, process: ServingProcess) -> None:
        """Begin to accept clients. Raises `UsageError` if the address cannot be listened at."""
        self._loop = process.host.loop
        self._socket = _listening_at(self._address)
        self._door = Door(self._loop, self._max_connections)
        if self._tls is not None:
            SSLProtocol.max_size = READ_BUFFER  # each connection has such a buffer, also before its handshake: else 256 KiB
        self._app = self._make_app(process)
        self._connect = self._protocol(process.limits)
        os.register_at_fork(after_in_child=self._close_in_child)
        self._keeping = RestartingTask(self._loop, self._app.run, "what lives longer than a request")
        self._loop.add_reader(self._socket, self._accept)
        self._loop.call_later(LOOK_INTERVAL, self._cut_off_slow)
        self._files.start(self._loop)
        self._on_listening(Address(self._address.host, self._socket.getsockname()[1]))

    def _protocol(self, limits: Limits) -> Callable[[Arrival], H11Protocol]:
        """Make the function that makes the protocol of each connection."""
        access = self._access = Access(self._app, self._address, self._tokens, self._origins, is_behind=bool(self._proxies))
        state, loop, lost, waiting = self._state, self._loop, self._lost, self._waiting

        class _Connection(H11Protocol):
            @property
            def arrival(self) -> Arrival:
                return arrival_of({"state": self.app_state})

            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                transport.max_size = READ_BUFFER  # type: ignore[attr-defined] # for 256 KiB, the system maps memory each time
                self.arrival.cut, self.arrival.transport = transport.abort, transport
                super().connection_made(transport)

            def handle_websocket_upgrade(self, event: Request) -> None:
                super().handle_websocket_upgrade(event)
                upgraded: Any = self.transport.get_protocol()
                self.arrival.cut = upgraded.cut
                if too_soon := self.conn.trailing_data[0]:  # uvicorn drops what came before the answer to the handshake
                    upgraded.data_received(too_soon)

            def resume_writing(self) -> None:
                waiting.pop(self, None)  # the client has read
                super().resume_writing()

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                exchange = self.arrival.exchange
                if exchange is not None:  # perhaps it has read it: at the end nothing tells what was left
                    note_dropped(loop, exchange.most_unread, in_cycles=True)
                self.arrival.gone()
                lost.set()

        config = Config(
            SharedWithOrigins(access, self._proxies),
            proxy_headers=False,  # uvicorn believes every program of this machine
            http=_Connection,
            lifespan="off",
            ws="none" if self._upgrade is None else partial(self._upgrade, lost.set),  # type: ignore[arg-type]
            ws_per_message_deflate=False,
            ws_ping_interval=PING_INTERVAL,
            ws_ping_timeout=PING_TIMEOUT,
            log_config=None,
            log_level=logging.ERROR,  # else each stranger writes lines; below `info` also the keys in messages and headers
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=limits.max_header,
        )
        config.load()
        return lambda arrival: _Connection(config, state, {ARRIVAL: arrival}, loop)

    def _accept(self) -> None:
        """Take the connections that wait."""
        for _ in range(ACCEPTS_PER_ITERATION):
            try:
                end, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_later(error)
                return
            end.setblocking(False)
            arrival = self._door.enter("" if self._proxies.trusts(address[0]) else address[0])
            arriving = self._loop.create_task(self._connected(end, arrival))
            self._arriving.add(arriving)
            arriving.add_done_callback(partial(self._arrived, end, arrival))
            arrival.cut = arriving.cancel

    def _accept_later(self, error: OSError) -> None:
        """Make room after the system gave no descriptor, and try again a while later."""
        self._loop.remove_reader(self._socket)
        self._door.make_room()
        log.warning("a client cannot be taken now: %s", error.strerror)
        self._loop.call_later(ACCEPT_RETRY_INTERVAL, self._accept_again)

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    async def _connected(self, end: socket.socket, arrival: Arrival) -> None:
        """Make the transport of a connection, after the handshake of TLS."""
        tls, patience = (None, None) if self._tls is None else (self._tls.context, CLIENT_PATIENCE)
        await self._loop.connect_accepted_socket(lambda: self._connect(arrival), end, ssl=tls, ssl_handshake_timeout=patience)

    def _arrived(self, end: socket.socket, arrival: Arrival, arriving: asyncio.Task[None]) -> None:
        """Forget a connection that broke or was cut off before it had a transport; that is no news."""
        self._arriving.discard(arriving)
        if arriving.cancelled() or arriving.exception() is not None:
            arrival.gone()
            end.close()

    def _close_in_child(self) -> None:
        """Close the sockets in a forked child, so that clients do not take it for the server, nor wait for its end."""
        for end in (self._socket, *(connection.transport.get_extra_info("socket") for connection in self._state.connections)):
            with suppress(OSError):
                os.close(end.fileno())

    def _cut_off_slow(self) -> None:
        """Cut off the clients that others wait for too long."""
        now = self._loop.time()
        waiting = [connection for connection in self._state.connections if _waits_for_client(connection)]
        still = {connection: self._waiting.get(connection, now) for connection in waiting}
        self._waiting.clear()
        self._waiting.update(still)
        for connection, since in still.items():
            if now - since > CLIENT_PATIENCE:
                arrival_of({"state": connection.app_state}).cut_off()
        self._door.cut_off_crowds()
        self._loop.call_later(LOOK_INTERVAL, self._cut_off_slow)

    def reload(self) -> None:
        """Read its files again. From any thread."""
        self._files.read_again()

    def close(self) -> None:
        """Answer new requests with 503, and close the connections without a call. On the loop's thread."""
        self._access.is_draining = True  # who balances load sees it, until the last call is answered
        self._app.drain()
        for connection in self._requests():
            connection.shutdown()

    def _requests(self) -> list[H11Protocol]:
        """The connections for requests; those of WebSockets have lives of their own."""
        return [connection for connection in self._state.connections if isinstance(connection, H11Protocol)]

    def remove(self) -> None:
        """Do nothing: the address goes with the process."""

    async def ended(self, grace: Grace) -> None:
        """Wait for the calls until the end of the grace, then for the last answers to be read."""
        self._app.on_answer = grace.look
        await grace.until(lambda: not self._app.is_busy)
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        self._door.close()
        self._app.fail_all()
        await grace.within(DRAINED.flush, self._disconnected())
        for connection in list(self._state.connections):
            connection.transport.abort()

    async def _disconnected(self) -> None:
        while self._state.connections:
            self._lost.clear()
            await self._lost.wait()


class SharedWithOrigins(CORSMiddleware):
    """The first to get a request: tells whose it is behind a proxy, and tells browsers which pages may send requests."""

    def __init__(self, access: Access, proxies: Proxies) -> None:
        super().__init__(
            access, allow_methods=("GET", "POST", "DELETE"), allow_headers=("*",), expose_headers=("Mcp-Session-Id",)
        )
        self._access = access
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self._proxies.apply(scope):
            arrival_of(scope).comes_from(scope["client"][0])
        names = {name for name, _ in scope["headers"]}
        if b"content-length" in names and b"transfer-encoding" in names:
            await TWO_LENGTHS(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        """Whether pages of an origin may send requests."""
        return self._access.knows_origin(origin)


def _waits_for_client(connection: Any) -> bool:
    """Whether a connection waits for the rest of a request, or for an answer to be read, also after its end."""
    if connection.transport.is_closing() or not isinstance(connection, H11Protocol):
        return bool(connection.transport.is_closing())
    flow = connection.flow
    return connection.conn.their_state in (IDLE, SEND_BODY) or (flow is not None and flow.write_paused)


def _listening_at(address: Address) -> socket.socket:
    """A listening socket. Raises `UsageError`."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        end = socket.socket(family, kind, protocol)  # named, or asyncio leaves Nagle's algorithm on: 40 ms for each answer
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            end.bind(where)
            end.listen(BACKLOG)
        except OSError:
            end.close()
            raise
    except OSError as error:
        hint = "end what listens there, or choose another port; 0 is any free one" if error.errno == errno.EADDRINUSE else None
        raise UsageError(f"cannot listen at {address}: {error.strerror or error}", hint=hint) from None
    end.setblocking(False)
    return end
