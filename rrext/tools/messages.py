"""Messages that nodes publish to subscribers: a type, and data that JSON can hold."""

from __future__ import annotations

from typing import Any, Protocol

from rrext.errors import ToolError
from rrext.limits import DEFAULTS, Limits
from rrext.tools.results import NotJson, encode_json


class Publisher(Protocol):
    """The receiver of a node's messages; the engine gives one to each node object."""

    def publish(self, node_id: str, type: str, data: Any) -> None:
        """Publish a message. Raises `ToolError`, see `checked_message`."""
        ...


class NullPublisher:
    """The publisher of a node outside of pipelines: it checks messages and drops them."""

    __slots__ = ()

    def publish(self, node_id: str, type: str, data: Any) -> None:
        checked_message(type, data, DEFAULTS)


NULL_PUBLISHER = NullPublisher()


def checked_message(type: str, data: Any, limits: Limits) -> bytes:
    """The data of a message as JSON. Raises `ToolError` with the path of an invalid value, or if the data is too large."""
    if not isinstance(type, str) or not 0 < len(type) <= limits.max_name:
        raise ToolError(f"publish: the type of a message is a text of 1 to {limits.max_name} characters (max_name)")
    try:
        encoded = encode_json(data)
    except NotJson as error:
        raise ToolError(
            f'publish("{type}"): the data is no JSON: {error.reason} at {error.path or "its root"}', data={"path": error.path}
        ) from None
    if len(encoded) > limits.max_event_data:
        raise ToolError(
            f'publish("{type}"): the data has {len(encoded)} bytes, more than max_event_data, {limits.max_event_data}',
            hint="publish where it can be read instead",
            data={"limit": "max_event_data", "maximum": limits.max_event_data},
        )
    return encoded
