"""The nodes that the client meets on a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from rrext import Node, RrextError, ToolContext, ToolError, tool_function
from rrext.tools.context import CallInfo, TurnUsage

ended: list[str] = []
"""How parked calls ended, for as long as the process lives."""


class Probe(Node):
    """Tools of every kind."""

    provider = "probe"

    @tool_function
    def add(self, a: int, b: int = 1) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    @tool_function
    async def wait(self, *, ctx: ToolContext) -> None:
        """Wait for ever."""
        ctx.progress(1, message="parked")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")

    @tool_function
    def park(self, *, ctx: ToolContext) -> None:
        """Block until cancelled."""
        ctx.progress(1, message="parked")
        stopped = threading.Event()
        ctx.on_cancel(stopped.set)
        stopped.wait()
        ended.append("park")
        ctx.check()

    @tool_function
    def how_they_ended(self) -> list[str]:
        """And forget it."""
        told, ended[:] = list(ended), []
        return told

    @tool_function
    def count(self, to: int) -> Iterator[int]:
        """Chunks."""
        yield from range(to)

    @tool_function
    async def slabs(self, number: int, size: int) -> AsyncIterator[bytes]:
        """Large chunks."""
        for _ in range(number):
            yield b"x" * size

    @tool_function
    def report(self, to: int, *, ctx: ToolContext) -> str:
        """Progress."""
        for value in range(1, to + 1):
            ctx.progress(value, to)
        return "done"

    @tool_function
    def blob(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    @tool_function
    def large(self, mebibytes: int) -> str:
        """Text."""
        return "x" * (mebibytes * 1024 * 1024)

    @tool_function
    def refuse(self) -> None:
        """Fail in the author's own words."""
        raise ToolError("sold out", code="sold_out", hint="come back tomorrow", data={"left": 0})

    @tool_function
    def who(self, *, ctx: ToolContext) -> dict[str, Any]:
        """The context of this call."""
        return {"user": ctx.user_id, "space": ctx.space_id, "meta": ctx.meta, "pipe": ctx.pipe_id}

    @tool_function
    async def wonder(self, params: dict[str, Any], *, ctx: ToolContext) -> Any:
        """Ask the user of the caller."""
        return await ctx.ask(params)

    @tool_function
    def die(self) -> None:
        """End the process."""
        import os
        import sys

        print("out of order", file=sys.stderr, flush=True)
        os._exit(7)


class Meter(Node):
    """Counts what is written, and says so at the end."""

    provider = "meter"
    lanes = {"tags": ("text",), "text": ("text",)}

    def open(self, entry: Any) -> None:
        self.total = 0

    def write_tags(self, tag: Any) -> None:
        self.total += len(tag.data)

    def write_text(self, text: str) -> None:
        if text == "fail":
            raise ToolError("I do not like this text", hint="send another word")
        self.emit("text", text.upper())

    def closing(self) -> None:
        if self.total:
            self.emit("text", f"{self.total} bytes")

    @tool_function
    def measured(self) -> int:
        """Bytes seen on this pipe."""
        return self.total


class Guide(Node):
    """An agent by script: reports steps, calls a tool that needs a permit and a tool that does not exist, or waits."""

    provider = "guide"
    lanes = {"questions": ("answers",)}

    async def write_questions(self, question: dict[str, Any], *, ctx: ToolContext) -> None:
        steps, info, me = ctx.callbacks, CallInfo(tool="", node_id=self.node_id), self.node_id
        text = question["questions"][0]["text"]
        steps.agent_start(info, me)
        steps.agent_turn_start(info, me, 1)
        for piece in ("I ", "count."):
            steps.agent_chunk(info, me, piece)
        if text == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("guide")
        if text == "fail":
            raise ToolError("I am lost", code="lost")
        if text == "delegate":
            try:
                await ctx.call("probe_1", "wait")
            except RrextError as error:
                await self.emit("answers", {"answer": error.code, "expectJson": False})  # type: ignore[misc]
            return
        steps.agent_turn_end(info, me, 1, TurnUsage(model="script", output_tokens=2))
        steps.agent_tool_call(info, me, "sum", {"a": 2})
        answer = None
        try:
            answer = (await ctx.call("tools_1", "sum", {"a": 2}))["sum"]
        except RrextError as error:
            answer = error.code
        steps.agent_tool_result(info, me, "sum", answer, None)
        steps.agent_tool_call(info, me, "fly", {})
        steps.agent_tool_result(info, me, "fly", None, ToolError("no such tool", code="no_such_tool"))
        steps.agent_end(info, me, None)
        await self.emit("answers", {"answer": f"{answer} {question.get('session')}", "expectJson": False})  # type: ignore[misc]
