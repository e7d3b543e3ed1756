"""The nodes that the foreign peers talk to."""

from __future__ import annotations

import asyncio
from typing import Any

from rrext import Node, ToolContext, ToolError, tool_function


class Greeter(Node):
    """Tools of every kind that a peer may meet."""

    provider = "greeter"

    @tool_function
    def greet(self, name: str) -> dict[str, str]:
        """Greet somebody.

        Args:
            name: Who is greeted.
        """
        return {"text": f"Hello {name}"}

    @tool_function
    async def park(self, *, ctx: ToolContext) -> None:
        """Say that the call has begun, then wait for ever."""
        ctx.progress(1, message="parked")
        await asyncio.Event().wait()

    @tool_function
    def count(self, to: int, *, ctx: ToolContext) -> dict[str, int]:
        """Count, and report each number."""
        for number in range(1, to + 1):
            ctx.progress(number, to)
        return {"counted": to}

    @tool_function
    def refuse(self) -> None:
        """Fail in the author's own words."""
        raise ToolError("no more greetings today", code="greetings_spent", hint="come back tomorrow", data={"left": 0})


class Meter(Node):
    """Counts what is written to its pipe."""

    provider = "meter"
    lanes = {"tags": ()}

    def open(self, entry: Any) -> None:
        self.total = 0

    def write_tags(self, tag: Any) -> None:
        self.total += len(tag.data)

    @tool_function
    def measured(self) -> dict[str, int]:
        """Bytes seen on this pipe."""
        return {"bytes": self.total}
