"""`ApiClient`: requests of one connection to its server. The secrets of the connection go there, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from rrext.errors import ConnectionInvalid, ToolTimeout
from rrext.http.client import BodyTooLarge, ForeignPacking, failure_body, new_client, whole_body
from rrext.http.failures import bad_answer, broken, failure, of_status, retry_after, too_large
from rrext.providers.http.document import origin_of
from rrext.providers.http.limits import MAX_ANSWER, MAX_ERROR_BODY, MAX_REDIRECTS
from rrext.providers.http.requests import HttpRequest

if TYPE_CHECKING:
    import httpx2

    from rrext.connections.connection import Connection
    from rrext.connections.secret import Secret
    from rrext.providers.provider import ProviderServices
    from rrext.redaction import Redactor


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

    status: int
    media: str = ""
    charset: str = ""
    etag: str = ""
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

        `authorization` is the caller's, if the connection forwards it. An answer 304 to `If-None-Match` is a success. Raises
        `ToolError` with a code of `rrext.http.failures`, and `ToolTimeout`.
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
        try:
            from rrext.providers.http.keyed_transport import KeyedTransport

            return new_client({}, silence=timeout, wait=timeout, trust_env=False, transport=KeyedTransport())
        except ImportError:
            raise ConnectionInvalid(
                f'the connection "{self._connection.name}" needs a package that is not installed',
                hint='Install it with: pip install "rrext[http]"',
            ) from None

    async def _sent(
        self,
        client: httpx2.AsyncClient,
        server: ApiServer,
        request: HttpRequest,
        headers: Mapping[str, str],
        query: str,
        maximum: int,
    ) -> HttpAnswer:
        import httpx2

        from rrext.providers.http.keyed_transport import SECRETS

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
        if not response.is_success and not (status == 304 and "if-none-match" in request.headers):
            body = await failure_body(response)
            error = of_status(server, status, body, asked=retry_after(response.headers), tries=1)
            del error.data["tries"]
            if text := server.hide(body.decode("utf-8", "replace")):
                error.data["body"] = text[:MAX_ERROR_BODY]
            raise error
        media, _, rest = response.headers.get("content-type", "").partition(";")
        charset = next((part.partition("=")[2] for part in rest.split(";") if part.strip().lower().startswith("charset=")), "")
        return HttpAnswer(
            status=status,
            media=media.strip().lower(),
            charset=charset.strip("\"' "),
            etag=response.headers.get("etag", ""),
            body=await whole_body(response, maximum),
        )


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
