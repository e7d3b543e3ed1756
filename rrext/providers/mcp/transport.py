"""`McpTarget` and `Transport`: where an MCP server is, what carries the messages of a link to it, and how it ended."""

from __future__ import annotations

from typing import Any, Final

import anyio

from rrext.connections import Connection, McpSettings
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

    async def said(self) -> tuple[str, str, dict[str, Any]]:
        """How a server ended, or the last words of one that did not, as the end of a sentence; and JSON values."""
        if self.is_ending:
            how, data = await self.ending()
            return how, "", data
        return ("", *self.last_words())

    def last_words(self) -> tuple[str, dict[str, Any]]:
        """The end of its stderr, if there is any, as a sentence and as JSON values."""
        return "", {}
