"""`search_exa`: questions to the search service Exa, whose results are the answer.

Others wrote the pages that it finds, for any reader: each answer says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol

import msgspec

from rrext.connections import UrlTool
from rrext.errors import ToolError, Unavailable
from rrext.http import bad_answer
from rrext.nodes.base.lanes import question_text
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.basic.web_search import MATERIAL
from rrext.nodes.http import EndpointSettings, HttpEndpoint, Seconds, ServerName, checked_address, checked_key, endpoint_client
from rrext.tools.context import ToolContext

ADDRESS: Final = "https://api.exa.ai"
PATH: Final = "/search"
MOST_QUERY: Final = 2000
"""Characters of a question; a search for more finds nothing better."""


class ExaServer(ServerName, frozen=True):
    """The service, for failures."""

    family: ClassVar[str] = "search"
    hints: ClassVar[Mapping[str, str]] = {
        "unauthorized": 'Check "apikey" in the settings of the node, or the headers of its connection.',
        "rate_limited": "Ask less often, or see what the account of this key may use.",
        "unreachable": "Check the network, and the address in the settings of the node.",
    }

    def __str__(self) -> str:
        return f'Exa, of node "{self.node_id}",'


class ExaService(Protocol):
    """The search service, reached by a key of the settings or by a connection."""

    async def search(self, request: dict[str, Any], ctx: ToolContext) -> Any:
        """The JSON value that the service answers. Raises `ToolError`."""
        ...


class ExaEndpoint:
    """The service by a key."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint

    async def search(self, request: dict[str, Any], ctx: ToolContext) -> Any:
        body = await self._endpoint.post(PATH, request, ctx)
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            raise bad_answer(self._endpoint.server, "no JSON") from None


class ExaConnection:
    """The service by a connection of the operator's, which has the key in its headers."""

    def __init__(self, connection: str, ctx: SetupContext) -> None:
        self._connection = connection
        self._ctx = ctx

    async def search(self, request: dict[str, Any], ctx: ToolContext) -> Any:
        provider: Any = await self._ctx.provider(self._connection, "http")
        asked = UrlTool(url=PATH, method="POST", parameters={name: {} for name in request})
        return await provider.ask(asked, request, ctx)


class ExaSearchNode(Node):
    """Searches the web with Exa. Each question is one search; the results are its answer, as JSON, and go out as text too.

    The key is `apikey`, or stands in the headers of a `connection` of the operator's: `[exa]`, `provider = "http"`,
    `url = "https://api.exa.ai"`, `headers = { x-api-key = "env:EXA_KEY" }`.
    """

    provider = "search_exa"
    title = "Exa search"
    class_types = ("search",)
    lanes = {"questions": ("answers", "text")}
    profiles = {"default": {}}
    default_profile = "default"
    beside_profile = ("apikey", "connection")
    connections = {"connection": "http"}
    shared: ExaService

    class Config:
        apikey: Annotated[str, "The key, best as ${ROCKETRIDE_…}; a connection needs none here."] = ""
        connection: Annotated[str, "A connection to Exa, whose provider is http, instead of a key here."] = ""
        base_url: Annotated[str, "Address of the API."] = ADDRESS
        type: Annotated[Literal["auto", "keyword", "neural", "fast", "deep"], "How Exa searches."] = "auto"
        numResults: Annotated[int, msgspec.Meta(ge=1, le=20), "Results of a search."] = 5
        includeHighlights: Annotated[bool, "Ask for passages of the pages."] = True
        highlightChars: Annotated[int, msgspec.Meta(ge=100, le=4000), "Characters of the passages of a page."] = 600
        timeout: Annotated[Seconds, "Seconds for a search, retries included."] = 30.0
        model: Annotated[str, "Accepted from RocketRide's files."] = ""
        modelTotalTokens: Annotated[int | None, "Accepted from RocketRide's files."] = None

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing package for HTTP, if any."""
        return missing_packages("http", "httpx2")

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[ExaService]:
        """Prepare the way to the service; connects to nothing yet."""
        if config.connection:
            ctx.connections.find(config.connection, "http")
            yield ExaConnection(config.connection, ctx)
            return
        key = checked_key(config.apikey, ctx.node_id)
        if not key:
            raise Unavailable(
                f'Node "{ctx.node_id}" has no key for Exa', hint='Set "apikey" to ${ROCKETRIDE_EXA_KEY}, or "connection".'
            )
        server = ExaServer(ctx.node_id, checked_address(config.base_url, ctx.node_id), key)
        settings = EndpointSettings(address=server.address, apikey=key, silence=config.timeout, total=config.timeout)
        headers = {"content-type": "application/json", "x-api-key": key}
        client = await ctx.in_thread(lambda: endpoint_client(server, settings, headers, is_remote=ctx.remote))
        try:
            yield ExaEndpoint(HttpEndpoint(client, server, settings, ctx))
        finally:
            await client.aclose()

    async def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        query = question_text(question).strip()
        if not query or len(query) > MOST_QUERY:
            raise ToolError(
                f'Node "{self.node_id}" searches for a question of 1 to {MOST_QUERY:,} characters', code="invalid_question"
            )
        config = self.config
        request: dict[str, Any] = {"query": query, "type": config.type, "numResults": config.numResults}
        if config.includeHighlights:
            request["contents"] = {"highlights": {"maxCharacters": config.highlightChars}}
        found = await self.shared.search(request, ctx)
        if not isinstance(found, dict) or not isinstance(found.get("results"), list):
            raise ToolError("The search service answered no list of results", code="search_bad_answer")
        text = msgspec.json.format(msgspec.json.encode({**found, "material": MATERIAL}), indent=2).decode()
        answer = {"answer": text, "expectJson": bool(question.get("expectJson"))}
        for lane, value in (("answers", answer), ("text", text)):
            if (sent := self.emit(lane, value)) is not None:
                await sent
