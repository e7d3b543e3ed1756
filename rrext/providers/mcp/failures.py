"""Errors of MCP servers and of their connections, in words that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rrext.errors import ResultTooLarge, RrextError, ToolError, Unavailable

# mcp/results.py, mcp/failures.py
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
