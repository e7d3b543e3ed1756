"""The errors that callers get for exceptions of nodes."""

from __future__ import annotations

import logging
from typing import Final

from rrext.errors import (
    ClientError,
    InternalError,
    InvalidRequest,
    ParseError,
    RrextError,
    ShuttingDown,
    TaskError,
    ToolError,
    UnknownCommand,
)
from rrext.limits import Limits

NOT_AN_AUTHORS: Final = (
    ClientError,
    InternalError,
    InvalidRequest,
    ParseError,
    ShuttingDown,
    TaskError,
    UnknownCommand,
)

log: Final = logging.getLogger("rrext.failures")


def failure_of(
    error: BaseException, *, what: str, node_id: str, tool: str | None, request: str, trusted: bool, limits: Limits
) -> RrextError:
    """Translate an exception of a node's code into the error for the caller; the log has the details, with the request.

    An author's `ToolError` is passed on unchanged, and so are rrext's own errors. Authors may not use codes about the
    server, such as `internal`. Of any other exception the caller gets the type, and the text only if the caller is trusted
    (stdio and the CLI). `what` begins the message.
    """
    if isinstance(error, RrextError) and not isinstance(error, NOT_AN_AUTHORS) and _is_whole(error):
        return error
    log.warning("%s %s", request, what, exc_info=error)
    kind = type(error).__name__
    if isinstance(error, MemoryError) and not error.args:
        text = "no memory is left in its process"
    else:
        text = _text_of(error) if trusted else "its text is in the server's log"
    if len(text) > limits.max_error_text:
        text = text[: limits.max_error_text] + f"… (cut at max_error_text, {limits.max_error_text} characters)"
    message = f"{what}: {kind}: {text}" if text else f"{what}: {kind}"
    data: dict[str, object] = {"nodeId": node_id, "exception": kind}
    if tool is not None:
        data["tool"] = tool
    failure = ToolError(message, data=data)
    failure.__cause__ = error
    return failure


def internal_error() -> InternalError:
    """Make the error for a bug of rrext, whose traceback is in the log."""
    return InternalError("internal error; the server's log has it under this request")


def cancelled_from_inside(tool: str, node_id: str) -> ToolError:
    """Make the error for a tool that cancelled itself; its caller did not cancel it."""
    return ToolError(f'Tool "{tool}" on node "{node_id}" was cancelled from inside', data={"nodeId": node_id, "tool": tool})


def shortened(error: RrextError, limits: Limits) -> RrextError:
    """Shorten an error that is longer than `max_result`, because an author's error may have any length."""
    most = limits.max_error_text
    message = f"{error.message[:most]}… (the error was longer than max_result, {limits.max_result} bytes)"
    short = ToolError(message, data={"limit": "max_result", "maximum": limits.max_result})
    if len(error.code) <= limits.max_name:
        short.code = error.code
    return short


def _is_whole(error: RrextError) -> bool:
    """Whether an author's error has all fields as text: its class may not call the base's `__init__`, or set other types."""
    message, hint = getattr(error, "message", None), getattr(error, "hint", None)
    return isinstance(message, str) and (hint is None or isinstance(hint, str)) and hasattr(error, "data")


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # an author's __str__ may raise; the error must still reach the caller
        return "(its text could not be read)"
    return readable(text)


def readable(text: object) -> str:
    """Make text of an author encodable as JSON: lone surrogates are escaped."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")
