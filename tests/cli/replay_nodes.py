"""A shop with tools of every kind, for sessions that are recorded and replayed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from rrext import Node, ToolContext, ToolError, tool_function

PRICE = 7


class Shop(Node):
    """Sells, and passes texts on in capitals."""

    provider = "shop"
    lanes = {"text": ("text",)}

    class Config:
        key: str = ""

    def write_text(self, text: str) -> None:
        self.emit("text", text.upper())

    @tool_function
    def price(self, item: str) -> dict[str, Any]:
        """What it costs."""
        return {"item": item, "price": PRICE, "notes": ["fresh", item]}

    @tool_function
    def steps(self, to: int = 3, *, ctx: ToolContext) -> str:
        """Report progress."""
        for step in range(to):
            ctx.progress(step + 1, to, f"step {step + 1}")
        return "done"

    @tool_function
    async def park(self, *, ctx: ToolContext) -> None:
        """Wait until somebody cancels it."""
        ctx.progress(1, 2, "parked")
        await asyncio.Event().wait()

    @tool_function
    def count(self, to: int = 3) -> Iterator[int]:
        """Count."""
        yield from range(to)

    @tool_function
    def content(self, size: int = 4) -> bytes:
        """Bytes that are no text."""
        return b"\x00\xff{}"[:1] * size

    @tool_function
    async def survey(self, *, ctx: ToolContext) -> Any:
        """Ask the user."""
        return await ctx.ask({"message": "Is it raining?"})

    @tool_function
    def stamp(self) -> dict[str, Any]:
        """What is another each time."""
        now = time.time()
        return {"at": now, "iso": datetime.fromtimestamp(now, UTC).isoformat(), "id": str(uuid4()), "seconds": now % 1}

    @tool_function
    async def outer(self, item: str = "fig", *, ctx: ToolContext) -> list[Any]:
        """Call tools at once."""
        names = ("pear", "plum", item)
        return list(await asyncio.gather(*(ctx.call("shop_1", "price", {"item": name}) for name in names)))

    @tool_function
    def key(self, given: str = "") -> str:
        """Tell the key, and what was given."""
        return f"{self.config.key} {given}"

    @tool_function
    def complain(self, size: int = 2_000_000) -> None:
        """Fail with much to tell."""
        raise ToolError("much is wrong", code="much", data={"all": "x" * size})

    @tool_function
    def refuse(self) -> None:
        """Fail."""
        raise ToolError("no more today", code="spent", hint="come back tomorrow", data={"left": 0})
