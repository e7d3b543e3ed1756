"""`WebPages`: pages of the web as text.

Others wrote them, for any reader: each answer says so. A page comes from a public address only.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.http import of_status, retry_after
from rrext.limits import MIB
from rrext.nodes.base.setup import missing_packages
from rrext.nodes.basic.http_request import Asked, HttpRequestNode, RequestedServer, Requests, http_client
from rrext.nodes.basic.web_search import MATERIAL
from rrext.nodes.documents.parse import DocumentReader
from rrext.nodes.documents.records import DocumentRequest
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    import httpx2

    from rrext.nodes.base.setup import SetupContext

FETCH_TIMEOUT: Final = 30.0
"""Seconds for a page with its redirects; browsers give up later, models wait."""
READ_TIMEOUT: Final = 30.0
"""Seconds to take the text out of a page: pages take milliseconds, large PDF documents some seconds."""
READER_MEMORY: Final = 2048 * MIB
"""Bytes of address space of the process that reads pages, as `parse` has it."""
FETCHES: Final = 20
"""Pages that are fetched at once: each may take `max_answer` bytes."""
KEPT_CHARACTERS: Final = 10_000_000
"""Characters of pages that are kept to be read on; of more, the page that rested longest is dropped."""
LOWEST_PORT: Final = 1024
"""The first port that everybody may serve a page at. Below it are mail and other services, which HTTP must not reach."""


class WebPage(msgspec.Struct, frozen=True):
    """A page as it was read. `url` is where the redirects ended."""

    url: str
    title: str
    mime_type: str
    text: str


class FetchedServer(RequestedServer, frozen=True):
    """The server of a page, for failures."""

    hints: ClassVar[Mapping[str, str]] = {
        "unreachable": "Check the address.",
        "answer_too_large": 'The operator may raise "max_answer" in the settings of the node.',
        "rate_limited": "Wait before the next request.",
    }


class PageRequests(Requests):
    """Requests of pages: at the ports of the web alone."""

    server_type = FetchedServer

    def require_allowed(self, url: httpx2.URL, what: str) -> None:
        if url.port not in (None, 80, 443) and url.port < LOWEST_PORT:
            raise ToolError(
                f"{what} at port {url.port}: pages are read at the ports 80, 443 and from {LOWEST_PORT} on",
                code="url_not_allowed",
            )


class WebPages:
    """Fetches pages and takes their text out, in a process that is shut off. Belongs to the event loop."""

    def __init__(self, config: Any, ctx: SetupContext) -> None:
        """`config` has `max_answer` and `allowPrivateAddresses`. Connects to nothing, and starts no process yet."""
        self._config = config
        self._ctx = ctx
        self._made: tuple[httpx2.AsyncClient, PageRequests] | None = None
        self._reader = DocumentReader(processes=1, memory=READER_MEMORY)
        self._kept: OrderedDict[tuple[str | None, str | None, str], WebPage] = OrderedDict()

    async def read(self, url: str, start: int, count: int, ctx: ToolContext) -> dict[str, Any]:
        """Characters of a page. From the second read on they are those of the page as it was at the first one."""
        key = (ctx.user_id, ctx.space_id, url)
        page = self._kept.get(key) if start else None
        if page is None:
            page = await self._fetched(url, ctx)
            self._keep(key, page)
        if start and start >= len(page.text):
            raise InvalidArguments.at("/input/start", f"the page has {len(page.text):,} characters")
        end = min(start + count, len(page.text))
        return {
            "url": page.url,
            "title": page.title,
            "type": page.mime_type,
            "text": page.text[start:end],
            "start": start,
            "end": end,
            "characters": len(page.text),
            "next": end if end < len(page.text) else None,
            "material": MATERIAL,
        }

    async def close(self) -> None:
        """Close the connections, and end the process."""
        if self._made is not None:
            await self._made[0].aclose()
        await self._ctx.in_thread(self._reader.close)

    def _keep(self, key: tuple[str | None, str | None, str], page: WebPage) -> None:
        self._kept[key] = page
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(len(each.text) for each in self._kept.values()) > KEPT_CHARACTERS:
            self._kept.popitem(last=False)

    async def _fetched(self, url: str, ctx: ToolContext) -> WebPage:
        missing = missing_packages("knowledge", "httpx2", "kreuzberg")
        if missing is not None:
            raise Unavailable(f"fetch_web_page needs a package: {missing}")
        fetched = await (await self._requests()).fetch("GET", Asked(url, {}, {}), FETCH_TIMEOUT)
        response = fetched.response
        if not response.is_success:
            server = FetchedServer(str(fetched.url.host))
            raise of_status(server, response.status_code, fetched.body, asked=retry_after(response.headers))
        request = DocumentRequest(
            name=os.path.basename(fetched.url.path),
            mime_type=response.headers.get("content-type", ""),
            allow_empty=True,
            timeout=READ_TIMEOUT,
        )
        parsed = await self._ctx.in_thread(self._reader.read, fetched.body, request, ctx)
        return WebPage(
            url=str(fetched.url),
            title=str(parsed.metadata.get("title", "")),
            mime_type=parsed.mime_type,
            text="".join(piece.content for piece in parsed.pieces),
        )

    async def _requests(self) -> PageRequests:
        """The requests, with the client that is made at the first one."""
        if self._made is None:
            private = self._config.allowPrivateAddresses and not self._ctx.remote
            client = await self._ctx.in_thread(http_client, self._ctx, private)
            if self._made is None:  # another call may have been faster; a client without connections needs no end
                settings = HttpRequestNode.Config()
                settings.maxAnswer, settings.maxConcurrentRequests = self._config.max_answer, FETCHES
                settings.rateLimitPerSecond = settings.rateLimitPerMinute = 0
                self._made = client, PageRequests(client, settings, self._ctx)
        return self._made[1]
