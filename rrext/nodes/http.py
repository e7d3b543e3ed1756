"""`HttpEndpoint`: the HTTP API of one server, with JSON requests: its settings, the attempts of a request, server-sent
events, the names of failures. One pool of connections per component.
"""

from __future__ import annotations

import asyncio
import codecs
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

import msgspec

from rrext.errors import ToolError, Unavailable
from rrext.http import (
    BodyTooLarge,
    ForeignPacking,
    bad_answer,
    body_pieces,
    broken,
    failure_body,
    late,
    new_client,
    of_status,
    retry_after,
    too_large,
    whole_body,
)
from rrext.nodes.base.setup import SetupContext
from rrext.secrets.redaction import Redactor
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
    server = server_name(settings, ctx.node_id)
    headers = {"content-type": "application/json"}
    if server.secret:
        headers["authorization"] = f"Bearer {server.secret}"
    # It imports, and reads certificates.
    client = await ctx.in_thread(lambda: endpoint_client(server, settings, headers, is_remote=ctx.remote))
    try:
        yield HttpEndpoint(client, server, settings, ctx)
    finally:
        await client.aclose()


def server_name(settings: EndpointSettings, node_id: str) -> ServerName:
    """The server of the settings. Raises `Unavailable` for an address or a key that can never work."""
    return ServerName(node_id, checked_address(settings.address, node_id), checked_key(settings.apikey, node_id))


def endpoint_client(
    server: ServerName, settings: EndpointSettings, headers: Mapping[str, str], *, is_remote: bool
) -> httpx2.AsyncClient:
    """A client of the server, for one event loop. That of a remote pipeline reaches public addresses alone, and uses no proxy.

    Blocks: it imports, and reads certificates. Raises `Unavailable` for an invalid address.
    """
    import httpx2

    try:
        httpx2.URL(server.address)
    except httpx2.InvalidURL:
        raise no_address(server.node_id) from None
    transport = None
    if is_remote:
        from rrext.http.public import PublicTransport

        transport = PublicTransport()
    return new_client(headers, silence=settings.silence, wait=settings.total, trust_env=not is_remote, transport=transport)


class HttpEndpoint:
    """The API of one server. Its methods belong to the event loop; a cancelled call closes its request at once.

    Every failure is a `ToolError` of `rrext.http`. Requests are repeated if no connection came about,
    one broke before its answer, or the server says that it cannot now; a stream only until its first event.
    """

    def __init__(self, client: httpx2.AsyncClient, server: ServerName, settings: EndpointSettings, ctx: SetupContext) -> None:
        self._client = client
        self.settings = settings
        self.server = server
        self.ctx = ctx

    async def post(self, path: str, body: Mapping[str, Any], ctx: ToolContext) -> bytes:
        """Send a request, with retries, and return the body of the answer."""
        content = msgspec.json.encode(body)
        attempt = Attempts(self.server, self.settings, ctx)
        while True:
            try:
                async with asyncio.timeout_at(attempt.until):
                    return await self._asked(path, content, attempt)
            except Exception as error:
                await attempt.failed(error)

    async def events(self, path: str, body: Mapping[str, Any], ctx: ToolContext) -> AsyncGenerator[str, None]:
        """The data of each event of a streamed answer, as it arrives. Close the generator (`aclosing`) to close the request."""
        content = msgspec.json.encode(body)
        attempt = Attempts(self.server, self.settings, ctx)
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
                return await whole_body(response, self.settings.max_answer)
            except BodyTooLarge:
                raise too_large(self.server, self.settings.max_answer) from None

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
        if size > self.settings.max_answer:
            raise too_large(self.server, self.settings.max_answer)


MIB: Final = 1024 * 1024

Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class Retries(msgspec.Struct, frozen=True):
    """The number of attempts of a request and the pauses between them."""

    count: int = 2
    """Retries after the first attempt."""
    delay: float = 0.5
    """Seconds before the first retry; each further one waits twice as long."""
    longest: float = 20.0
    """The longest such pause: a person would not wait longer."""
    longest_asked: float = 60.0
    """The longest pause of a `Retry-After` that is obeyed; a longer one is reported instead."""

    def pause(self, tried: int, asked: float | None) -> float | None:
        """Seconds until the next try, after `tried` tries failed; None: do not try again.

        `asked` is the pause that the server asked for. Otherwise the pause grows, and a random part of up to a half is left
        out, so that callers that failed together do not come back together.
        """
        if tried > self.count:
            return None
        if asked is not None:
            return asked if asked <= self.longest_asked else None
        longest = min(self.longest, self.delay * 2 ** (tried - 1))
        return random.uniform(longest / 2, longest)


