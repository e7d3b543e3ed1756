"""The client of an HTTP service, the body of an answer in pieces of bounded size, and failures as `ToolError`s.

People can act on a failure, and programs can tell it apart. Each code begins with the family of the service, such as `model`:

| code | when |
|---|---|
| …_unauthorized | 401, 403: no key, or one that the server refuses |
| …_not_found | 404: the server has no such thing, or the address is not that of the API |
| …_rate_limited | 429, also after the retries; `data.retryAfter` has the seconds that the server asks for |
| …_bad_request | any other 4xx: the server does not take the request as it is |
| …_failed | 5xx, also after the retries |
| …_unreachable | no connection, or one that broke before the answer was complete |
| …_timeout | the server was silent, or not done in time |
| …_redirected | 3xx that is not followed, because the key would travel with it |
| …_bad_answer | an answer that is not what this API answers |
| …_answer_too_large | more than the limit |
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import msgspec

from rrext.errors import ToolError
from rrext.threads import imported

if TYPE_CHECKING:
    import httpx2


MAX_FAILURE: Final = 64 * 1024
"""Bytes read of an answer with an error; the rest is not worth quoting."""

PRELOADED: Final = ("anyio", "anyio._backends._asyncio", "httpcore2._backends.anyio", "httpcore2._async.http11", "h11")
"""Modules that the client would import with its first connection, on the event loop, blocking other calls."""

PACKINGS: Final = ("", "identity", "gzip", "deflate")
"""Content encodings that an answer may have, though none is requested. A piece in one of these decodes to some 60 MB
at most, in others to any size."""


CHARSETS: Final = (
    r"utf-?(8|16|32)([bl]e)?|(us-)?ascii|iso-?8859-\d+|latin-?1|windows-\d+|cp\d+|koi8-[ru]"
    r"|shift_jis|euc-(jp|kr)|gbk|gb2312|gb18030|big5"
)
"""Character sets of texts. Python decodes others too, some of them in quadratic time."""


class ForeignPacking(Exception):
    """The body of an answer has a content encoding that nobody asked for, and that may decode to any size."""


class BodyTooLarge(Exception):
    """The body of an answer is larger than its reader allows."""


def new_client(
    headers: Mapping[str, str],
    *,
    silence: float,
    wait: float,
    trust_env: bool,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> httpx2.AsyncClient:
    """Make a client; it connects to nothing yet. Blocks: it imports, and reads certificates.

    `silence` limits the pauses of a server, `wait` the time until one of the connections is free. With `trust_env`, proxies
    and certificates are those of the environment (HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE). Requests go through `transport`.
    """
    from http.cookiejar import DefaultCookiePolicy

    import httpx2

    for module in PRELOADED:
        with suppress(ImportError):  # another version may name them otherwise, and imports them later then
            imported(module)
    client_log = logging.getLogger("httpx2")
    if WITHOUT_QUERY not in client_log.filters:
        client_log.addFilter(WITHOUT_QUERY)
    client = httpx2.AsyncClient(
        # No compression: the size of an answer is limited while it is read, and a small compressed one could hold a huge one.
        headers={"accept-encoding": "identity", "user-agent": "rrext", **headers},
        timeout=httpx2.Timeout(silence, connect=min(CONNECT_TIMEOUT, silence), pool=wait),
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        follow_redirects=False,
        transport=transport,
        trust_env=trust_env,
    )
    # Calls of different callers share the client: none gets a cookie of another.
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


class WithoutQuery(logging.Filter):
    """Takes the queries out of the addresses that the client logs: some servers want their key there."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(str(each).partition("?")[0] if type(each).__name__ == "URL" else each for each in record.args)
        return True


WITHOUT_QUERY: Final = WithoutQuery()


