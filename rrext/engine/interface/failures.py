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
    """The error that travels for an exception of a node's code; the log has more of it, under the name of the request.

    An author's `ToolError` is shown as it is, and so is what rrext itself raises while it serves the tool. Codes that say
    something of the server, such as `internal`, are not an author's to give. Of anything else the type
    travels, and the text only to a caller who could read it anyway (contract: stdio and the CLI). `what` begins the message.
    """
    if isinstance(error, RrextError) and not isinstance(error, NOT_AN_AUTHORS) and _is_whole(error):
        return error
    log.warning("%s %s", request, what, exc_info=error)
    kind = type(error).__name__
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
    """The error for a bug of rrext; the log has the traceback."""
    return InternalError("internal error; the server's log has it under this request")


def cancelled_from_inside(tool: str, node_id: str) -> ToolError:
    """The error for a tool that cancelled itself: its caller did not."""
    return ToolError(f'Tool "{tool}" on node "{node_id}" was cancelled from inside', data={"nodeId": node_id, "tool": tool})


def shortened(error: RrextError, limits: Limits) -> RrextError:
    """The short form of an error that is longer than a result may be: an author's may have any length."""
    most = limits.max_error_text
    message = f"{error.message[:most]}… (the error was longer than max_result, {limits.max_result} bytes)"
    short = ToolError(message, data={"limit": "max_result", "maximum": limits.max_result})
    if len(error.code) <= limits.max_name:
        short.code = error.code
    return short


def _is_whole(error: RrextError) -> bool:
    """Whether it can be told: an author's class may forget to call `__init__` of its base, or set what is no text."""
    message, hint = getattr(error, "message", None), getattr(error, "hint", None)
    return isinstance(message, str) and (hint is None or isinstance(hint, str)) and hasattr(error, "data")


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # an author's __str__ may be broken; the failure must still be told
        return "(its text could not be read)"
    return readable(text)


def readable(text: object) -> str:
    """Text that can travel in JSON, whatever an author put there: lone surrogates are spelt out."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")