class ApiSettings:
    """The settings of a model behind an OpenAI-compatible API. The base of the `Config` of nodes that use one."""

    model: Annotated[str, "The model's name, as its server knows it; stores remember it with vectors."] = ""
    base_url: Annotated[str, "Address of the API, such as http://localhost:11434/v1; empty: the one that the node knows."] = ""
    serverbase: Annotated[str, "Another name of base_url."] = ""
    apikey: Annotated[str, "The key, best as ${ROCKETRIDE_…}; a server without keys needs none."] = ""
    timeout: Annotated[Seconds, "Seconds that the server may be silent; a model thinks before its first word."] = 120.0
    totalTimeout: Annotated[Seconds, "Seconds for one request, retries included. The caller's deadline may end it earlier."] = (
        600.0
    )
    retries: Annotated[
        int, msgspec.Meta(ge=0, le=10), "Repetitions after a failure that may pass: 429, 5xx, no connection."
    ] = 2
    retryDelay: Annotated[Seconds, "Seconds before the first repetition; it doubles, up to 20."] = 0.5
    modelTotalTokens: Annotated[int | None, "Accepted from RocketRide's files; the server keeps its own limit."] = None
    modelSource: Annotated[str | None, "Accepted from RocketRide's files."] = None


def endpoint_settings(config: Any, address: str, node_id: str) -> EndpointSettings:
    """The endpoint of a node's `ApiSettings`; `address` is the API's if the settings name none. Raises `Unavailable`."""
    if not config.model.strip():
        raise Unavailable(f'Node "{node_id}" names no model', hint='Set "model" to the name that its server knows.')
    return EndpointSettings(
        address=config.base_url or config.serverbase or address,
        apikey=config.apikey,
        silence=config.timeout,
        total=config.totalTimeout,
        retries=Retries(count=config.retries, delay=config.retryDelay),
    )


class EndpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an API, and its limits of time. Times are seconds, sizes bytes."""

    address: str
    apikey: str = ""
    silence: float = 120.0
    total: float = 600.0
    retries: Retries = Retries()
    max_answer: int = 32 * MIB

    def __repr__(self) -> str:
        return f"<EndpointSettings {self.address}>"


def checked_address(address: str, node_id: str) -> str:
    """The address without spaces and slashes at its end. Raises `Unavailable` for an invalid one."""
    address = address.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable or parts.query or parts.fragment:
        raise no_address(node_id)
    if parts.username is not None or parts.password is not None:
        raise Unavailable(f'The address of node "{node_id}" holds a password', hint='Put the key into "apikey" instead.')
    return address


def no_address(node_id: str) -> Unavailable:
    """The failure of a node with an invalid address."""
    return Unavailable(
        f'Node "{node_id}" has no address of a model server',
        hint='Set "base_url" to the address of its API, such as http://localhost:11434/v1',
    )


def checked_key(apikey: str, node_id: str) -> str:
    """The key without spaces around it. Raises `Unavailable` for a key that no header can carry."""
    apikey = apikey.strip()
    if not (apikey.isascii() and apikey.isprintable()):
        raise Unavailable(f'"apikey" of node "{node_id}" holds characters that no key has')
    return apikey


RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses of temporary failures: too early, too many, or an overloaded server. Others do not change with a retry."""


