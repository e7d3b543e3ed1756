"""Error answers to LSP requests."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cattrs import transform_error
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams, JsonRpcRequestCancelled

from rrext.errors import RrextError, number_of
from rrext.limits import DEFAULTS
from rrext.wire.wire_error import wire_error

MAX_REASONS: Final = 3
"""Reasons named in one error of invalid parameters."""

log: Final = logging.getLogger("rrext.lsp")


def as_failure(error: RrextError) -> JsonRpcException:
    """An error of rrext in the form in which `rrext serve` answers it over JSON-RPC."""
    parts = wire_error(error)
    hint = {} if parts.hint is None else {"hint": parts.hint}
    return JsonRpcException(parts.message, number_of(parts.code), {**parts.data, "code": parts.code, **hint})


def failure_of(error: BaseException, method: str) -> JsonRpcException:
    """The error answer for an exception. An unforeseen one is a bug: the log has its traceback, the client one line."""
    if isinstance(error, asyncio.CancelledError):
        return JsonRpcRequestCancelled(f"{method} was cancelled")
    if isinstance(error, RrextError):
        return as_failure(error)
    if isinstance(error, JsonRpcException):
        return error
    log.error("a bug of rrext: %s failed", method, exc_info=error)
    reason = f"{type(error).__name__}: {error}"[: DEFAULTS.max_error_text]
    return JsonRpcInternalError(f"A bug of rrext: {method} failed with {reason} (its log has more)")


def invalid_params(method: str, error: Exception) -> JsonRpcInvalidParams:
    """The error for parameters that break the protocol, with the paths of the misfits."""
    try:
        reasons = transform_error(error, path="params")
    except Exception:  # cattrs cannot describe every exception
        reasons = [str(error)]
    more = f" (and {len(reasons) - MAX_REASONS} more)" if len(reasons) > MAX_REASONS else ""
    text = f"Invalid parameters of {method}: {'; '.join(reasons[:MAX_REASONS])}{more}"
    return JsonRpcInvalidParams(text[: DEFAULTS.max_error_text])
