"""`McpTarget`: where an MCP server is, and what a link to it may use."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rrext.providers.mcp.limits import MESSAGE_FACTOR
from rrext.providers.provider import ProviderServices


class McpTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The server of one connection: a `command`, or the `url` of Streamable HTTP.

    `reveal` reads the secrets, in a thread: the environment of the command, or the headers of requests. `timeout` is that
    for connecting.
    """

    name: str
    command: tuple[str, ...]
    url: str
    timeout: float
    reveal: Callable[[], dict[str, str]]
    services: ProviderServices

    @property
    def max_message(self) -> int:
        """The largest message of the server, in bytes."""
        return self.services.limits.max_result * MESSAGE_FACTOR

    def redact(self, text: str) -> str:
        """A text of the server without secrets."""
        return self.services.redactor.text(text)
