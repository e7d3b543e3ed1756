"""The body that `close` returns: what the nodes collected, and `error` if the object failed."""

from __future__ import annotations

from typing import Any

from rrext.engine.interface.failures import readable
from rrext.errors import ResultTooLarge, RrextError, ToolError
from rrext.limits import Limits
from rrext.nodes.base.node import Entry
from rrext.tools.results import NotJson, encode_json

__all__ = ["bare_body", "result_body", "with_error"]


def result_body(entry: Entry, limits: Limits) -> bytes:
    """What was collected, as JSON. Raises `ToolError` and `ResultTooLarge`, and whatever nodes made of the entry."""
    try:
        encoded = encode_json(entry.body())
    except NotJson as error:
        raise ToolError(f"The object's result is no JSON at {error}", data={"path": error.path}) from None
    if len(encoded) > limits.max_result:
        raise ResultTooLarge.of(len(encoded), limits.max_result)
    return encoded


def bare_body(entry: Entry) -> bytes:
    """What the object was, where what was collected cannot travel."""
    known: dict[str, Any] = {"name": entry.name, "path": entry.path, "objectId": entry.object_id}
    return encode_json({key: readable(value) for key, value in known.items()})


def with_error(body: bytes, error: RrextError) -> bytes:
    """The body of a failed object."""
    told = encode_json({"code": readable(error.code), "message": readable(error.message)})
    return body[:-1] + b',"error":' + told + b"}"
