"""A port of HTTP in a serving process, on the engine's loop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from h11 import IDLE, SEND_BODY, Request
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from rrext.errors import UsageError
from rrext.faces.http.access import Access
from rrext.faces.http.address import Address
from rrext.faces.http.kept_files import KeptFiles
from rrext.faces.http.limits import CLIENT_PATIENCE, LOOK_INTERVAL, MAX_CONNECTIONS, PING_INTERVAL, PING_TIMEOUT
from rrext.faces.http.tokens import UserTokens
from rrext.limits import READ_BUFFER, Limits
from rrext.server.peer_end import DRAINED, Grace, RestartingTask
from rrext.server.process import ServingProcess

if TYPE_CHECKING:
    from rrext.faces.http.certificate import Certificate

log: Final = logging.getLogger("rrext.server")


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

    def give_up(self) -> None:
        """Answer the unanswered calls with an error, and end the streams that have no end of their own."""
        ...


class HttpClients:
    """Listens at an address for the clients of an app.

    A client that does not send a whole request, or does not read its answer, is cut off after a while.
    """

    def __init__(
        self,
        address: Address,
        make_app: Callable[[ServingProcess], PortApp],
        on_listening: Callable[[Address], object],
        *,
        tokens: UserTokens | None,
        origins: Sequence[str] = (),
        upgrade: Callable[..., asyncio.Protocol] | None = None,
        tls: Certificate | None = None,
        files: KeptFiles | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """`start` will listen at the address, and then call `on_listening` with it; port 0 is replaced by a free one.

        `tokens` are those that every request must have; None if the app asks for them. `upgrade` makes the protocol of a
        WebSocket, which the app serves to its end; its first argument is called when the connection is lost. `files` are read
        again when they change.
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
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._lost = asyncio.Event()
        self._waiting: dict[H11Protocol, float] = {}  # connections that wait for their client, and since when

    def start(self, process: ServingProcess) -> None:
        """Begin to accept clients. Raises `UsageError` if the address cannot be listened at."""
        self._loop = process.host.loop
        self._backlog = process.limits.backlog
        self._socket = _listening_at(self._address, self._backlog)
        if self._tls is not None:
            SSLProtocol.max_size = READ_BUFFER  # each connection has such a buffer, also before its handshake: else 256 KiB
        self._app = self._make_app(process)
        self._connect = self._protocol(process.limits)
        os.register_at_fork(after_in_child=self._let_go)
        self._keeping = RestartingTask(self._loop, self._app.run, "what lives longer than a request")
        self._accepting = RestartingTask(self._loop, self._accept, "accept clients")
        self._loop.call_later(LOOK_INTERVAL, self._look)
        self._files.start(self._loop)
        self._on_listening(Address(self._address.host, self._socket.getsockname()[1]))

    def _protocol(self, limits: Limits) -> Callable[[], H11Protocol]:
        """Make the function that makes the protocol of each connection."""
        access = self._access = Access(self._app, self._address, self._tokens, self._origins)
        state, loop, lost, waiting, most = self._state, self._loop, self._lost, self._waiting, self._max_connections

        class _Connection(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                if len(state.connections) >= most:
                    log.warning("a connection is refused: there are %s already", most)
                    transport.abort()
                transport.max_size = READ_BUFFER  # type: ignore[attr-defined] # for 256 KiB, the system maps memory each time
                super().connection_made(transport)

            def handle_websocket_upgrade(self, event: Request) -> None:
                super().handle_websocket_upgrade(event)
                if too_soon := self.conn.trailing_data[0]:  # uvicorn drops what came before the answer to the handshake
                    self.transport.get_protocol().data_received(too_soon)  # type: ignore[attr-defined]

            def resume_writing(self) -> None:
                waiting.pop(self, None)  # the client has read
                super().resume_writing()

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                lost.set()

        config = Config(
            SharedWithOrigins(access),
            http=_Connection,
            lifespan="off",
            ws="none" if self._upgrade is None else partial(self._upgrade, lost.set),  # type: ignore[arg-type]
            ws_per_message_deflate=False,
            ws_ping_interval=PING_INTERVAL,
            ws_ping_timeout=PING_TIMEOUT,
            log_config=None,
            # Below `info` each message and each header of a client is logged, with the keys in them.
            log_level=max(logging.INFO, logging.getLogger().getEffectiveLevel()),
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=limits.max_header,
        )
        config.load()
        return lambda: _Connection(config, state, {}, loop)

    async def _accept(self) -> None:
        if self._server is None and self._socket.fileno() >= 0:
            tls, patience = (None, None) if self._tls is None else (self._tls.context, CLIENT_PATIENCE)
            self._server = await self._loop.create_server(
                self._connect, sock=self._socket, ssl=tls, ssl_handshake_timeout=patience, backlog=self._backlog
            )

    def _let_go(self) -> None:
        """Close the sockets in a forked child, so that clients do not take it for the server, nor wait for its end."""
        for end in (self._socket, *(connection.transport.get_extra_info("socket") for connection in self._state.connections)):
            with suppress(OSError):
                os.close(end.fileno())

    def _look(self) -> None:
        """Cut off the clients that others wait for too long."""
        now = self._loop.time()
        waiting = [connection for connection in self._requests() if _waits_for_client(connection)]
        still = {connection: self._waiting.get(connection, now) for connection in waiting}
        self._waiting.clear()
        self._waiting.update(still)
        for connection, since in still.items():
            if now - since > CLIENT_PATIENCE:
                log.info("a client is cut off: it sends no whole request, or reads no answer")
                connection.transport.abort()
        self._loop.call_later(LOOK_INTERVAL, self._look)

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
        if self._server is not None:
            self._server.close()
        self._socket.close()
        self._app.give_up()
        await grace.within(DRAINED.flush, self._disconnected())
        for connection in list(self._state.connections):
            connection.transport.abort()

    async def _disconnected(self) -> None:
        while self._state.connections:
            self._lost.clear()
            await self._lost.wait()


class SharedWithOrigins(CORSMiddleware):
    """Tells browsers which pages may send requests: those of the known origins."""

    def __init__(self, access: Access) -> None:
        super().__init__(
            access, allow_methods=("GET", "POST", "DELETE"), allow_headers=("*",), expose_headers=("Mcp-Session-Id",)
        )
        self._access = access

    def is_allowed_origin(self, origin: str) -> bool:
        """Whether pages of an origin may send requests."""
        return self._access.knows_origin(origin)


def _waits_for_client(connection: H11Protocol) -> bool:
    """Whether a connection waits for the rest of a request, or for an answer to be read."""
    flow = connection.flow
    return connection.conn.their_state in (IDLE, SEND_BODY) or (flow is not None and flow.write_paused)


def _listening_at(address: Address, backlog: int) -> socket.socket:
    """A listening socket. Raises `UsageError`."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        end = socket.socket(family, kind, protocol)  # named, or asyncio leaves Nagle's algorithm on: 40 ms for each answer
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            end.bind(where)
            end.listen(backlog)
        except OSError:
            end.close()
            raise
    except OSError as error:
        raise UsageError(f"cannot listen at {address}: {error.strerror or error}") from None
    end.setblocking(False)
    return end
