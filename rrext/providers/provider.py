"""`ToolProvider`: a source of tools outside this process, reached through one connection; and the pool of an engine, which
has one for each connection that is in use.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec

from rrext.connections import results_redactor
from rrext.errors import ConnectionInvalid, ToolNotFound, Unavailable
from rrext.limits import PROVIDER_CLOSE_TIMEOUT, QUICK_SEARCH
from rrext.secrets.redaction import authorization_redactor, folded
from rrext.threads import imported

if TYPE_CHECKING:
    from rrext.clock import Clock
    from rrext.connections import Connection
    from rrext.limits import Limits
    from rrext.secrets.redaction import Redactor
    from rrext.tools.context import ToolContext
    from rrext.tools.spec import ToolSpec


T = TypeVar("T")
Found = TypeVar("Found")

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""Annotations of tools that are true or false."""

log: Final = logging.getLogger("rrext.providers")


class ProvidedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its provider describes it. The schemas are JSON Schema, of an object for the input."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] | None = None


class ProviderServices(Protocol):
    """The services of the engine for providers."""

    limits: Limits
    clock: Clock
    redactor: Redactor

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function that imports or blocks on a thread of its own, and return or raise its outcome."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine that reports its own failures; the engine cancels it at its end."""
        ...


class ToolProvider(ABC):
    """The tools behind one connection. All methods run on the engine's loop.

    A provider connects at its first use, and again after a loss. It never repeats a call by itself.
    """

    def __init__(self, connection: Connection, services: ProviderServices) -> None:
        self.connection = connection
        self.services = services
        self._redactor = results_redactor(connection)
        self._watchers: list[Callable[[], None]] = []

    @abstractmethod
    async def tools(self) -> Sequence[ProvidedTool]:
        """The tools, now. A description that cannot be used is left out, and logged. Raises `RrextError`."""

    @abstractmethod
    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """Call a tool once, with arguments that fit its schema. Returns JSON, bytes or `Content`. Raises `RrextError`."""

    def own_tools(self) -> Mapping[str, ToolSpec]:
        """Tools of ours beside those of the server, by name."""
        return {}

    @abstractmethod
    async def aclose(self) -> None:
        """End the connection. Called once, when no call is left."""

    def found(self, tool: str, known: Mapping[str, Found]) -> Found:
        """The tool of a name among those that are known. Raises `ToolNotFound`."""
        if tool not in known:
            raise ToolNotFound.near(f'The connection "{self.connection.name}" has no tool "{tool}".', tool, known)
        return known[tool]

    @property
    def has_secrets(self) -> bool:
        """Whether the connection has secrets that its server may repeat."""
        return self._redactor.knows_any

    async def without_secrets(self, value: Any, authorization: str | None = None) -> Any:
        """The answer of a server, JSON or bytes, without the secrets of the connection and the authorization of the caller.

        A server may repeat what it was sent, also where it succeeds.
        """
        redactors = [self._redactor] if self.has_secrets else []
        if authorization is not None:
            redactors.append(authorization_redactor(authorization))
        for redactor in redactors:
            text = folded(value)
            if text is not None and len(text) <= QUICK_SEARCH:
                value = redactor.value(value, text)
            else:
                value = await self.services.in_thread(redactor.value, value, text)
        return value

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of the tools, as far as the provider hears of it."""
        self._watchers.append(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        """Call `changed` no more."""
        self._watchers.remove(changed)

    def notify_watchers(self) -> None:
        """Tell the watchers that the tools have changed."""
        for changed in tuple(self._watchers):
            try:
                changed()
            except Exception:
                log.exception("a watcher of connection %s failed", self.connection.name)


PROVIDERS: Final[dict[str, tuple[str, str]]] = {
    "mcp": ("rrext.providers.mcp.provider:McpProvider", "mcp"),
    "http": ("rrext.providers.http.provider:HttpProvider", "http"),
    "composio": ("rrext.providers.http.composio:ComposioProvider", "http"),
}
"""`provider` of a connection → its class, as `module:Class`, and the extra with its packages."""


def provider_class(kind: str) -> type[ToolProvider]:
    """Import the class of a kind, in a thread. Raises `ConnectionInvalid` if a package of its is missing."""
    place, extra = PROVIDERS[kind]
    module, _, name = place.partition(":")
    try:
        found: type[ToolProvider] = getattr(imported(module), name)
    except ImportError as error:
        hint = f'Install it with: pip install "rrext[{extra}]"'
        message = f'connections with provider = "{kind}" need a package that is not installed ({error}); {hint}'
        raise ConnectionInvalid(message, hint=hint) from None
    return found


class ProviderPool:
    """Makes the provider of a connection at its first use, and closes all of them at the end of the engine."""

    def __init__(self, services: ProviderServices) -> None:
        self._services = services
        self._made: dict[str, ToolProvider] = {}
        self._is_closed = False

    async def get(self, connection: Connection) -> ToolProvider:
        """The provider of a connection, which is made at the first use of it. Raises `Unavailable` after the end."""
        name = connection.name
        if name not in self._made:
            kind = await self._services.in_thread(provider_class, connection.provider)
            if self._is_closed:
                raise Unavailable(f'The connection "{name}" is closed')
            if name not in self._made:  # another caller may have been faster
                self._made[name] = kind(connection, self._services)
        return self._made[name]

    async def aclose(self) -> None:
        """Close the providers; one that does not end in its time is left behind."""
        self._is_closed = True
        if not self._made:
            return
        closing = {asyncio.ensure_future(provider.aclose()): provider for provider in self._made.values()}
        done, stuck = await asyncio.wait(closing, timeout=PROVIDER_CLOSE_TIMEOUT)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("connection %s did not close well", closing[task].connection.name, exc_info=error)
        for task in stuck:
            log.warning("connection %s does not close", closing[task].connection.name)
            task.cancel()
