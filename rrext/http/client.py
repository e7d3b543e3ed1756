"""The client of an HTTP service, and the body of an answer in pieces of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rrext.http.limits import CONNECT_TIMEOUT, MAX_CONNECTIONS
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


async def failure_body(response: httpx2.Response) -> bytes:
    """The beginning of the body of an answer that tells a failure; empty if it cannot be unpacked."""
    body = bytearray()
    with suppress(ForeignPacking):  # the status matters more than an unreadable body
        async for piece in body_pieces(response):
            body += piece[: MAX_FAILURE - len(body)]
            if len(body) >= MAX_FAILURE:
                break
    return bytes(body)
