"""The nodes that the benchmark calls: as little work as a tool can do."""

from __future__ import annotations

import time
from typing import Any

from rrext import Node, ToolContext, tool_function

PAGE = "x" * 20_000


class Bench(Node):
    """Tools that cost nothing themselves."""

    provider = "bench"

    @tool_function
    def add(self, a: int, b: int) -> dict[str, int]:
        """Add two integers; may block for all that the server knows."""
        return {"sum": a + b}

    @tool_function
    async def add_async(self, a: int, b: int) -> dict[str, int]:
        """Add two integers on the event loop."""
        return {"sum": a + b}

    @tool_function
    def add_context(self, a: int, b: int, ctx: ToolContext) -> dict[str, int]:
        """The same, of a tool that knows its caller."""
        return {"sum": a + b}

    @tool_function
    async def add_async_context(self, a: int, b: int, ctx: ToolContext) -> dict[str, int]:
        """The same, of a tool that knows its caller, on the event loop."""
        return {"sum": a + b}

    @tool_function
    async def page(self) -> str:
        """A long text, which is there already."""
        return PAGE

    @tool_function
    def sleep(self, ms: int) -> dict[str, int]:
        """Block a thread."""
        time.sleep(ms / 1000)
        return {"slept": ms}


class Sink(Node):
    """Counts what is written to its pipe."""

    provider = "bench_sink"
    lanes = {"tags": ()}

    def open(self, entry: Any) -> None:
        self.total = 0

    def write_tags(self, tag: Any) -> None:
        self.total += len(tag.data)

    @tool_function
    def total_bytes(self) -> int:
        """Bytes seen on this pipe."""
        return self.total
