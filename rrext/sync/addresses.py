"""Pages at addresses: fetched in bounded size and time, again only if they changed."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import IO, TYPE_CHECKING, ClassVar, Final
from urllib.parse import urljoin, urlsplit

import anyio
import msgspec

from rrext.errors import ClientError, ToolError
from rrext.http import (
    MAX_REDIRECTS,
    BodyTooLarge,
    ForeignPacking,
    body_pieces,
    broken,
    failure,
    failure_body,
    late,
    new_client,
    of_status,
)
from rrext.limits import MIB

if TYPE_CHECKING:
    import httpx2

MAX_ITEM: Final = 64 * MIB
"""Bytes of a page, an entry or a message: as much as books have; what is larger is an archive or has no end."""

MAX_ITEM_TIME: Final = 120.0
"""Seconds for a page with its redirects; a server that gives a byte now and then would take for ever."""

MAX_SILENCE: Final = 30.0
"""Seconds between two pieces of a page."""

MAX_IN_MEMORY: Final = MIB
"""Bytes of a page up to which it is kept in memory, until it is sent; a larger one is in a file."""

TYPES_OF_FEEDS: Final = ("text/", "application/xhtml+xml", "application/xml", "application/pdf", "application/json")
"""Types of pages that the entry of a feed may lead to: what is read, and no film or program that its author chose."""


class AddressError(ClientError, code="address"):
    """An address is none of a page."""


class FetchedPage(msgspec.Struct, frozen=True):
    """A page, or that it did not change (no `file`). `validators` are what the server compares it by."""

    file: IO[bytes] | None = None
    digest: str = ""
    size: int = 0
    mime_type: str | None = None
    validators: str | None = None
    url: str = ""


class PageServer:
    """The server behind an address, for failures (`HttpServer`)."""

    family: ClassVar[str] = "page"
    hints: ClassVar[Mapping[str, str]] = {"redirected": "Give the address that it leads to."}

    def __init__(self, url: str) -> None:
        self._url = url

    def hide(self, text: str) -> str:
        """The text: an address has no secrets that its operator did not write."""
        return text

    def __str__(self) -> str:
        return self._url.partition("?")[0]


class PageFetcher:
    """Fetches pages. What an operator typed may be anywhere; what a feed or a redirect to another host chose has to be a public
    address, at every redirect.
    """

    def __init__(self) -> None:
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._exits = AsyncExitStack()
        self._lock = anyio.Lock()

    async def fetch(self, url: str, *, known: str | None = None, of_feed: bool = False, most: int = MAX_ITEM) -> FetchedPage:
        """Fetch a page of at most `most` bytes, unless it is that of the validators `known`.

        Raises `ToolError` with codes `page_…` and `private_address`, and `AddressError`.
        """
        try:
            with anyio.fail_after(MAX_ITEM_TIME):
                return await self._follow(check_address(url), known, of_feed, most)
        except TimeoutError:
            raise late(PageServer(url), f"was not done in {MAX_ITEM_TIME:g} s") from None

    async def _follow(self, url: str, known: str | None, of_feed: bool, most: int) -> FetchedPage:
        import httpx2

        typed = None if of_feed else urlsplit(url).hostname
        for _ in range(MAX_REDIRECTS + 1):
            server = PageServer(url)
            client = await self._client(is_public=urlsplit(url).hostname != typed)
            headers = _conditions(known) if known else {}
            try:
                async with client.stream("GET", url, headers=headers) as response:
                    if response.status_code == 304 and known:
                        return FetchedPage(validators=known, url=url)
                    if response.status_code in (301, 302, 303, 307, 308) and response.headers.get("location"):
                        url = check_address(urljoin(url, response.headers["location"]))
                        continue
                    if response.status_code != 200:
                        raise of_status(server, response.status_code, await failure_body(response), asked=None)
                    return await _read(response, server, url, of_feed, most)
            except httpx2.TimeoutException:
                raise late(server, f"was silent for {MAX_SILENCE:g} s") from None
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise broken(server, error) from None
        raise failure(PageServer(url), "redirected", f": more than {MAX_REDIRECTS} redirects")

    async def _client(self, *, is_public: bool) -> httpx2.AsyncClient:
        async with self._lock:
            if is_public not in self._clients:
                transport = None
                if is_public:
                    from rrext.http.public import PublicTransport

                    hint = "Give the address itself in a list: what an operator types may be private."
                    who = "no address of a feed or of a redirect may lead"
                    transport = PublicTransport(who=who, hint=hint, keep=0)
                made = new_client({}, silence=MAX_SILENCE, wait=MAX_ITEM_TIME, trust_env=not is_public, transport=transport)
                self._clients[is_public] = await self._exits.enter_async_context(made)
            return self._clients[is_public]

    async def aclose(self) -> None:
        """End the connections."""
        await self._exits.aclose()


def check_address(url: str) -> str:
    """An address of http or https, without the part behind `#`. Raises `AddressError`."""
    try:
        parts = urlsplit(url)
        is_page = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_page = False
    if not is_page or not url.isprintable():
        raise AddressError(f"{url[:200]!r} is no address of http or https")
    return url.partition("#")[0]


def _conditions(known: str) -> dict[str, str]:
    return msgspec.json.decode(known, type=dict[str, str])


async def _read(response: httpx2.Response, server: PageServer, url: str, of_feed: bool, most: int) -> FetchedPage:
    told = response.headers
    kind = told.get("content-type", "").strip()
    if of_feed and kind and not kind.lower().startswith(TYPES_OF_FEEDS):
        raise ToolError(f"{server} is of type {kind[:100]}, which entries of feeds may not lead to", code="page_type")
    digest, size = hashlib.sha256(), 0
    length = told.get("content-length", "")
    file = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115 – its reader closes it
    try:
        if length.isdecimal() and int(length[:20]) > most:
            raise BodyTooLarge
        async for piece in body_pieces(response):
            size += len(piece)
            if size > most:
                raise BodyTooLarge
            digest.update(piece)
            file.write(piece)
    except BaseException as error:
        file.close()
        if isinstance(error, BodyTooLarge):
            raise ToolError(f"{server} has more than {most:,} bytes", code="page_too_large") from None
        if isinstance(error, ForeignPacking):
            raise ToolError(f"{server} answered in an encoding that nobody asked for", code="page_bad_answer") from None
        raise
    file.seek(0)
    given = {"if-none-match": told.get("etag"), "if-modified-since": told.get("last-modified")}
    validators = {name: value for name, value in given.items() if value and value.isascii()}
    stamp = msgspec.json.encode(validators).decode() if validators else None
    return FetchedPage(file, digest.hexdigest(), size, kind or None, stamp, url)
