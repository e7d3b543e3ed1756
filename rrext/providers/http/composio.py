"""Tools of Composio: actions on the accounts of users at other services, over its REST API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from rrext.connections import ComposioSettings, Connection
from rrext.errors import ConnectionInactive, ConnectionInvalid, ConnectionUnknown, RrextError, ToolError, ToolTimeout
from rrext.http import MAX_SENTENCE, bad_answer, failure
from rrext.providers.http.api_client import ApiClient, ApiServer, result_of
from rrext.providers.http.document import Schemas, UnusableDescription
from rrext.providers.http.document_tools import MAX_TOOL_DESCRIPTION
from rrext.providers.http.requests import HttpRequest
from rrext.providers.provider import HINTS, ProvidedTool, ProviderServices, ToolProvider, log
from rrext.tools.context import ToolContext

CATALOG_TTL: Final = 300.0
"""Seconds that the tools of an integration and the state of an account count as known."""
PAGE_SIZE: Final = 100
"""Tools asked for at once."""
MAX_CATALOG_PAGES: Final = 50
"""Pages of one integration; further tools are left out."""

ADDRESS: Final = "https://backend.composio.dev/api/v3"
WHY_INVALID: Final = {
    "EXPIRED": "its authorization has expired: connect the account again",
    "INITIATED": "its user has not authorized it yet",
    "INITIALIZING": "its user has not authorized it yet",
    "FAILED": "its authorization failed: connect the account again",
    "REVOKED": "its authorization was revoked: connect the account again",
}


class ComposioServer(ApiServer, frozen=True):
    """Composio, or a gateway that speaks its API, for failures."""

    family = "composio"


class ComposioTool(msgspec.Struct, frozen=True):
    """A tool with its slug and version at Composio."""

    tool: ProvidedTool
    slug: str
    version: str


class ComposioCatalog:
    """Asks Composio."""

    def __init__(self, name: str, settings: ComposioSettings, base: str, client: ApiClient, services: ProviderServices) -> None:
        self._name = name
        self._settings = settings
        self._base = base
        self._client = client
        self._services = services

    async def check_account(self) -> None:
        """Return for an account that can be used.

        Raises `ConnectionUnknown`, `ConnectionInactive` or `ConnectionInvalid`, also for a key that Composio refuses.
        """
        account = self._settings.account
        if account is None:
            return
        said = await self._asked(f"{self._base}/connected_accounts/{quote(account, safe='')}", f'the account "{account}"')
        status = said.get("status")
        toolkit = said.get("toolkit")
        slug = toolkit.get("slug") if isinstance(toolkit, Mapping) else None
        if status == "INACTIVE" or (status == "ACTIVE" and said.get("is_disabled") is True):
            raise ConnectionInactive(
                f'the connection "{self._name}" is switched off at Composio',
                hint="Enable its account there.",
                data=self._data(),
            )
        if status != "ACTIVE":
            raise self._invalid(WHY_INVALID.get(str(status), f"the state of its account is {str(status)[:50]}"))
        if slug is not None and str(slug).lower() != self._settings.integration.lower():
            raise self._invalid(f"its account is one of {str(slug)[:50]}, not of {self._settings.integration}")

    async def tools(self) -> dict[str, ComposioTool]:
        """The tools of the integration, by the names of their actions. A description that cannot be used is left out."""
        found: dict[str, ComposioTool] = {}
        query = {"toolkit_slug": self._settings.integration, "toolkit_versions": self._settings.version, "limit": PAGE_SIZE}
        for _ in range(MAX_CATALOG_PAGES):
            url = f"{self._base}/tools?{urlencode(query)}"
            page = await self._asked(url, "the catalog")
            items = page.get("items")
            if not isinstance(items, list):
                raise bad_answer(self._client.server(url), "a list of tools without items")
            for made in await self._services.in_thread(self._read, items):
                found.setdefault(made.tool.name, made)
            cursor = page.get("next_cursor")
            if not isinstance(cursor, str) or not cursor:
                break
            query["cursor"] = cursor
        else:
            log.warning("connection %s: more than %d pages of tools: further ones are left out", self._name, MAX_CATALOG_PAGES)
        return found

    async def _asked(self, url: str, what: str) -> Mapping[str, Any]:
        """A JSON object. Raises the three errors of connections for a refused key and an unknown thing."""
        try:
            answer = await self._client.send(HttpRequest(method="GET", url=url, headers={"accept": "application/json"}))
        except ToolError as error:
            raise self._meant(error, what) from None
        server = self._client.server(url)
        value = await result_of(answer, server, self._services)
        if not isinstance(value, Mapping):
            raise bad_answer(server, "something that is no JSON object")
        return value

    def _meant(self, error: ToolError, what: str) -> RrextError:
        match error.data.get("status"):
            case 401 | 403:
                return self._invalid(f"Composio refuses its key: {error.message}")
            case 404:
                return ConnectionUnknown(
                    f'Composio does not know {what} of connection "{self._name}"', data={**self._data(), "near": []}
                )
        return error

    def _invalid(self, why: str) -> ConnectionInvalid:
        return ConnectionInvalid(f'the connection "{self._name}" cannot be used: {why}', data=self._data())

    def _data(self) -> dict[str, Any]:
        return {"connection": self._name, "account": self._settings.account}

    def _read(self, items: list[Any]) -> list[ComposioTool]:
        made = []
        for item in items:
            try:
                made.append(_tool(item))
            except (UnusableDescription, RecursionError) as error:
                slug = item.get("slug") if isinstance(item, Mapping) else None
                log.warning("connection %s: the tool %s is left out: %s", self._name, str(slug)[:100], str(error)[:1000])
        return made


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
                        self.notify_watchers()
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


def _tool(item: Any) -> ComposioTool:
    slug = item.get("slug") if isinstance(item, Mapping) else None
    if not isinstance(slug, str) or not (slug.isascii() and slug.replace("_", "").replace("-", "").isalnum()):
        raise UnusableDescription("it has no slug")
    toolkit = item.get("toolkit")
    prefix = f"{toolkit.get('slug')}_".upper() if isinstance(toolkit, Mapping) else ""
    given = item.get("input_parameters")
    schema = Schemas(given if isinstance(given, Mapping) else {}).object(given or {})
    name, text, version, tags = item.get("name"), item.get("description"), item.get("version"), item.get("tags")
    annotations: dict[str, Any] = {"title": name} if isinstance(name, str) and name else {}
    annotations |= {tag: True for tag in HINTS if isinstance(tags, list) and tag in tags}
    tool = ProvidedTool(
        name=slug.removeprefix(prefix) or slug,
        description=text[:MAX_TOOL_DESCRIPTION] if isinstance(text, str) else "",
        input_schema=schema,
        annotations=annotations or None,
    )
    return ComposioTool(tool, slug, version if isinstance(version, str) else "")
