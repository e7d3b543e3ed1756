"""`Target`: where an MCP server is, and what a link to it may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec


class InThread(Protocol):
    """Runs a function that blocks in a thread."""

    def __call__(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]: ...


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The server of one connection: a `command`, or the `url` of Streamable HTTP.

    `reveal` reads the secrets, in a thread: the environment of the command, or the headers of requests. `timeout` is that
    for connecting.
    """

    name: str
    command: tuple[str, ...]
    url: str
    timeout: float
    max_message: int
    reveal: Callable[[], dict[str, str]]
    redact: Callable[[str], str]
    in_thread: InThread
