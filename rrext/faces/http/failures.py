"""Errors as answers over HTTP."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from rrext.errors import (
    FrameTooLarge,
    InvalidArguments,
    NotAuthenticated,
    RrextError,
    ShuttingDown,
    TaskError,
    ToolTimeout,
    TooManyRequests,
)

STATUS: Final[tuple[tuple[type[RrextError], int], ...]] = (
    (InvalidArguments, 400),
    (NotAuthenticated, 401),
    (TaskError, 404),
    (FrameTooLarge, 413),
    (TooManyRequests, 429),
    (ShuttingDown, 503),
    (ToolTimeout, 504),
)
"""Errors and the status of their answers; that of all others is 500."""


def failure(error: RrextError) -> Response:
    """The answer for an error: its code, message and hint as JSON."""
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    body = {"code": error.code, "message": error.message} | ({"hint": error.hint} if error.hint else {})
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if "retryAfter" in error.data:
        headers["Retry-After"] = str(error.data["retryAfter"])
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")
