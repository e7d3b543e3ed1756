"""The common base of `client.database` and `client.vectors`: methods named after the tools that they call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict

from rrext.client.updates import ChunkCallback


class WhichNode(TypedDict, total=False):
    """The node, by default the only one that has the tool, and its pipeline."""

    node_id: str
    token: str | None


class CallOptions(WhichNode, total=False):
    """The options of every method."""

    timeout: float | None


class NodeTools:
    """Calls tools as `Client.tool` does with `unique`: `node_id` is needed where several nodes have the tool.

    In every method `node_id`, `token` and `timeout` are those of `Client.tool`, and so are the failures.
    """

    __slots__ = ("_tool",)

    def __init__(self, tool: Callable[..., Awaitable[Any]]) -> None:
        """Made by the client; `tool` is its method of that name."""
        self._tool = tool

    async def _call(
        self, tool: str, input: Mapping[str, Any], options: CallOptions, on_chunk: ChunkCallback | None = None
    ) -> Any:
        """Call a tool. Members of its input that are None are left out."""
        given = {name: value for name, value in input.items() if value is not None}
        return await self._tool(tool=tool, input=given, unique=True, on_chunk=on_chunk, **options)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} tools>"
