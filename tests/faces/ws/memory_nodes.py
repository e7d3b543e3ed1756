"""A node whose tools and writes fail in many ways, with their input at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from rrext import Node, ToolContext, ToolError, tool_function


class Failing(Node):
    """Fails with data."""

    provider = "failing"
    lanes = {"text": ()}

    def write_text(self, text: str) -> None:
        raise ToolError("not this text")

    @tool_function
    def refuse(self, data: str) -> None:
        raise ToolError("not this data")

    @tool_function
    async def crash(self, data: str) -> None:
        await asyncio.sleep(0)
        raise ValueError("an accident")

    @tool_function(thread="same")
    def refuse_same(self, data: str) -> None:
        raise ToolError("not this data")

    @tool_function
    async def stay(self, data: str) -> None:
        await asyncio.Event().wait()

    @tool_function
    def chunks(self, data: str) -> Iterator[str]:
        yield "one"
        raise ToolError("no more")

    @tool_function
    def ask(self, data: str, tool: str, *, ctx: ToolContext) -> Any:
        return ctx.call_blocking("failing_1", tool, {"data": data})

    @tool_function
    async def ask_async(self, data: str, tool: str, *, ctx: ToolContext) -> Any:
        return await ctx.call("failing_1", tool, {"data": data})


class Broken(Node):
    """Cannot be set up."""

    provider = "broken"

    @staticmethod
    @asynccontextmanager
    async def setup(config: Any) -> AsyncIterator[None]:
        raise ToolError("not here")
        yield

    @tool_function
    def never(self, data: str) -> None:
        raise ToolError("not reached")
