"""`tool_http_request`: requests to servers that the caller names, within methods, addresses and rates of the operator.

Who asks is a model most often. So nothing that it says leads to a private address, around the patterns of addresses, or to
another host with the secrets that it gave for one.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal
from urllib.parse import unquote

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.http import (
    MAX_CONNECTIONS,
    MAX_REDIRECTS,
    BodyTooLarge,
    ForeignPacking,
    bad_answer,
    body_text,
    broken,
    failure,
    is_text,
    late,
    media_of,
    new_client,
    too_large,
    whole_body,
)
from rrext.limits import KIB, MIB
from rrext.nodes.base.node import Node, Switch
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.providers.http.requests import HEADER_NAME, encoded
from rrext.secrets.redaction import Redactor
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function
from rrext.tools.validation import InvalidSchema, SchemaValidator

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

DEFAULT_TIMEOUT: Final = 30.0
"""Seconds for a request, its redirects and its whole answer; RocketRide's."""

MAX_TIMEOUT: Final = 300.0
"""The most seconds that a caller may ask for; RocketRide's."""

MAX_URL: Final = 8 * KIB
"""Characters of an address; servers and proxies refuse longer ones."""

QUICK_BODY: Final = 64 * KIB
"""Bytes of an answer that the loop itself decodes; a thread does so with larger ones."""

REDIRECTS: Final = (301, 302, 303, 307, 308)
"""Statuses that name another address for the same request, or for a GET."""

OURS: Final = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers of the connection. `host` would name another site than the address that was checked."""

KEPT_ELSEWHERE: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers that follow a redirect to another server; any other may be a key for the first one."""

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
SWITCHES: Final[Mapping[str, Switch]] = {
    method: Switch(f"allow{method}", refusal=f"Requests with the method {method} are off")
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
}
Text = str | int | float | bool
"""A value that travels as text; models send numbers too."""


class UrlPattern(msgspec.Struct, frozen=True):
    """A row of the list of addresses."""

    whitelistPattern: Annotated[
        str, "A regular expression that is found in the address, best with ^https://host/ at its begin."
    ] = ""

    def __post_init__(self) -> None:
        try:
            pattern_of(self.whitelistPattern).compile()
        except InvalidSchema:
            raise ValueError("whitelistPattern is no regular expression") from None


def pattern_of(*patterns: str) -> SchemaValidator:
    """A check whether one of the patterns is found in a text, in bounded time whatever the pattern."""
    return SchemaValidator({"anyOf": [{"type": "string", "pattern": pattern} for pattern in patterns]})


class BasicAuth(msgspec.Struct, frozen=True):
    """A name and a password."""

    username: str = ""
    password: str = ""


class BearerAuth(msgspec.Struct, frozen=True):
    """A bearer token."""

    token: str


class ApiKey(msgspec.Struct, frozen=True):
    """A key in a header or in the query."""

    key: Annotated[str, "The name of the header or parameter."]
    value: str
    add_to: Literal["header", "query_param"] = "header"


class Authorization(msgspec.Struct, frozen=True):
    """What proves who asks; `type` says which member counts."""

    type: Literal["none", "basic", "bearer", "api_key"] = "none"
    basic: BasicAuth | None = None
    bearer: BearerAuth | None = None
    api_key: ApiKey | None = None


class RawBody(msgspec.Struct, frozen=True):
    """A text as it is."""

    content: str = ""
    content_type: str = "application/json"


class Body(msgspec.Struct, frozen=True):
    """The body of a request; `type` says which member counts."""

    type: Literal["none", "raw", "form_data", "x_www_form_urlencoded"] = "none"
    raw: RawBody | None = None
    form_data: dict[str, str] | None = None
    urlencoded: dict[str, str] | None = None


