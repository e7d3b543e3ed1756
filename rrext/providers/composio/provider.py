"""`ComposioProvider`: the tools of one integration for one account."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from rrext.connections.connection import ComposioSettings, Connection
from rrext.errors import ToolError, ToolTimeout
from rrext.http.failures import bad_answer, failure
from rrext.http.limits import MAX_SENTENCE
from rrext.providers.composio.catalog import ComposioCatalog, ComposioServer, ComposioTool
from rrext.providers.http.api_client import ApiClient, ApiServer, result_of
from rrext.providers.http.requests import HttpRequest
from rrext.providers.limits import CATALOG_TTL
from rrext.providers.provider import ProvidedTool, ProviderServices, ToolProvider
from rrext.tools.context import ToolContext

ADDRESS: Final = "https://backend.composio.dev/api/v3"


class ComposioProvider(ToolProvider):
    """An integration of Composio: its tools are known for a while, and its account is checked with them."""

    def __init__(self, connection: Connection, services: ProviderServices) -> None:
        super().__init__(connection, services)
        assert isinstance(connection.settings, ComposioSettings)
        self._settings = connection.settings
        self._base = (self._settings.url or ADDRESS).rstrip("/")
        self._client = ApiClient(connection, services, ComposioServer, headers={"x-api-key": self._settings.key})
        self._catalog = ComposioCatalog(connection.name, self._settings, self._base, self._client, services)
        self._learning = asyncio.Lock()
        self._tools: Mapping[str, ComposioTool] | None = None
        self._until = 0.0

    async def tools(self) -> Sequence[ProvidedTool]:
        return [found.tool for found in (await self._learned()).values()]

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        found = self.found(tool, self._tools if self._tools is not None else await self._learned())
        said: dict[str, Any] = {"arguments": arguments}
        if self._settings.account is not None:
            said["connected_account_id"] = self._settings.account
        if self._settings.user is not None:
            said["user_id"] = self._settings.user
        if found.version:
            said["version"] = found.version
        request = HttpRequest(
            method="POST",
            url=f"{self._base}/tools/execute/{quote(found.slug, safe='')}",
            headers={"accept": "application/json", "content-type": "application/json"},
            content=msgspec.json.encode(said),
        )
        answer = await self._client.send(request, authorization=ctx.authorization_for(self.connection))
        server = self._client.server(request.url)
        return _data_of(await result_of(answer, server, self.services), server)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _learned(self) -> Mapping[str, ComposioTool]:
        if self._tools is None or self.services.clock.now() >= self._until:
            async with self._learning:
                now = self.services.clock.now()
                if self._tools is None or now >= self._until:
                    before, self._tools = self._tools, await self._asked()
                    self._until = now + CATALOG_TTL
                    if before is not None and before != self._tools:
                        self.tell_change()
        return self._tools

    async def _asked(self) -> Mapping[str, ComposioTool]:
        """The tools, if the account can be used; all pages together within the timeout of the connection."""
        try:
            async with asyncio.timeout(self.connection.timeout):
                await self._catalog.check_account()
                return await self._catalog.tools()
        except TimeoutError:
            server = self._client.server(self._base)
            raise ToolTimeout(f"{server}: the catalog was not read within {self.connection.timeout:g} s") from None


def _data_of(value: Any, server: ApiServer) -> Any:
    """The data of an execution. Raises `ToolError` for one that failed, which is told with status 200."""
    if not isinstance(value, Mapping) or not isinstance(value.get("successful"), bool):
        raise bad_answer(server, "without saying whether the tool was successful")
    if value["successful"]:
        return value.get("data")
    error = value.get("error")
    text = " ".join(server.hide(error if isinstance(error, str) else "").split())[:MAX_SENTENCE]
    raise _failed(server, text, value)


def _failed(server: ApiServer, text: str, value: Mapping[str, Any]) -> ToolError:
    data = {key: value[key] for key in ("data", "log_id") if value.get(key)}
    return failure(server, "failed", f": the tool failed: {text or 'it does not say why'}", data)