def body_pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body of a streamed answer as it arrives. Raises `ForeignPacking`."""
    if response.headers.get("content-encoding", "").strip().lower() not in PACKINGS:
        raise ForeignPacking
    return response.aiter_bytes()


async def whole_body(response: httpx2.Response, maximum: int) -> bytes:
    """The body of a streamed answer. Raises `BodyTooLarge` over `maximum` bytes, and `ForeignPacking`."""
    pieces, size = [], 0
    async for piece in body_pieces(response):
        size += len(piece)
        if size > maximum:
            raise BodyTooLarge
        pieces.append(piece)
    return b"".join(pieces)


def media_of(response: httpx2.Response) -> tuple[str, str]:
    """The content type of an answer in small letters, without parameters, and its charset, "" if it names none."""
    media, _, rest = response.headers.get("content-type", "").partition(";")
    charset = next((part.partition("=")[2] for part in rest.split(";") if part.strip().lower().startswith("charset=")), "")
    return media.strip().lower(), charset.strip("\"' ")


def is_text(media: str) -> bool:
    """Whether a content type is one of texts."""
    return media.startswith("text/") or media.endswith("+xml") or media in ("application/xml", "application/yaml")


def body_text(body: bytes, charset: str) -> str | bytes:
    """A body as text in the charset that it names, or in UTF-8; the bytes of what is no text in it."""
    name = charset.lower() if re.fullmatch(CHARSETS, charset.lower()) else "utf-8"
    try:
        return body.decode(name)
    except (UnicodeError, LookupError):
        return body


async def failure_body(response: httpx2.Response) -> bytes:
    """The beginning of the body of an answer that tells a failure; empty if it cannot be unpacked."""
    body = bytearray()
    with suppress(ForeignPacking):  # the status matters more than an unreadable body
        async for piece in body_pieces(response):
            body += piece[: MAX_FAILURE - len(body)]
            if len(body) >= MAX_FAILURE:
                break
    return bytes(body)


KINDS: Final = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 429: "rate_limited"}


class HttpServer(Protocol):
    """The server behind an address, for failures. As text it is the beginning of a sentence."""

    family: ClassVar[str]
    """The first word of the codes."""
    hints: ClassVar[Mapping[str, str]]
    """The next step of a person, for codes without their family."""

    def hide(self, text: str) -> str:
        """The text without the secrets of the server."""
        ...


def failure(server: HttpServer, kind: str, message: str, data: Mapping[str, Any] | None = None) -> ToolError:
    """The failure of a kind, which is its code without the family; `message` follows the name of the server."""
    return ToolError(f"{server}{message}", code=f"{server.family}_{kind}", hint=server.hints.get(kind), data=data)


def of_status(server: HttpServer, status: int, body: bytes, *, asked: float | None, tries: int | None = None) -> ToolError:
    """The failure for a status other than 2xx. `asked` is the server's requested pause in seconds, `tries` unknown if None."""
    if 300 <= status < 400:
        kind = "redirected"
    elif status >= 500:
        kind = "failed"
    else:
        kind = KINDS.get(status, "bad_request")
    sentence = sentence_of(body, server.hide)
    data: dict[str, Any] = {"status": status, **_counted(tries)}
    if asked is not None:
        data["retryAfter"] = asked
    return failure(server, kind, f" answered {status}{f': {sentence}' if sentence else ''}", data)


def broken(server: HttpServer, error: BaseException, *, tries: int | None = None) -> ToolError:
    """The failure for a connection that could not be made or broke."""
    why = server.hide(" ".join(str(error).split()))[:MAX_SENTENCE] or "no reason was given"
    return failure(server, "unreachable", f": the connection failed: {why}", _counted(tries))


def late(server: HttpServer, what: str, *, tries: int | None = None) -> ToolError:
    """The failure for a timeout; `what` names the slow part and its setting."""
    return failure(server, "timeout", f" {what}", _counted(tries))


def _counted(tries: int | None) -> dict[str, int]:
    return {} if tries is None else {"tries": tries}


def bad_answer(server: HttpServer, what: str) -> ToolError:
    """The failure for an invalid answer with status 200; `what` completes "… answered "."""
    return failure(server, "bad_answer", f" answered {server.hide(what)}")


def too_large(server: HttpServer, maximum: int) -> ToolError:
    """The failure for an answer that is too large."""
    data = {"limit": "max_answer", "maximum": maximum}
    return failure(server, "answer_too_large", f" answered more than {maximum:,} bytes (max_answer)", data)


def sentence_of(body: bytes, hide: Callable[[str], str] = str) -> str:
    """The server's own message in the body of a failure, on one line and not too long; "" if there is none.

    `hide` gets the whole message: it would not find a key that was cut in two.
    """
    try:
        said: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        said = body.decode("utf-8", "replace")
        if said.lstrip().startswith("<"):
            return ""  # a page for browsers, from a proxy
    text = " ".join(hide(_words(said)).split())
    return text if len(text) <= MAX_SENTENCE else text[: MAX_SENTENCE - 1] + "…"


def _words(said: Any) -> str:
    for _ in range(4):  # servers wrap it: {"error": {"message": …}}
        if isinstance(said, list) and said:
            said = said[0]
        elif isinstance(said, dict):
            said = next((said[key] for key in ("error", "message", "detail", "msg") if said.get(key)), "")
        else:
            break
    return said if isinstance(said, str) else ""


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds of a `Retry-After`, given as a number or as a date; None if it is missing or is neither."""
    said = headers.get("retry-after", "").strip()
    if not said:
        return None
    try:
        seconds = float(said)
    except ValueError:
        from email.utils import parsedate_to_datetime  # ten milliseconds, and servers rarely name a date

        try:
            seconds = parsedate_to_datetime(said).timestamp() - (time.time() if now is None else now)
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None


CONNECT_TIMEOUT: Final = 10.0
"""Seconds to wait for a connection."""

MAX_REDIRECTS: Final = 5
"""Redirects of one request."""

MAX_CONNECTIONS: Final = 100
"""Connections of one client: as many calls at once wait for the server, further ones for a free connection."""

MAX_SENTENCE: Final = 500
"""Characters of the server's own message that are quoted."""