class HttpRequestNode(Node):
    """Sends HTTP requests for callers, most often models, and answers with what the server said.

    Each method has a switch, and `urlWhitelist` the patterns of allowed addresses; an empty list allows all public ones.
    Redirects are followed where they lead to an allowed address. A status that tells a failure is an answer as any other.
    """

    provider = "tool_http_request"
    title = "HTTP request"
    class_types = ("tool",)
    capabilities = ("invoke",)

    class Config:
        allowGET: Annotated[bool, "Allow GET."] = True
        allowPOST: Annotated[bool, "Allow POST."] = True
        allowPUT: Annotated[bool, "Allow PUT."] = True
        allowPATCH: Annotated[bool, "Allow PATCH."] = True
        allowDELETE: Annotated[bool, "Allow DELETE."] = True
        allowHEAD: Annotated[bool, "Allow HEAD."] = False
        allowOPTIONS: Annotated[bool, "Allow OPTIONS."] = False
        urlWhitelist: Annotated[
            tuple[UrlPattern, ...], "The allowed addresses: one of the patterns must be found in the address. Empty: all."
        ] = ()
        rateLimitPerSecond: Annotated[int, msgspec.Meta(ge=0), "Requests per second; 0: no limit."] = 10
        rateLimitPerMinute: Annotated[int, msgspec.Meta(ge=0), "Requests per minute; 0: no limit."] = 100
        maxConcurrentRequests: Annotated[int, msgspec.Meta(ge=0, le=MAX_CONNECTIONS), "Requests at once; 0: 100."] = 5
        allowPrivateAddresses: Annotated[
            bool, "Allow addresses of this machine and of private networks; never for a pipeline that came over a network."
        ] = False
        maxAnswer: Annotated[int, msgspec.Meta(ge=1, le=4 * MIB), "Bytes of an answer's body."] = MIB
        serverName: Annotated[str, "Accepted from RocketRide's files."] = "http"

    @classmethod
    def unavailable(cls) -> str | None:
        """The line that installs the client, if it is missing."""
        return missing_packages("http", "httpx2")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Requests]:
        """Make the client; it connects to nothing yet."""
        client = await ctx.in_thread(http_client, ctx, config.allowPrivateAddresses and not ctx.remote)
        try:
            yield Requests(client, config, ctx)
        finally:
            await client.aclose()

    @tool_function(group="http", annotations={"readOnlyHint": False, "openWorldHint": True})
    async def http_request(
        self,
        url: str,
        method: Method,
        body_json: Any = None,
        query_params: dict[str, Text] | None = None,
        headers: dict[str, Text] | None = None,
        bearer_token: str | None = None,
        basic_auth: BasicAuth | None = None,
        timeout: Annotated[float, msgspec.Meta(gt=0, le=MAX_TIMEOUT)] = DEFAULT_TIMEOUT,
        path_params: dict[str, Text] | None = None,
        auth: Authorization | None = None,
        body: Body | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Make an HTTP request.

        Answers `{status_code, status_text, headers, body, body_encoding, json, elapsed_ms, content_type}`. `json` is the value
        of a body that is JSON, else null. A body that is no text is base64, and `body_encoding` says so.

        Args:
            url: The whole address, such as https://api.example.com/users/1
            method: The method.
            body_json: A JSON value to send; a text is sent as it is.
            query_params: Parameters to add to the address.
            headers: Further headers.
            bearer_token: A token, sent as `Authorization: Bearer …`.
            basic_auth: A name and a password.
            timeout: Seconds for the whole request.
            path_params: Values for names in the path: {"id": "123"} replaces :id.
            auth: Other ways to authorize; bearer_token and basic_auth are shorter.
            body: Other bodies than JSON; for JSON, body_json is shorter.
        """
        SWITCHES[method].require(self, "http_request")
        made = Asked(url, path_params or {}, query_params or {})
        made.authorize(auth or _short_auth(bearer_token, basic_auth))
        made.add_headers(headers or {})
        made.fill(body or _json_body(body_json))
        requests: Requests = self.shared
        return await requests.send(self, method, made, timeout, ctx)


def _short_auth(bearer_token: str | None, basic_auth: BasicAuth | None) -> Authorization:
    if bearer_token is not None:
        return Authorization("bearer", bearer=BearerAuth(bearer_token))
    return Authorization("none" if basic_auth is None else "basic", basic=basic_auth)


def _json_body(value: Any) -> Body:
    if value is None:
        return Body()
    return Body("raw", raw=RawBody(value if isinstance(value, str) else msgspec.json.encode(value).decode()))


def http_client(ctx: SetupContext, private: bool) -> httpx2.AsyncClient:
    """The client of a component: one for public addresses uses no proxy, which could reach others. Blocks."""
    transport = None
    if not private:
        from rrext.http.public import PublicTransport

        local = {
            "who": f'node "{ctx.node_id}" does not connect',
            "hint": 'The operator may set "allowPrivateAddresses": true in the settings of the node.',
        }
        transport = PublicTransport(**({} if ctx.remote else local), keep=0)
    return new_client({}, silence=MAX_TIMEOUT, wait=MAX_TIMEOUT, trust_env=private, transport=transport)


class Asked:
    """A request that a caller asks for. Raises `InvalidArguments` for what no request can carry."""

    def __init__(self, url: str, path_params: Mapping[str, Text], query_params: Mapping[str, Text]) -> None:
        import httpx2

        self.url = target_of(_filled(url, path_params), "/input/url")
        """The address that the patterns are about; parameters of the query cannot lead elsewhere."""
        self.query: dict[str, str] = {name: str(_plain(value)) for name, value in query_params.items()}
        self.headers = httpx2.Headers()
        self.secrets: list[str] = []
        self.content: dict[str, Any] = {}
        """The body, as the client takes it."""

    def authorize(self, auth: Authorization) -> None:
        """Add what proves who asks."""
        given: Any = None if auth.type == "none" else getattr(auth, auth.type)
        if auth.type != "none" and given is None:
            raise InvalidArguments.at(f"/input/auth/{auth.type}", "is missing")
        match given:
            case BasicAuth():
                pair = f"{given.username}:{given.password}"
                coded = b64encode(pair.encode("utf-8", "replace")).decode()
                self.secrets += [given.password, pair, coded]
                self.headers["authorization"] = f"Basic {coded}"
            case BearerAuth():
                self.secrets.append(given.token)
                self._header("authorization", f"Bearer {given.token}", "/input/auth")
            case ApiKey():
                self.secrets.append(given.value)
                if given.add_to == "query_param":
                    self.query[given.key] = given.value
                else:
                    self._header(given.key, given.value, "/input/auth/api_key")
            case _:
                pass

    def add_headers(self, headers: Mapping[str, Text]) -> None:
        """Add headers of the caller; those of `authorize` stay."""
        for name, value in headers.items():
            if name.lower() not in self.headers:
                self._header(name, str(_plain(value)), f"/input/headers/{name}")
                self.secrets.append(str(value))

    def _header(self, name: str, value: str, pointer: str) -> None:
        if name.lower() == "accept-encoding":
            return  # the size of an answer is limited, which a packed one hides
        if name.lower() in OURS:
            raise InvalidArguments.at(pointer, f"{name} belongs to the connection")
        if not HEADER_NAME.fullmatch(name):
            raise InvalidArguments.at(pointer, "is no name of a header")
        if not (value.isascii() and (value.isprintable() or not value)):
            raise InvalidArguments.at(pointer, "holds characters that no header can carry")
        self.headers[name] = value

    def fill(self, body: Body) -> None:
        """Add the body."""
        member = {"form_data": "form_data", "x_www_form_urlencoded": "urlencoded"}.get(body.type, body.type)
        given: Any = None if body.type == "none" else getattr(body, member)
        if body.type != "none" and given is None:
            raise InvalidArguments.at(f"/input/body/{member}", "is missing")
        match body.type:
            case "raw":
                self.content = {"content": given.content.encode("utf-8", "surrogatepass")}
                if "content-type" not in self.headers:
                    self._header("content-type", given.content_type, "/input/body/raw/content_type")
            case "form_data":
                self.headers.pop("content-type", None)  # that of the client names the boundary
                self.content = {"files": {name: (None, value) for name, value in given.items()}}
            case "x_www_form_urlencoded":
                self.content = {"data": given}
            case "none":
                pass


def _plain(value: Text) -> Text:
    """The value as JSON writes it."""
    return str(value).lower() if isinstance(value, bool) else value


def _filled(url: str, params: Mapping[str, Text]) -> str:
    """The address with values in the place of `:name` in its path, of which they cannot change the rest."""
    if not params:
        return url
    head, slash, path = _split(url)
    used: set[str] = set()

    def value(found: re.Match[str]) -> str:
        used.add(found[1])
        if found[1] not in params:
            return found[0]
        given = _plain(params[found[1]])
        if _climbs(unquote(str(given))):  # encoded ones too: a proxy decodes them, and so does its server
            raise InvalidArguments.at(f"/input/path_params/{found[1]}", 'holds the step "." or ".."')
        return encoded(given)

    path, mark, query = path.partition("?")
    path = re.sub(r":(\w+)", value, path)
    if missing := [name for name in params if name not in used]:
        raise InvalidArguments.at(f"/input/path_params/{missing[0]}", f'the path of the url has no ":{missing[0]}"')
    return f"{head}{slash}{path}{mark}{query}"


def _split(url: str) -> tuple[str, str, str]:
    """The scheme and host of an address, and its path."""
    scheme, colon, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{colon}{host}", slash, path


def _climbs(path: str) -> bool:
    """Whether a path has a step to another folder; each client and server may leave it out, with the name before it."""
    return any(piece in (".", "..") for piece in re.split(r"[/\\]", unquote(path)))


def target_of(url: str, pointer: str) -> httpx2.URL:
    """A checked address, in the form in which it is requested. Raises `InvalidArguments`."""
    import httpx2

    try:
        found = httpx2.URL(url) if len(url) <= MAX_URL else None
    except (httpx2.InvalidURL, ValueError):
        found = None
    if found is None or found.scheme not in ("http", "https") or not found.host:
        what = f"is longer than {MAX_URL} characters" if len(url) > MAX_URL else "is no address such as https://example.com/x"
        raise InvalidArguments.at(pointer, what)
    if found.userinfo:
        raise InvalidArguments.at(
            pointer, "holds a name or password", hint='An address has none here; http_request takes it as "basic_auth".'
        )
    if _climbs(re.split(r"[?#]", url, maxsplit=1)[0].partition("://")[2]):  # of the text: httpx2 leaves out those that it sees
        raise InvalidArguments.at(pointer, 'has "." or ".." in its path')
    return found.copy_with(fragment=None)


class RequestedServer(msgspec.Struct, frozen=True):
    """The server of a request, for failures: its secrets, and the path and query of the address, are in no text."""

    address: str
    secrets: Sequence[str] = ()
    family: ClassVar[str] = "http"
    hints: ClassVar[Mapping[str, str]] = {
        "unreachable": "Check the address, and that the server runs.",
        "timeout": 'A slow server may need a longer "timeout".',
        "answer_too_large": 'Ask for less, or let the operator raise "maxAnswer" in the settings of the node.',
        "rate_limited": "Wait before the next request.",
    }

    def hide(self, text: str) -> str:
        """The text without the secrets of the caller."""
        redactor = Redactor()
        for secret in self.secrets:
            redactor.learn("secret", secret)
        return redactor.text(text)

    def __str__(self) -> str:
        return f"Server {self.address}"

    def __repr__(self) -> str:
        return f"<RequestedServer {self.address}>"


class Fetched(msgspec.Struct, frozen=True):
    """The last answer of a request and its redirects, its whole body, and the address that it came from."""

    url: httpx2.URL
    response: httpx2.Response
    body: bytes


class Requests:
    """The shared state of a component: its client, what it allows, and the requests so far. Belongs to the event loop."""

    server_type: ClassVar[type[RequestedServer]] = RequestedServer

    def __init__(self, client: httpx2.AsyncClient, config: Any, ctx: SetupContext) -> None:
        self._client = client
        self._config = config
        self._ctx = ctx
        patterns = [row.whitelistPattern for row in config.urlWhitelist if row.whitelistPattern.strip()]
        self._patterns = pattern_of(*patterns) if patterns else None
        self._at_once = config.maxConcurrentRequests or MAX_CONNECTIONS
        self._running = 0
        self._rates = [Rate(config.rateLimitPerSecond, 1.0, "second"), Rate(config.rateLimitPerMinute, 60.0, "minute")]

    async def send(self, node: Node, method: str, asked: Asked, timeout: float, ctx: ToolContext) -> dict[str, Any]:
        """The answer to a request as a caller reads it. Raises as `fetch`."""
        began = asyncio.get_running_loop().time()
        fetched = await self.fetch(method, asked, timeout, lambda method: SWITCHES[method].require(node, "http_request"))
        response, body = fetched.response, fetched.body
        elapsed = round((asyncio.get_running_loop().time() - began) * 1000)
        media, charset = media_of(response)
        if len(body) <= QUICK_BODY:
            shown = shown_body(body, media, charset)
        else:
            shown = await self._ctx.in_thread(shown_body, body, media, charset)
        return {
            "status_code": response.status_code,
            "status_text": response.reason_phrase,
            "headers": dict(response.headers),
            **shown,
            "elapsed_ms": elapsed,
            "content_type": response.headers.get("content-type", ""),
        }

    async def fetch(self, method: str, asked: Asked, timeout: float, require: Callable[[str], object] = str) -> Fetched:
        """Send a request once, and follow its redirects; `require` refuses the method of one. Raises `ToolError` with a code of
        `rrext.http`.
        """
        import httpx2

        server = self.server_type(origin_of(asked.url), tuple(asked.secrets))
        self.require_allowed(asked.url, f"{server} is asked for an address")
        with self._place(server):
            try:
                async with asyncio.timeout(timeout):
                    return await self._followed(method, asked, server, require)
            except TimeoutError:
                raise late(server, f"was not done within {timeout:g} s", tries=1) from None
            except httpx2.TimeoutException:
                raise late(server, "takes no connection", tries=1) from None
            except BodyTooLarge:
                raise too_large(server, self._config.maxAnswer) from None
            except (ForeignPacking, httpx2.DecodingError):
                raise bad_answer(server, "in a form that cannot be unpacked") from None
            except httpx2.TransportError as error:
                raise broken(server, error, tries=1) from None

    async def _followed(self, method: str, asked: Asked, server: RequestedServer, require: Callable[[str], object]) -> Fetched:
        url = asked.url.copy_merge_params(asked.query) if asked.query else asked.url
        request = self._client.build_request(method, url, headers=asked.headers, **asked.content)
        content = request.read()
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code not in REDIRECTS or "location" not in response.headers:
                    return Fetched(url, response, await whole_body(response, self._config.maxAnswer))
            finally:
                await response.aclose()
            headers = request.headers
            url, before = self._redirected(server, url, response.headers["location"]), url
            if response.status_code == 303 or (response.status_code < 303 and method == "POST"):
                method, content = method if method == "HEAD" else "GET", b""
                headers = _without(headers, lambda name: name.startswith("content-"))
                require(method)
            if origin_of(url) != origin_of(before):
                headers = _without(headers, lambda name: name not in KEPT_ELSEWHERE)
            headers = _without(headers, lambda name: name in ("host", "content-length", "transfer-encoding"))
            request = self._client.build_request(method, url, headers=headers, content=content or None)
        raise failure(server, "redirected", f" redirects in a circle, or more than {MAX_REDIRECTS} times")

    def _redirected(self, server: RequestedServer, url: httpx2.URL, location: str) -> httpx2.URL:
        import httpx2

        try:
            target = target_of(str(url.join(location)), "/location")
        except (InvalidArguments, ValueError, httpx2.InvalidURL):
            raise failure(server, "redirected", " redirects to what is no address") from None
        self.require_allowed(target, f"{server} redirects to an address of {origin_of(target)}")
        return target

    def require_allowed(self, url: httpx2.URL, what: str) -> None:
        """Raise `ToolError` for an address that no pattern allows."""
        if self._patterns is not None and not self._patterns.fits(str(url)):
            raise ToolError(
                f"{what} that no pattern allows",
                code="url_not_allowed",
                hint='The operator may add a pattern to "urlWhitelist" in the settings of the node.',
            )

    @contextmanager
    def _place(self, server: RequestedServer) -> Iterator[None]:
        """A place among the requests at once, and in each rate."""
        if self._running >= self._at_once:
            raise failure(server, "rate_limited", f" may be asked later: {self._at_once} requests run (maxConcurrentRequests)")
        now = asyncio.get_running_loop().time()
        for rate in self._rates:
            if (wait := rate.wait(now)) > 0:
                text = f" may be asked later: {rate.most} requests per {rate.unit} are allowed"
                raise failure(server, "rate_limited", text, {"retryAfter": round(wait, 3)})
        for rate in self._rates:
            rate.left -= 1
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


class Rate:
    """A bucket of requests that fills evenly, `most` in `seconds`; 0 is no limit."""

    def __init__(self, most: int, seconds: float, unit: str) -> None:
        self.most = most
        self.unit = unit
        self.left = float(most)
        self._seconds = seconds
        self._filled: float | None = None

    def wait(self, now: float) -> float:
        """Seconds until there is room for a request."""
        if not self.most:
            return 0.0
        if self._filled is not None:
            self.left = min(self.most, self.left + (now - self._filled) * self.most / self._seconds)
        self._filled = now
        return max(0.0, (1 - self.left) * self._seconds / self.most)


def origin_of(url: httpx2.URL) -> str:
    """The scheme, host and port of an address."""
    return str(url.copy_with(raw_path=b"/", fragment=None)).rstrip("/")


def _without(headers: httpx2.Headers, leave: Callable[[str], bool]) -> httpx2.Headers:
    kept = headers.copy()
    for name in [name for name in kept if leave(name.lower())]:
        del kept[name]
    return kept


def shown_body(body: bytes, media: str, charset: str) -> dict[str, Any]:
    """The body of an answer for its caller: text, or base64 of what is none, and the value of JSON."""
    text = body_text(body, charset)
    if isinstance(text, bytes) and is_text(media):
        text = body.decode("utf-8", "replace")
    value = None
    if isinstance(text, str) and ("json" in media or "javascript" in media):
        try:
            value = msgspec.json.decode(text.removeprefix("\ufeff"))
        except (msgspec.DecodeError, RecursionError):
            value = None
    if isinstance(text, str) and "\0" not in text:
        return {"body": text, "body_encoding": "text", "json": value}
    return {"body": b64encode(body).decode(), "body_encoding": "base64", "json": None}
