"""The body that `close` returns: the collected results, and `error` if the object failed."""

from __future__ import annotations

from typing import Any

from rrext.engine.interface.failures import readable
from rrext.errors import Cancelled, ResultTooLarge, RrextError, ToolError, ToolTimeout
from rrext.limits import Limits
from rrext.nodes.base.node import Entry
from rrext.tools.context import CancelReason
from rrext.tools.results import NotJson, encode_json


def result_body(entry: Entry, limits: Limits) -> bytes:
    """The collected results as JSON. Raises `ToolError` and `ResultTooLarge`, and any exception of a broken entry."""
    try:
        encoded = encode_json(entry.body())
    except NotJson as error:
        raise ToolError(f"The object's result is no JSON at {error}", data={"path": error.path}) from None
    if len(encoded) > limits.max_result:
        raise ResultTooLarge.of(len(encoded), limits.max_result)
    return encoded


def bare_body(entry: Entry) -> bytes:
    """The name, path and id of an object whose results cannot be sent."""
    known: dict[str, Any] = {"name": entry.name, "path": entry.path, "objectId": entry.object_id}
    return encode_json({key: readable(value) for key, value in known.items()})


def stopped_write(reason: CancelReason) -> RrextError:
    """The error of an object that has a gap, because a write was stopped."""
    return ToolTimeout("a write did not finish in time") if reason == "timeout" else Cancelled("a write was cancelled")


def with_error(body: bytes, error: RrextError) -> bytes:
    """The body of a failed object."""
    told = encode_json({"code": readable(error.code), "message": readable(error.message)})
    return body[:-1] + b',"error":' + told + b"}"
