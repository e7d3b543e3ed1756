"""Nodes that pipelines of the published client name."""

from __future__ import annotations

import asyncio
from typing import Any

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


class Thinker(Node):
    """Tells the client what it thinks of a question, and answers once the tool `decide` was called."""

    provider = "thinker"
    lanes = {"questions": ["answers"]}
    decided = asyncio.Event()

    async def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        """Think until it is decided."""
        ctx.publish("thinking", {"message": "I think"})
        await self.decided.wait()
        await self.emit("answers", {"answer": "42", "expectJson": False})  # type: ignore[misc]

    @tool_function
    async def decide(self) -> None:
        """Let the answer come."""
        self.decided.set()


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
