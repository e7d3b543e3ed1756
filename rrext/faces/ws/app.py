"""What stands behind the port: WebSockets at any path, and HTTP endpoints beside them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import msgspec
from starlette.types import Receive, Scope, Send

from rrext.engine.interface.call import Caller
from rrext.engine.interface.totals import CallTimes
from rrext.faces.http.budget import Budgets
from rrext.faces.http.door import address_of, arrival_of
from rrext.faces.http.tokens import UserTokens
from rrext.faces.ws.authentication import Authentication
from rrext.faces.ws.client import SocketClient
from rrext.faces.ws.endpoints import Endpoints
from rrext.faces.ws.protocol import CONNECTION, SocketProtocol
from rrext.server.process import ServingProcess


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
            keys.on_change.append(self._look_at_keys)

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

    def _look_at_keys(self) -> None:
        for client in list(self._clients):
            client.look_at_key()

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

    def give_up(self) -> None:
        """Answer the unanswered requests with an error."""
        self._endpoints.give_up()
