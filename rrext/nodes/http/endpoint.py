"""`HttpEndpoint`: the HTTP API of one server, with JSON requests. One pool of connections per component."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.http.client import BodyTooLarge, body_pieces, failure_body, new_client, whole_body
from rrext.http.failures import of_status, retry_after, too_large
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.http.attempts import RETRIED, Attempts
from rrext.nodes.http.events import EventReader
from rrext.nodes.http.failures import ServerName
from rrext.nodes.http.settings import EndpointSettings, checked_address, checked_key, no_address
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    import httpx2

SPENT: Final = "insufficient_quota"
"""The error code of a 429 that no retry can solve: the quota is used up."""


@asynccontextmanager
async def open_endpoint(settings: EndpointSettings, ctx: SetupContext) -> AsyncIterator[HttpEndpoint]:
    """Open the endpoint of a component, for its `setup`: connects to nothing yet, and closes its connections at the end.

    Proxies and certificates are those of the environment (HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE); certificates are
    always checked. Raises `Unavailable` for an address or a key that can never work.
    """
    server = ServerName(ctx.node_id, checked_address(settings.address, ctx.node_id), checked_key(settings.apikey, ctx.node_id))
    client = await ctx.in_thread(_client, server, settings, ctx.remote)  # imports, and reads certificates
    try:
        yield HttpEndpoint(client, server, settings, ctx)
    finally:
        await client.aclose()


def _client(server: ServerName, settings: EndpointSettings, is_remote: bool) -> httpx2.AsyncClient:
    """The client of the endpoint; that of a remote pipeline reaches public addresses alone, and uses no proxy."""
    import httpx2

    try:
        httpx2.URL(server.address)
    except httpx2.InvalidURL:
        raise no_address(server.node_id) from None
    headers = {"content-type": "application/json"}
    if server.secret:
        headers["authorization"] = f"Bearer {server.secret}"
    transport = None
    if is_remote:
        from rrext.http.public_transport import PublicTransport

        transport = PublicTransport()
    return new_client(headers, silence=settings.silence, wait=settings.total, trust_env=not is_remote, transport=transport)


class HttpEndpoint:
    """The API of one server. Its methods belong to the event loop; a cancelled call closes its request at once.

    Every failure is a `ToolError` of `rrext.http.failures`. Requests are repeated if no connection came about,
    one broke before its answer, or the server says that it cannot now; a stream only until its first event.
    """

    def __init__(self, client: httpx2.AsyncClient, server: ServerName, settings: EndpointSettings, ctx: SetupContext) -> None:
        self._client = client
        self._settings = settings
        self.server = server
        self.ctx = ctx

    async def post(self, path: str, body: Mapping[str, Any], ctx: ToolContext) -> bytes:
        """Send a request, with retries, and return the body of the answer."""
        content = msgspec.json.encode(body)
        attempt = Attempts(self.server, self._settings, ctx)
        while True:
            try:
                async with asyncio.timeout_at(attempt.until):
                    return await self._asked(path, content, attempt)
            except Exception as error:
                await attempt.failed(error)

    async def events(self, path: str, body: Mapping[str, Any], ctx: ToolContext) -> AsyncGenerator[str, None]:
        """The data of each event of a streamed answer, as it arrives. Close the generator (`aclosing`) to close the request."""
        content = msgspec.json.encode(body)
        attempt = Attempts(self.server, self._settings, ctx)
        while True:
            began = False
            try:
                async with aclosing(self._streamed(path, content, attempt)) as events:
                    async for event in events:
                        began = True
                        yield event
                return
            except Exception as error:
                await attempt.failed(error, final=began)

    async def _asked(self, path: str, content: bytes, attempt: Attempts) -> bytes:
        async with self._client.stream("POST", self.server.address + path, content=content) as response:
            await self._require_success(response, attempt)
            try:
                return await whole_body(response, self._settings.max_answer)
            except BodyTooLarge:
                raise too_large(self.server, self._settings.max_answer) from None

    async def _streamed(self, path: str, content: bytes, attempt: Attempts) -> AsyncGenerator[str, None]:
        reader = EventReader()
        size = 0
        request = self._client.build_request("POST", self.server.address + path, content=content)
        async with asyncio.timeout_at(attempt.until):
            response = await self._client.send(request, stream=True)
        try:
            async with asyncio.timeout_at(attempt.until):
                await self._require_success(response, attempt)
            pieces = body_pieces(response)
            while True:
                # The limit is one of silence: it must not run while the receiver handles an event.
                async with asyncio.timeout_at(attempt.until):
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                size += len(piece)
                self._require_size(size)
                for event in reader.feed(piece):
                    yield event
        finally:
            await response.aclose()

    async def _require_success(self, response: httpx2.Response, attempt: Attempts) -> None:
        if response.is_success:
            return
        body = await failure_body(response)
        asked = retry_after(response.headers)
        attempt.asked = asked
        attempt.is_passing = response.status_code in RETRIED and SPENT.encode() not in body
        raise of_status(self.server, response.status_code, body, asked=asked, tries=attempt.tries)

    def _require_size(self, size: int) -> None:
        if size > self._settings.max_answer:
            raise too_large(self.server, self._settings.max_answer)
