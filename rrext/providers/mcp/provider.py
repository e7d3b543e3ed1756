"""`McpProvider`: the tools of an external MCP server, as a child process or over Streamable HTTP, with results as `Content`,
which has all that the server said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from random import uniform
from typing import Any, Final

import anyio

from rrext.connections import Connection
from rrext.content import Content
from rrext.errors import InvalidArguments, ToolError, Unavailable
from rrext.providers.mcp.link import Asker, Link, ToolListing, open_link
from rrext.providers.mcp.transport import McpTarget, cut, of_connecting
from rrext.providers.provider import ProvidedTool, ProviderServices, ToolProvider, log
from rrext.threads import shielded
from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolOptions
from rrext.tools.names import HOST_REQUEST, is_host_offer
from rrext.tools.spec import ToolSpec

FIRST_PAUSE: Final = 0.25
"""Seconds before the second attempt to connect; each further failure doubles the pause."""

LONGEST_PAUSE: Final = 8.0
"""Seconds between two attempts at most: a server that is back is found before a person gives up."""

LONGEST_WAIT: Final = 1.0
"""Seconds that a call waits for the next attempt; before a later one it fails at once: a list of all tools waits too."""

STABLE_LIFE: Final = 10.0
"""Seconds after which a connection that broke is made again at once: it broke for a reason of its own."""

OFFERED: Final = {"completion": "completions"}
"""The beginning of a method → the capability of the server, if it has another name."""

EMPTY: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "completion/complete": "completion",
}
"""Method → the member that is empty for a server without that capability."""

ENTRIES: Final = {
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    "resources/read": ("contents", "uri"),
}
"""Method → the member that is a list, and the member that each entry needs."""

OFFERS: Final = frozenset((*EMPTY, "prompts/get", "resources/read"))
"""The methods of what servers offer beside tools."""

ABOUT_THE_ANSWER: Final = frozenset(("resultType", "ttlMs", "cacheScope", "_meta"))
"""Members of a result that hold for this connection alone."""


class McpProvider(ToolProvider):
    """Keeps at most one link to a server, made at first use and again when the server was lost and a call needs it: after a
    pause that grows with each failure, however many calls wait. While the rest of the pause is long, calls fail at once with
    the error of the last attempt. One task enters and leaves each link, as the SDK demands.

    A call is sent once: a call that may have run is never repeated.
    """

    def __init__(self, connection: Connection, services: ProviderServices) -> None:
        super().__init__(connection, services)
        self._target = McpTarget(connection, services)
        self._listing: ToolListing | None = None  # as last read, also while there is no link
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Link] | None = None
        self._scope: anyio.CancelScope | None = None
        self._is_closed = False
        self._failures = 0
        self._retry_at = 0.0

    async def tools(self) -> Sequence[ProvidedTool]:
        """The tools as last read; the first time, or after a failure, the server is connected."""
        listing = self._listing or (await self._connected()).listing
        return tuple(listing.tools.values())

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Content:
        """Call a tool once; a link that was lost is made again before."""
        link = await self._connected()
        found = self.found(tool, link.listing.tools)
        result = await link.call(found.name, arguments, ctx, self._headers(ctx), self._asker(ctx))
        return content_of(self.connection.name, found, result)

    async def ask(self, method: str, params: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        """The result of a request for what the server offers beside tools; empty lists of what it does not have.

        Raises `InvalidArguments` for any other method.
        """
        if method not in OFFERS:
            raise InvalidArguments.at("/input/method", f"expected one of {', '.join(sorted(OFFERS))}")
        link = await self._connected()
        capabilities = link.session.server_capabilities
        kind = method.partition("/")[0]
        has = capabilities is None or getattr(capabilities, OFFERED.get(kind, kind), None) is not None
        if not has and method in EMPTY:
            return {EMPTY[method]: {"values": []} if kind == "completion" else []}
        result = await link.ask(method, params, ctx, self._headers(ctx), self._asker(ctx))
        require_complete(f'{method} of connection "{self.connection.name}"', result)
        members = {key: value for key, value in result.items() if key not in ABOUT_THE_ANSWER}
        if method in ENTRIES:
            members |= self._entries(method, members)
        meta = own_meta(result.get("_meta"))
        authorization = ctx.authorization_for(self.connection)
        return await self.without_secrets(members if meta is None else {**members, "_meta": meta}, authorization)

    def own_tools(self) -> dict[str, ToolSpec]:
        """The tool by which hosts ask the server for what it offers beside tools."""

        async def request(input: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
            return await self.ask(input["method"], input["params"], ctx)

        schema = {"properties": {"method": {"type": "string"}, "params": {"type": "object"}}}
        timeout = self.connection.timeout
        options = ToolOptions(
            name=HOST_REQUEST, input_schema=schema, available=is_host_offer, timeout=timeout, takes_input=True
        )
        return {HOST_REQUEST: ToolSpec(request, options, owner=None, bound=False)}

    def _entries(self, method: str, members: dict[str, Any]) -> dict[str, Any]:
        """The entries of a list that can be named; the others are left out, and logged. Raises `ToolError`."""
        listed, key = ENTRIES[method]
        entries = members.get(listed)
        if not isinstance(entries, list):
            name = self.connection.name
            raise ToolError(f'the answer of the MCP server of connection "{name}" to {method} has no list of {listed}')
        found = [each for each in entries if isinstance(each, dict) and isinstance(each.get(key), str)]
        if len(found) < len(entries):
            lost = len(entries) - len(found)
            log.warning("connection %s: %d of its %s have no %s and are left out", self.connection.name, lost, listed, key)
        return {listed: found}

    def _headers(self, ctx: ToolContext) -> dict[str, str]:
        authorization = ctx.authorization_for(self.connection)
        return {} if authorization is None else {"authorization": authorization}

    def _asker(self, ctx: ToolContext) -> Asker:
        """The function that asks the caller of a request, without the secrets of the connection."""
        return Asker(ctx, partial(self.without_secrets, authorization=ctx.authorization_for(self.connection)))

    async def aclose(self) -> None:
        """End the link and its server, and wait for that."""
        self._is_closed = True
        if self._scope is not None:
            self._scope.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _connected(self) -> Link:
        """A link that is up. Waits for the attempt in progress or for a new one; raises its error, an `RrextError`."""
        if self._link is not None and not self._link.is_lost:
            return self._link
        if self._is_closed:
            raise self._closed()
        if self._ready is None or self._ready.done():
            if self._pause() > LONGEST_WAIT and (failed := _error_of(self._ready)) is not None:
                raise failed.with_traceback(None)
            self._ready = asyncio.get_running_loop().create_future()
            self._ready.add_done_callback(_seen)
            self._task = self.services.spawn(self._own(self._ready, self._task), f"link of {self.connection.name}")
        return await shielded(self._ready)

    async def _own(self, ready: asyncio.Future[Link], earlier: asyncio.Task[None] | None) -> None:
        """The life of one link, from the attempt to its end. The future and the link tell all that goes wrong."""
        if earlier is not None:
            await asyncio.wait([earlier])  # two servers at once may want the same files
        try:
            with anyio.CancelScope() as self._scope:
                if self._is_closed:
                    self._scope.cancel()
                await anyio.sleep(self._pause())
                await self._live(ready)
        except Exception as error:
            if ready.done():
                log.warning("connection %s broke: %s", self.connection.name, error)
            else:
                ready.set_exception(of_connecting(self.connection.name, error))
        finally:
            self._link = None
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._failures - 1, 30)) * uniform(0.5, 1.0)
            self._retry_at = anyio.current_time() + (pause if self._failures else 0.0)
            if not ready.done():
                ready.set_exception(self._closed())

    def _pause(self) -> float:
        """Seconds until the next attempt may begin."""
        return max(0.0, self._retry_at - anyio.current_time())

    async def _live(self, ready: asyncio.Future[Link]) -> None:
        self._failures += 1
        async with open_link(self._target, self._listing, self._adopt) as link:
            try:
                with anyio.fail_after(self.connection.timeout):
                    await link.establish()
            except Exception as error:
                raise of_connecting(self.connection.name, error, *await link.transport.end_report()) from error
            self._link = link
            began = anyio.current_time()
            ready.set_result(link)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(link.follow)
                    await link.transport.lost.wait()
                    tasks.cancel_scope.cancel()
            finally:
                if anyio.current_time() - began > STABLE_LIFE:
                    self._failures = 0

    def _adopt(self, listing: ToolListing) -> None:
        earlier, self._listing = self._listing, listing
        if earlier is not None and earlier.tools != listing.tools:
            self.notify_watchers()

    def _closed(self) -> Unavailable:
        return Unavailable(f'The connection "{self.connection.name}" is closed')


def _error_of(ready: asyncio.Future[Link] | None) -> BaseException | None:
    """The error of an attempt that failed."""
    return None if ready is None or ready.cancelled() else ready.exception()


def _seen(ready: asyncio.Future[Link]) -> None:
    """Take note of an error that no caller waits for any more."""
    if not ready.cancelled():
        ready.exception()


PROTOCOL_KEYS: Final = "io.modelcontextprotocol/"
"""The beginning of the keys of `_meta` that the protocol reserves."""


def content_of(connection: str, tool: ProvidedTool, result: dict[str, Any]) -> Content:
    """The content of the result of `tools/call`. Raises `ToolError` for a failure that the tool reports."""
    of = f'tool "{tool.name}" of connection "{connection}"'
    require_complete(of, result)
    blocks = result.get("content", [])
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise ToolError(f"The result of {of} is no MCP result: content is no list of blocks")
    content = Content.of_members({**result, "_meta": own_meta(result.get("_meta"))})
    if result.get("isError"):
        texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
        raise ToolError(cut("\n".join(texts)) or "it failed, and did not say why", data=content.members)
    if tool.output_schema is not None and "structuredContent" not in result:
        raise ToolError(f"The {of} has an output schema and sent no structured content")
    return content


def own_meta(meta: Any) -> dict[str, Any] | None:
    """The `_meta` of a result without what the protocol itself says there, which is of this connection alone."""
    given: dict[str, Any] = meta if isinstance(meta, dict) else {}
    return {key: value for key, value in given.items() if not key.startswith(PROTOCOL_KEYS)} or None


def require_complete(of: str, result: dict[str, Any]) -> None:
    """Raise `ToolError` for a result that is none yet."""
    kind = result.get("resultType", "complete")
    if kind == "complete":
        return
    if kind != "input_required":
        raise ToolError(f'the result of {of} has the unknown type "{cut(str(kind))}"')
    requests = result.get("inputRequests")
    asked = requests.values() if isinstance(requests, dict) else ()
    methods = sorted({str(each.get("method")) for each in asked if isinstance(each, dict)})
    raise ToolError(
        f"{of} asks for more input ({', '.join(methods) or 'later'}), which its caller cannot give",
        hint="Give all that the tool needs in its arguments.",
    )
