"""Nodes with lanes: they count, answer, wait and fail."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from face_state import journals, opened, wait_behind

from rrext import Node, RrextError, ToolContext, ToolError, tool_function
from rrext.tools.context import CallInfo


class Meter(Node):
    """Counts bytes and shouts texts. A text that begins with a word and a colon is an order."""

    provider = "meter"
    lanes = {"tags": ("text",), "text": ("text",), "image": ("text",), "json": ("text",)}

    def open(self, entry: Any) -> None:
        if entry.name == "unwelcome":
            raise ToolError("not this one", code="unwelcome")
        self.total = 0
        self.digest = hashlib.sha256()
        journals[f"{entry.name} life"].append("open")
        self.entry = entry

    def write_tags(self, tag: Any) -> None:
        self._count(tag.data)

    def write_image(self, media: Any) -> None:
        self._count(media.data)

    def write_json(self, value: Any) -> None:
        self.emit("text", f"{sorted(value)}")

    def write_text(self, text: str, *, ctx: ToolContext) -> None:
        order, _, rest = text.partition(":")
        if order == "fail":
            raise ToolError("I do not like this text")
        if order == "crash":
            raise ValueError("an accident")
        if order == "park":
            journals[rest].append("in")
            wait_behind(rest)
        if order == "spoil":
            self.entry.respond("bad", "text", float("nan"))
        self.emit("text", f"{ctx.user_id}" if order == "who" else text.upper())

    def closing(self) -> None:
        if self.total:
            self.emit("text", f"{self.total} {self.digest.hexdigest()}")

    def close(self) -> None:
        journals[f"{self.entry.name} life"].append("close")

    def _count(self, data: bytes) -> None:
        self.total += len(data)
        self.digest.update(data)

    @tool_function
    def measured(self) -> dict[str, Any]:
        """What was counted on this pipe."""
        return {"total": self.total, "digest": self.digest.hexdigest()}


class Pilot(Node):
    """Tells the steps of an agent, and calls the tool that a text names, or asks the user; at the end it adds."""

    provider = "pilot"
    lanes = {"text": ("text",)}

    async def write_text(self, text: str, *, ctx: ToolContext) -> None:
        info = CallInfo(tool="", node_id=self.node_id)
        node, _, tool = text.rpartition(".")
        if text == "ask":
            answer = await ctx.ask({"message": "Where to?", "requestedSchema": {"type": "object", "properties": {}}})
            await self.emit("text", answer["action"])  # type: ignore[misc]
            return
        ctx.callbacks.agent_start(info, "pilot")
        ctx.callbacks.agent_chunk(info, "pilot", "I call it.")
        try:
            result = await ctx.call(node, tool, {"a": 1, "b": 2})
        except RrextError as error:
            result = error.code
        ctx.callbacks.agent_end(info, "pilot", None)
        await self.emit("text", f"{result}")  # type: ignore[misc]

    async def closing(self, *, ctx: ToolContext) -> None:
        await ctx.call("", "add", {"a": 3})


class Copilot(Node):
    """The same in a thread, without steps."""

    provider = "copilot"
    lanes = {"text": ("text",)}

    def write_text(self, text: str, *, ctx: ToolContext) -> None:
        node, _, tool = text.rpartition(".")
        try:
            result = ctx.call_blocking(node, tool, {"a": 1, "b": 2})
        except RrextError as error:
            result = error.code
        self.emit("text", f"{result}")


class Lake(Node):
    """Receives on the loop."""

    provider = "lake"
    lanes = {"text": ("text",)}

    async def write_text(self, text: str) -> None:
        if text.startswith("park:"):
            journals[text[5:]].append("in")
            await opened(text[5:])
        await self.emit("text", text.title())  # type: ignore[misc]


class Shared(Node):
    """Has something that all its objects share, and a bad start if told so."""

    provider = "shared"

    class Config:
        key: str = "shared"
        failures: int = 0

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[list[str]]:
        """Fails `failures` times."""
        journals[config.key].append("setup")
        if journals[config.key].count("setup") <= config.failures:
            raise ConnectionError("nobody there")
        yield ["the connection"]
        journals[config.key].append("left")

    @tool_function
    def connection(self) -> list[str]:
        """What is shared."""
        return self.shared
