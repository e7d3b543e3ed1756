"""`Connection`: the name, the provider and the settings of a server outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from rrext.connections.secret import Secret
from rrext.limits import CONNECTION_TIMEOUT

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Problems: TypeAlias = Iterator[tuple[str, str]]
"""Keys with what is wrong with their values."""


class McpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server: a command that speaks on its stdin and stdout, or the URL of one that is served by HTTP."""

    command: tuple[str, ...] = ()
    env: dict[str, Secret] = {}
    url: str | None = None
    headers: dict[str, Secret] = {}

    def problems(self, *, forward_authorization: bool = False, **_: Any) -> Problems:
        """The keys that do not fit together."""
        if bool(self.command) == bool(self.url):
            yield "url" if self.url else "command", "expected either a command or a url"
        elif self.command:
            if self.headers:
                yield "headers", "a command gets no headers: use env"
            if forward_authorization:
                yield "forward_authorization", "only a server with a url can be given the caller's authorization"
        elif self.env:
            yield "env", "only a command has an environment: use headers"
        yield from _bad_url("url", self.url)


class UrlTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that is the template of a URL: `/pets/{id}`. `parameters` has a schema for each, or the name of its type."""

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = "GET"
    description: str = ""
    parameters: dict[str, str | dict[str, Any]] = {}
    required: tuple[str, ...] = ()


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP API: an OpenAPI document (`openapi`, a path or a URL), or templates of URLs (`tools`).

    `url` is the address of the API, `only` has patterns of the names of tools, `query` is added to each request.
    """

    openapi: str | None = None
    url: str | None = None
    only: tuple[str, ...] = ()
    headers: dict[str, Secret] = {}
    query: dict[str, Secret] = {}
    tools: dict[str, UrlTool] = {}

    def problems(self, **_: Any) -> Problems:
        """The keys that do not fit together."""
        if not (self.openapi or self.url):
            yield "url", "expected a url, or openapi"
        yield from _bad_url("url", self.url)
        yield from _userinfo("openapi", self.openapi)
        for name, tool in self.tools.items():
            if _TOOL_NAME.fullmatch(name) is None:
                yield "tools", f'"{name}" is no name for a tool: use 1 to 64 of the characters a-z A-Z 0-9 _ -'
            if not tool.url.startswith("/") or tool.url.startswith("//") or "#" in tool.url:
                yield "tools", f'the url of "{name}" is no path below that of the connection, such as /pets/{{id}}'
            for required in tool.required:
                if required not in tool.parameters and f"{{{required}}}" not in tool.url:
                    yield "tools", f'"{name}" requires "{required}", which is none of its parameters'


class ComposioSettings(msgspec.Struct, frozen=True, kw_only=True):
    """An account of composio, or a user of it. `url` is the address of its API, if it is not the public one."""

    integration: str
    key: Secret
    account: str | None = None
    user: str | None = None
    version: str = "latest"
    url: str | None = None

    def problems(self, **_: Any) -> Problems:
        """The keys that do not fit together."""
        yield from _bad_url("url", self.url)


def _bad_url(key: str, url: str | None) -> Problems:
    if url and not url.startswith(("http://", "https://")):
        yield key, "expected a URL that begins with http:// or https://"
    yield from _userinfo(key, url)


def _userinfo(key: str, url: str | None) -> Problems:
    """Clients of HTTP differ in what they do with a name before the host: it is refused, and no failure shows it."""
    if url and "@" in re.split(r"[/?#\\]", url.partition("://")[2], maxsplit=1)[0]:
        yield key, "a name or password in a URL is not sent: use headers"


Settings: TypeAlias = McpSettings | HttpSettings | ComposioSettings
SETTINGS: Final[dict[str, type[Settings]]] = {"mcp": McpSettings, "http": HttpSettings, "composio": ComposioSettings}
"""Provider → its settings."""


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A server outside that tools may be called on, by the name that its operator gave it.

    `timeout` is in seconds, for one call. With `forward_authorization` the server gets the authorization of the caller.
    `shared`: pipelines and requests of callers that are not trusted may name it. Paths in the settings begin at `folder`.
    """

    name: str
    provider: str
    settings: Settings
    active: bool = True
    timeout: float = CONNECTION_TIMEOUT
    forward_authorization: bool = False
    shared: bool = False
    folder: str = ""


class ConnectionProblem(msgspec.Struct, frozen=True):
    """A fault in the configuration of a connection: a JSON pointer, a message, and the line of the file."""

    path: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
