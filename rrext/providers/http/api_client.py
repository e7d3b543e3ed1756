"""`ApiClient`: requests of one connection to its server. The secrets of the connection go there, and nowhere else."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote, urljoin, urlsplit

import httpx2
import msgspec

from rrext.connections import Connection, Secret
from rrext.errors import ConnectionInvalid, ToolTimeout
from rrext.http import (
    MAX_CONNECTIONS,
    MAX_REDIRECTS,
    BodyTooLarge,
    ForeignPacking,
    bad_answer,
    body_text,
    broken,
    failure,
    failure_body,
    is_text,
    media_of,
    new_client,
    of_status,
    retry_after,
    too_large,
    whole_body,
)
from rrext.limits import MIB
from rrext.providers.http.document import origin_of
from rrext.providers.http.requests import HttpRequest
from rrext.providers.provider import ProviderServices

if TYPE_CHECKING:
    from rrext.secrets.redaction import Redactor

MAX_ANSWER: Final = 16 * MIB
"""Bytes of one answer; a larger one would be too large for a result of a tool as well (`max_result`)."""
MAX_ERROR_BODY: Final = 4000
"""Characters of an answer with an error that `data.body` has."""
QUICK_BODY: Final = 64 * 1024
"""Bytes of an answer that the loop itself decodes; a thread does so with larger ones."""

SECRETS: Final = "rrext.secrets"
"""The extension of a request with its secret headers, and the secret part of its query."""


class ApiServer(msgspec.Struct, frozen=True):
    """The server of a connection, for failures."""

    connection: str
    address: str
    redactor: Redactor
    family: ClassVar[str] = "http"
    hints: ClassVar[Mapping[str, str]] = {
        "unauthorized": "Check the keys in the connections file (headers, query, key).",
        "rate_limited": "Ask less often, or see what the account of this key may use.",
        "unreachable": "Check that the server runs and that the address in the connections file is right.",
        "redirected": "Put the address that the server really has into the connections file.",
    }

    def hide(self, text: str) -> str:
        """The text without secrets."""
        return self.redactor.text(text)

    def __str__(self) -> str:
        return f'Connection "{self.connection}" ({self.address})'


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with a status that tells success. `media` is its content type, in small letters and without parameters."""

    media: str = ""
    charset: str = ""
    body: bytes = b""