class Attempts:
    """The attempts of one request: their number, their deadline, and the failure of the last one."""

    def __init__(self, server: ServerName, settings: EndpointSettings, ctx: ToolContext) -> None:
        self._server = server
        self._settings = settings
        self._ctx = ctx
        self.tries = 1
        self.until = asyncio.get_running_loop().time() + settings.total
        self.asked: float | None = None
        self.is_passing = False

    async def failed(self, error: Exception, *, final: bool = False) -> None:
        """Wait until the request may be repeated, or raise the caller's error for the failure."""
        failure = self._failure(error)
        pause = None if final or not self.is_passing else self._settings.retries.pause(self.tries, self.asked)
        if pause is None or pause >= self._left():
            try:
                raise failure from None  # the client's own exception holds the request, and its headers the key
            finally:
                del failure, error  # their tracebacks reference this frame
        self.tries += 1
        self.asked, self.is_passing = None, False
        await asyncio.sleep(pause)

    def _left(self) -> float:
        """Seconds until the answer is too late: for the settings, or for the caller's deadline."""
        left = self.until - asyncio.get_running_loop().time()
        deadline = self._ctx.remaining()
        return left if deadline is None else min(left, deadline)

    def _failure(self, error: Exception) -> ToolError:
        import httpx2

        server, settings = self._server, self._settings
        if isinstance(error, ToolError):
            return error
        if isinstance(error, TimeoutError):
            return late(server, f"was not done within {settings.total:g} s (totalTimeout)", tries=self.tries)
        if isinstance(error, httpx2.ConnectTimeout):
            self.is_passing = True
            return broken(server, RuntimeError("nobody takes the connection"), tries=self.tries)
        if isinstance(error, httpx2.TimeoutException):
            return late(server, f"said nothing for {settings.silence:g} s (timeout)", tries=self.tries)
        if isinstance(error, ForeignPacking):
            return bad_answer(server, "in a packing that nobody asked for")
        if isinstance(error, httpx2.DecodingError):
            return bad_answer(server, "in a form that cannot be unpacked")
        if isinstance(error, httpx2.TransportError):
            self.is_passing = True
            return broken(server, error, tries=self.tries)
        raise error


MAX_EVENT: Final = 4 * 1024 * 1024
"""Characters of one event, or of a line without an end; an event of a model has a few hundred."""

ENDS: Final = re.compile(r"[\r\n]")


class EventReader:
    """Takes pieces of a stream and returns the data of the events that they complete.

    Lines end with LF, CR LF or CR. Names, ids, pauses and comments are passed over; lines of data in one event are
    joined by LF. An event that no blank line completes is none.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest: list[str] = []
        self._rest_size = 0
        self._data: list[str] = []
        self._size = 0
        self._limit = limit

    def feed(self, piece: bytes) -> Iterator[str]:
        """The data of each event that ends within this piece. Raises `ToolError` for one that is far too long."""
        text = self._decoder.decode(piece)
        if not text:
            return
        self._rest_size += len(text)
        # A line in many pieces is joined once, when it ends: joining after each piece would take quadratic time.
        if not (ENDS.search(text) or (self._rest and self._rest[-1].endswith("\r"))):
            self._require(self._rest_size)
            self._rest.append(text)
            return
        text = "".join([*self._rest, text])
        # A CR at the end may be half of a line's end.
        held = "\r" if text.endswith("\r") else ""
        lines = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rest = lines.pop() + held
        self._rest, self._rest_size = [rest] if rest else [], len(rest)
        self._require(self._rest_size)
        for line in lines:
            if line:
                self._take(line)
            elif self._data:
                data, self._data, self._size = "\n".join(self._data), [], 0
                yield data

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._size += len(value)
            self._require(self._size)
            self._data.append(value.removeprefix(" "))

    def _require(self, size: int) -> None:
        if size > self._limit:
            raise ToolError(
                f"An event of the stream has over {self._limit} characters",
                code="model_answer_too_large",
                data={"limit": "max_event", "maximum": self._limit},
            )


class ServerName(msgspec.Struct, frozen=True):
    """The node and the address of its server, for failures; and the key, which no text may show."""

    node_id: str
    address: str
    secret: str = ""
    family: ClassVar[str] = "model"
    hints: ClassVar[Mapping[str, str]] = {
        "unauthorized": 'Check "apikey" in the settings of the node.',
        "not_found": "Check the address and the model in the settings of the node.",
        "rate_limited": "Ask less often, or see what the account of this key may use.",
        "unreachable": "Check that the server runs and that the address in the settings of the node is right.",
        "redirected": "Put the address that the server really has into the settings of the node.",
        "bad_answer": "Check that the address in the settings is that of its API; OpenAI's most often has /v1 at its end.",
    }

    def hide(self, text: str) -> str:
        """The text without the key, in whatever spelling the server repeats it."""
        redactor = Redactor()
        redactor.learn("apikey", self.secret)
        return redactor.text(text)

    def __str__(self) -> str:
        return f'Model server {self.address} of node "{self.node_id}"'

    def __repr__(self) -> str:
        return f"<ServerName {self.node_id} {self.address}>"
