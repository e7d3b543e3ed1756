"""Nodes that pipelines of the published client name."""

from __future__ import annotations

import asyncio

from rrext import Node, ToolContext, tool_function


class Teller(Node):
    """Tells the client of each text, prints it, and passes it on."""

    provider = "teller"
    lanes = {"text": ["text"]}

    def write_text(self, text: str) -> None:
        """Tell of the text."""
        print("heard", text)
        self.publish("thinking", {"text": text})
        self.emit("text", text)


class Refuser(Node):
    """Takes texts that do not begin with `fail`."""

    provider = "refuser"
    lanes = {"text": ["text"]}

    def write_text(self, text: str) -> None:
        """Pass the text on."""
        if text.startswith("fail"):
            raise ValueError("this text is refused")
        self.emit("text", text)


class Waiter(Node):
    """Keeps its callers waiting."""

    provider = "waiter"

    @tool_function
    async def wait(self, ctx: ToolContext) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    @tool_function
    def who(self, ctx: ToolContext) -> str | None:
        """The user of the call."""
        return ctx.user_id
