"""`McpTarget` and `Transport`: where an MCP server is, what carries the messages of a link to it, and how it ended, in words
that a person can act on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import anyio

from rrext.connections import Connection, McpSettings
from rrext.errors import ResultTooLarge, RrextError, ToolError, Unavailable
from rrext.providers.provider import ProviderServices

MESSAGE_FACTOR: Final = 2
"""A message may be this many times as large as `max_result`: escapes in JSON, and base64 of bytes, make it larger."""


class McpTarget:
    """The server of one connection: a `command`, or the `url` of Streamable HTTP."""

    def __init__(self, connection: Connection, services: ProviderServices) -> None:
        settings = connection.settings
        assert isinstance(settings, McpSettings)
        self.name = connection.name
        self.timeout = connection.timeout
        self.services = services
        self.command = settings.command
        self.url = settings.url or ""
        self.max_message = services.limits.max_result * MESSAGE_FACTOR
        self._secrets = settings.env if settings.command else settings.headers

    def reveal(self) -> dict[str, str]:
        """The environment of the command, or the headers of requests. Reads the secrets: call it in a thread."""
        return {name: secret.reveal() for name, secret in self._secrets.items()}

    def redact(self, text: str) -> str:
        """A text of the server without secrets."""
        return self.services.redactor.text(text)


class Transport:
    """`lost` is set when no message can come any more."""

    def __init__(self) -> None:
        self.lost = anyio.Event()
        self._how = "the connection was closed"
        self._data: dict[str, Any] = {}

    @property
    def is_ending(self) -> bool:
        """Whether the server answers no more; how it ended is known soon."""
        return self.lost.is_set()

    def end(self, how: str, data: dict[str, Any] | None = None) -> None:
        """Note how the server ended; the first note counts."""
        if not self.lost.is_set():
            self._how, self._data = how, data or {}
            self.lost.set()

    async def ending(self) -> tuple[str, dict[str, Any]]:
        """How the server ended, as the end of a sentence, and JSON values for programs. Waits until that is known."""
        await self.lost.wait()
        return self._how, self._data

    async def end_report(self) -> tuple[str, str, dict[str, Any]]:
        """How a server ended, or the last words of one that did not, as the end of a sentence; and JSON values."""
        if self.is_ending:
            how, data = await self.ending()
            return how, "", data
        return ("", *self.last_words())

    def last_words(self) -> tuple[str, dict[str, Any]]:
        """The end of its stderr, if there is any, as a sentence and as JSON values."""
        return "", {}


MAX_QUOTED: Final = 2000
"""Characters of a text of the server in the message of an error."""

RESULT_TOO_LARGE: Final = -31_001
"""The number by which our transports report a message over the limit to the session: outside of all reserved ranges."""

UNREACHABLE: Final = -31_002
"""The number for a request that no server got."""

BROKEN: Final = -31_003
"""The number for a request whose answer got lost on its way."""


def cut(text: str) -> str:
    """A text of a server, short enough for a message."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def of_answer(connection: str, code: int, message: str, data: Any) -> RrextError:
    """The error for a call that the server answered with an error of JSON-RPC."""
    of = f'the MCP server of connection "{connection}"'
    if code == RESULT_TOO_LARGE:
        return ResultTooLarge(f"{of} sent too much: {message}", data={"limit": "max_result"})
    if code == UNREACHABLE:
        return Unavailable(f"{of} is not available: {message}", hint="Check the URL of this connection, and its server.")
    found: dict[str, Any] = {"mcpCode": code}
    if data is not None:
        found["mcpData"] = data
    return ToolError(f"{of} answered error {code}: {cut(message)}", data=found)


def of_lost(connection: str, how: str, data: dict[str, Any]) -> ToolError:
    """The error for a call whose server ended before it answered."""
    return ToolError(
        f'the MCP server of connection "{connection}" was lost during this call: {how}',
        hint="The tool may have run. The next call connects again.",
        data={"connection": connection, **data},
    )


def of_connecting(
    connection: str, error: BaseException, how: str = "", last_words: str = "", data: dict[str, Any] | None = None
) -> RrextError:
    """The one error for a connection that could not be made. `how` its server ended, if it did; else its `last_words`."""
    causes = tuple(_causes(error))
    hint = "Check the command or URL of this connection, and its server."
    said = dict.fromkeys(" ".join(str(cause).split()) or type(cause).__name__ for cause in causes)  # the SDK quotes pages
    text = how or cut("; ".join(said))
    for cause in causes:
        if isinstance(cause, RrextError):
            if "connection" in cause.data:
                return cause
            text, hint = cause.message, cause.hint or hint
        elif isinstance(cause, TimeoutError):
            text = "it did not answer in time"
            hint = "Check that the command or URL is that of an MCP server; a slow one needs a longer timeout."
    return Unavailable(
        f'the MCP server of connection "{connection}" is not available: {text}{last_words}',
        hint=hint,
        data={"connection": connection, **(data or {})},
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors within groups of errors."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error