class ApiClient:
    """Sends requests with what the connection adds to them; never twice. Belongs to the event loop.

    Redirects are followed within one origin.
    """

    def __init__(
        self,
        connection: Connection,
        services: ProviderServices,
        server: type[ApiServer],
        *,
        headers: Mapping[str, Secret],
        query: Mapping[str, Secret] | None = None,
    ) -> None:
        self._connection = connection
        self._services = services
        self._kind = server
        self._secret_headers = headers
        self._secret_query = query or {}
        self._opening = asyncio.Lock()
        self._client: httpx2.AsyncClient | None = None
        self._headers: dict[str, str] = {}
        self._query = ""

    def server(self, url: str) -> ApiServer:
        """The server of an address, for failures."""
        parts = urlsplit(url)
        return self._kind(self._connection.name, f"{parts.scheme}://{parts.netloc}", self._services.redactor)

    async def send(
        self, request: HttpRequest, *, authorization: str | None = None, trusted: bool = True, maximum: int = MAX_ANSWER
    ) -> HttpAnswer:
        """Send a request once, and read the answer. Only a `trusted` server gets the secrets of the connection.

        `authorization` is the caller's, if the connection forwards it. Raises `ToolError` with a code
        of `rrext.http`, and `ToolTimeout`.
        """
        server = self.server(request.url)
        try:
            async with asyncio.timeout(self._connection.timeout):
                client = await self._opened()
                if not trusted:
                    return await self._sent(client, server, request, {}, "", maximum)
                headers = dict(self._headers)
                if authorization is not None:
                    headers["authorization"] = _header("the caller's authorization", authorization)
                return await self._sent(client, server, request, headers, self._query, maximum)
        except TimeoutError:
            limit = self._connection.timeout
            raise ToolTimeout(f"{server} was not done within {limit:g} s (timeout of the connection)") from None

    async def aclose(self) -> None:
        """Close the connections to the server."""
        if self._client is not None:
            await self._client.aclose()

    async def _opened(self) -> httpx2.AsyncClient:
        async with self._opening:
            if self._client is None:
                self._client = await self._services.in_thread(self._open)
            return self._client

    def _open(self) -> httpx2.AsyncClient:
        """Read the secrets and make the client. Blocks."""
        self._headers = {name.lower(): _header(secret.name, secret.reveal()) for name, secret in self._secret_headers.items()}
        pairs = ((quote(name, safe=""), quote(secret.reveal(), safe="")) for name, secret in self._secret_query.items())
        self._query = "&".join(f"{name}={value}" for name, value in pairs)
        timeout = self._connection.timeout
        return new_client({}, silence=timeout, wait=timeout, trust_env=False, transport=KeyedTransport())

    async def _sent(
        self,
        client: httpx2.AsyncClient,
        server: ApiServer,
        request: HttpRequest,
        headers: Mapping[str, str],
        query: str,
        maximum: int,
    ) -> HttpAnswer:
        method, url, content = request.method, request.url, request.content
        try:
            for _ in range(MAX_REDIRECTS + 1):
                secrets = {SECRETS: (headers, query)}
                sent = client.build_request(method, url, headers=request.headers, content=content, extensions=secrets)
                response = await client.send(sent, stream=True)
                try:
                    if response.status_code in (301, 302, 303, 307, 308) and "location" in response.headers:
                        method, content = _redirected(method, content, response.status_code)
                        url = self._target(server, url, response, method)
                        continue
                    return await self._answer(server, request, response, maximum)
                finally:
                    await response.aclose()
        except httpx2.InvalidURL:
            raise failure(server, "bad_request", ": the address of the request is none") from None
        except BodyTooLarge:
            raise too_large(server, maximum) from None
        except (ForeignPacking, httpx2.DecodingError):
            raise bad_answer(server, "in a form that cannot be unpacked") from None
        except httpx2.TransportError as error:
            raise broken(server, error, tries=1) from None
        raise failure(server, "redirected", f" redirects in a circle, or more than {MAX_REDIRECTS} times")

    def _target(self, server: ApiServer, url: str, response: httpx2.Response, method: str) -> str:
        try:
            target = urljoin(url, response.headers["location"])
        except ValueError:
            target = ""
        if not method or origin_of(target) != origin_of(url):
            raise of_status(server, response.status_code, b"", asked=None, tries=1)
        return target

    async def _answer(self, server: ApiServer, request: HttpRequest, response: httpx2.Response, maximum: int) -> HttpAnswer:
        status = response.status_code
        if not response.is_success:
            body = await failure_body(response)
            error = of_status(server, status, body, asked=retry_after(response.headers), tries=1)
            del error.data["tries"]
            if text := server.hide(body.decode("utf-8", "replace")):
                error.data["body"] = text[:MAX_ERROR_BODY]
            raise error
        media, charset = media_of(response)
        return HttpAnswer(media=media, charset=charset, body=await whole_body(response, maximum))


def _redirected(method: str, content: bytes | None, status: int) -> tuple[str, bytes | None]:
    """The method and body after a redirect; "" for a redirect that does not say whether the call was done."""
    if status in (307, 308) or method in ("GET", "HEAD"):
        return method, content
    return ("GET", None) if status == 303 else ("", None)


def _header(name: str, value: Any) -> str:
    """A value that a header can carry. Raises `ConnectionInvalid`."""
    text = str(value).strip()
    if not (text.isascii() and text.isprintable()):
        raise ConnectionInvalid(f"{name} holds characters that no header can carry")
    return text


class KeyedTransport(httpx2.AsyncBaseTransport):
    """Sends requests with their secrets."""

    def __init__(self) -> None:
        limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS)
        self._inner = httpx2.AsyncHTTPTransport(limits=limits, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a copy of the request."""
        headers, query = request.extensions[SECRETS]
        url = str(request.url)
        if query and query not in url.partition("?")[2]:
            url += ("&" if "?" in url else "?") + query
        extensions = {name: value for name, value in request.extensions.items() if name != SECRETS}
        keyed = httpx2.Request(
            request.method, url, headers={**request.headers, **headers}, stream=request.stream, extensions=extensions
        )
        return await self._inner.handle_async_request(keyed)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


async def result_of(answer: HttpAnswer, server: ApiServer, services: ProviderServices) -> Any:
    """JSON as its value, text as text, other content and what is no text in its charset as bytes, and null for an empty body.

    Raises `ToolError` for invalid JSON.
    """
    if len(answer.body) <= QUICK_BODY:
        return _result(answer, server)
    return await services.in_thread(_result, answer, server)


def _result(answer: HttpAnswer, server: ApiServer) -> Any:
    if not answer.body:
        return None
    media = answer.media
    if media == "application/json" or media.endswith("+json"):
        try:
            return msgspec.json.decode(answer.body.removeprefix(codecs.BOM_UTF8))
        except (msgspec.DecodeError, RecursionError):
            raise bad_answer(server, "no JSON, though it says so") from None
    return body_text(answer.body, answer.charset) if is_text(media) else answer.body
