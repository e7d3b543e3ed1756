"""`HttpProvider`: the operations of an HTTP API as tools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from rrext.connections import Connection, HttpSettings, UrlTool
from rrext.errors import ConnectionInvalid
from rrext.limits import MIB
from rrext.providers.http.api_client import ApiClient, ApiServer, result_of
from rrext.providers.http.document import Schemas, UnusableDescription, origin_of, read_document, server_of
from rrext.providers.http.document_tools import DocumentTools, HttpTool
from rrext.providers.http.requests import (
    PLACEHOLDER,
    ApiBody,
    ApiOperation,
    ApiParameter,
    HttpRequest,
    annotations_of,
    request_of,
)
from rrext.providers.provider import ProvidedTool, ProviderServices, ToolProvider
from rrext.tools.context import ToolContext

MAX_DOCUMENT: Final = 32 * MIB
"""Bytes of an OpenAPI document; the largest public ones have about half of it, and ten times as much in memory."""

_WITHOUT_BODY: Final = ("GET", "HEAD", "DELETE")


class HttpProvider(ToolProvider):
    """An HTTP API: the operations of its OpenAPI document, which is read once, and the templates of its connection."""

    def __init__(self, connection: Connection, services: ProviderServices) -> None:
        super().__init__(connection, services)
        assert isinstance(connection.settings, HttpSettings)
        self._settings = connection.settings
        self._client = ApiClient(connection, services, ApiServer, headers=self._settings.headers, query=self._settings.query)
        self._learning = asyncio.Lock()
        self._base = ""
        self._tools: Mapping[str, HttpTool] | None = None

    async def tools(self) -> Sequence[ProvidedTool]:
        return [found.tool for found in (await self._learned()).values()]

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        found = self.found(tool, await self._learned())
        return await self._asked(found.operation, self._base, arguments, ctx)

    async def ask(self, given: UrlTool, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """The result of a request that is none of its tools, below the address of the connection. Raises as `call`."""
        base = self._settings.url
        if base is None:
            raise self._invalid("it has no url")
        result = await self._asked(url_tool("ask", given).operation, base.rstrip("/"), arguments, ctx)
        return await self.without_secrets(result, ctx.authorization_for(self.connection))

    async def _asked(self, operation: ApiOperation, base: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        request = request_of(operation, base, arguments, self._settings.query)
        answer = await self._client.send(request, authorization=ctx.authorization_for(self.connection))
        return await result_of(answer, self._client.server(request.url), self.services)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _learned(self) -> Mapping[str, HttpTool]:
        if self._tools is None:
            async with self._learning:
                if self._tools is None:
                    self._tools = await self._learn()
        return self._tools

    async def _learn(self) -> dict[str, HttpTool]:
        source, raw = await self._document()
        base, tools = await self.services.in_thread(self._read, source, raw)
        if origin_of(base) is None or urlsplit(base).query or urlsplit(base).fragment:
            raise self._invalid("its address is none, such as https://api.example.com/v1", hint='Set "url" to it.')
        self._base = base
        return tools

    async def _document(self) -> tuple[str, bytes]:
        """The URL of the document, and its text; "" for a file, and for no document."""
        place = self._settings.openapi
        if place is None:
            return "", b""
        if origin_of(place) is None:
            return "", await self.services.in_thread(self._file, place)
        url = self._settings.url
        trusted = url is None or origin_of(url) == origin_of(place)
        request = HttpRequest(
            method="GET", url=place, headers={"accept": "application/json, application/yaml;q=0.9, */*;q=0.8"}
        )
        answer = await self._client.send(request, trusted=trusted, maximum=MAX_DOCUMENT)
        return place, answer.body

    def _file(self, path: str) -> bytes:
        try:
            with open(os.path.join(self.connection.folder, os.path.expanduser(path)), "rb") as file:
                raw = file.read(MAX_DOCUMENT + 1)
        except OSError as error:
            raise self._invalid(f"its OpenAPI document cannot be read: {error.strerror or error}: {path}") from None
        if len(raw) > MAX_DOCUMENT:
            raise self._invalid(f"its OpenAPI document has more than {MAX_DOCUMENT:,} bytes")
        return raw

    def _read(self, source: str, raw: bytes) -> tuple[str, dict[str, HttpTool]]:
        """The address of the API, and its tools; those of the connection come before those of the document."""
        settings = self._settings
        if settings.openapi is None and not settings.tools:
            raise self._invalid("it has neither openapi nor tools")
        base = settings.url
        tools: dict[str, HttpTool] = {}
        try:
            if settings.openapi is not None:
                document = read_document(raw)
                if base is None:
                    base = self._server(document, source)
                reader = DocumentTools(
                    document,
                    source=source,
                    base=(base or "").rstrip("/"),
                    headers=settings.headers,
                    query=settings.query,
                    only=settings.only,
                )
                tools = reader.read()
                reader.report(self.connection.name)
            own = {name: url_tool(name, given) for name, given in settings.tools.items()}
        except UnusableDescription as error:
            raise self._invalid(f"its tools cannot be read: {error}") from None
        return (base or "").rstrip("/"), {**own, **{name: tool for name, tool in tools.items() if name not in own}}

    def _server(self, document: Mapping[str, Any], source: str) -> str | None:
        """The address that the document names: one from the net may not send the keys of the connection elsewhere."""
        found = server_of(document, source)
        if source and found is not None and origin_of(found) != origin_of(source):
            raise self._invalid(
                f"its document names a server elsewhere: {found[:200]}", hint='If that is right, set "url" to this address.'
            )
        return found

    def _invalid(self, why: str, hint: str | None = None) -> ConnectionInvalid:
        name = self.connection.name
        return ConnectionInvalid(f'the connection "{name}" cannot be used: {why}', hint=hint, data={"connection": name})


def url_tool(name: str, given: UrlTool) -> HttpTool:
    """The tool of a template. Raises `UnusableDescription`.

    Each `{name}` in the template is a parameter, required; others go into the query, or for POST, PUT and PATCH into a body
    of JSON.
    """
    properties: dict[str, Any] = {key: _schema_of(value) for key, value in given.parameters.items()}
    placeholders = list(dict.fromkeys(PLACEHOLDER.findall(given.url)))
    for placeholder in placeholders:
        properties.setdefault(placeholder, {"type": "string"})
    required = [*placeholders, *(key for key in given.required if key not in placeholders)]
    schema = Schemas({}).input(properties, required)
    others = tuple(key for key in properties if key not in placeholders)
    within = PLACEHOLDER.findall(given.url.partition("?")[0])
    parameters = [
        ApiParameter(name=key, place="path" if key in within else "text", property=key, style="simple") for key in placeholders
    ]
    body = None
    if given.method in _WITHOUT_BODY:
        parameters += [ApiParameter(name=key, place="query", property=key, explode=True) for key in others]
    elif others:
        body = ApiBody(kind="json", media="application/json", properties=others)
    tool = ProvidedTool(name=name, description=given.description, input_schema=schema, annotations=annotations_of(given.method))
    return HttpTool(tool, ApiOperation(method=given.method, path=given.url, parameters=tuple(parameters), body=body))


def _schema_of(value: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a parameter, which may be the name of a type alone."""
    return {"type": value} if isinstance(value, str) else value
