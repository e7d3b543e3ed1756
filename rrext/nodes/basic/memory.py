"""`memory_internal`: values under keys, for as long as one object is in its pipe."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import msgspec

from rrext.errors import ToolError
from rrext.nodes.base.node import Entry, Node
from rrext.tools.context import CancelToken, ToolContext
from rrext.tools.decorator import tool_function

MIB = 1024 * 1024
Key = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""A key: not blank; spaces around it do not count."""


class MemoryNode(Node):
    """Keeps JSON values under keys while one object is in its pipe. The next object finds it empty.

    Calls on an open pipe share one store. A call without a pipe has a store of its own, which the tools that it calls
    share and which is gone when it ends: `put` then answers `"scope": "call"` instead of `"object"`.
    """

    provider = "memory_internal"
    title = "Memory (internal)"
    class_types = ("memory",)

    class Config:
        maxKeys: Annotated[int, "Values that one object may keep; an agent's scratch pad has dozens."] = 10_000
        maxBytes: Annotated[int, "Bytes of JSON that one object may keep, keys included: as much as one result."] = 16 * MIB

    def __init__(self) -> None:
        self._lock = threading.Lock()  # tool calls on one pipe overlap
        self._values: dict[str, bytes] = {}
        self._bytes = 0
        self._in_object = False
        self._call: CancelToken | None = None

    def open(self, entry: Entry) -> None:
        with self._lock:
            self._forget()
            self._in_object = True

    def close(self) -> None:
        with self._lock:
            self._forget()
            self._in_object = False

    @tool_function(group="memory")
    def put(self, key: Key, value: Any, *, ctx: ToolContext) -> dict[str, Any]:
        """Keep a value under a key, in place of the one that was there.

        Args:
            key: Not blank; spaces around it do not count.
            value: Any JSON value.
        """
        key = key.strip()
        encoded = json_of(value)
        with self._lock:
            self._enter(ctx)
            old = self._values.get(key)
            grown = len(encoded) - len(old) if old is not None else len(encoded) + len(key.encode())
            self._require_room(grown, is_new=old is None)
            self._values[key] = encoded
            self._bytes += grown
        return {"ok": True, "key": key, "scope": "object" if self._in_object else "call"}

    @tool_function(group="memory", annotations={"readOnlyHint": True})
    def get(self, key: Key, *, ctx: ToolContext) -> dict[str, Any]:
        """The value under a key. `ok` is false, and the value null, if there is none.

        Args:
            key: Not blank; spaces around it do not count.
        """
        key = key.strip()
        with self._lock:
            self._enter(ctx)
            encoded = self._values.get(key)
        return {"ok": encoded is not None, "key": key, "value": None if encoded is None else msgspec.json.decode(encoded)}

    @tool_function(name="list", group="memory", annotations={"readOnlyHint": True})
    def list_keys(self, *, ctx: ToolContext) -> dict[str, Any]:
        """The keys that have a value, sorted."""
        with self._lock:
            self._enter(ctx)
            return {"ok": True, "keys": sorted(self._values)}

    @tool_function(group="memory")
    def clear(self, key: str | None = None, *, ctx: ToolContext) -> dict[str, Any]:
        """Forget one value, or all of them. `cleared` lists the keys that had one.

        Args:
            key: The key to forget; without it, or if it is blank, everything is forgotten.
        """
        key = (key or "").strip()
        with self._lock:
            self._enter(ctx)
            cleared = sorted(self._values) if not key else [key] if key in self._values else []
            for name in cleared:
                self._bytes -= len(self._values.pop(name)) + len(name.encode())
        return {"ok": True, "cleared": cleared}

    def _enter(self, ctx: ToolContext) -> None:
        """Outside of an open object, a call must not see values of another call in this pooled node object.

        A call and the tools that it calls share their outermost token.
        """
        if not self._in_object and ctx.token.outermost is not self._call:
            self._forget()
            self._call = ctx.token.outermost

    def _forget(self) -> None:
        self._values.clear()
        self._bytes = 0
        self._call = None

    def _require_room(self, grown: int, *, is_new: bool) -> None:
        if is_new and len(self._values) >= self.config.maxKeys:
            raise ToolError(
                f"The memory holds {self.config.maxKeys} values, which is all that it may (maxKeys)",
                code="memory_full",
                hint="Clear what is not needed any more.",
            )
        if self._bytes + grown > self.config.maxBytes:
            raise ToolError(
                f"The memory may hold {self.config.maxBytes} bytes (maxBytes), and with this value it would hold "
                f"{self._bytes + grown}",
                code="memory_full",
                hint="Clear what is not needed any more.",
            )


def json_of(value: Any) -> bytes:
    """The value as JSON; raises for one that would come back as another (NaN, a key that is no string, an object)."""
    try:
        encoded = msgspec.json.encode(value)
        if msgspec.json.decode(encoded) == value:
            return encoded
    except (TypeError, ValueError, RecursionError):
        pass
    raise ToolError("This value is not JSON: it would not come back as it is", code="value_not_json")
