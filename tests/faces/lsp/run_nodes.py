"""Nodes that an editor runs: tools that block, crash, print, report, fail and give results of every kind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from rrext import Node, ToolContext, ToolError, tool_function


class FixContext(Node):
    """Tools."""

    provider = "bench"
    lanes = {"text": ("text",)}

    class Config:
        journal: str = "journal.txt"

    def note(self, text: str) -> None:
        """Write a line into the journal, which stands beside the pipeline."""
        with Path(self.directory, self.config.journal).open("a") as file:
            file.write(f"{text}\n")

    @tool_function
    def add(self, a: int, b: int = 1) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    @tool_function
    def where(self) -> dict[str, str]:
        """Where this runs."""
        return {
            "pid": str(os.getpid()),
            "cwd": os.getcwd(),
            "directory": self.directory,
            "path": os.environ.get("RUN_TEST", ""),
        }

    @tool_function
    async def wait(self, *, ctx: ToolContext) -> None:
        """Wait for ever."""
        self.note("waiting")
        ctx.progress(1, 4, "parked")
        try:
            await asyncio.Event().wait()
        finally:
            self.note("unwound")

    @tool_function
    def block(self, *, ctx: ToolContext) -> None:
        """Never return, whatever anybody says."""
        self.note("blocking")
        ctx.progress(1, 4, "stuck")
        threading.Event().wait()

    @tool_function
    def crash(self) -> None:
        """Take the process along."""
        os.write(2, b"the roof falls down\n")
        os._exit(7)

    @tool_function
    def talk(self, times: int = 1) -> str:
        """Print."""
        for _ in range(times):
            print("Content-Length: 5\r\n\r\nhello from a tool")
        return "said"

    @tool_function
    def steps(self, *, ctx: ToolContext) -> str:
        """Report."""
        for step in range(1, 5):
            ctx.progress(step, 4, f"step {step}")
        return "# All steps\n\ndone"

    @tool_function
    def count(self, to: int, returns: bool = False) -> Iterator[int]:
        """Chunks."""
        yield from range(to)
        return "counted" if returns else None

    @tool_function
    def flood(self) -> Iterator[str]:
        """More than anybody keeps."""
        while True:
            yield "x" * 1_000_000

    @tool_function
    def picture(self) -> bytes:
        """Bytes."""
        return b"\x89PNG\r\n\x1a\n" + bytes(range(256))

    @tool_function
    def large(self, mebibytes: int) -> str:
        """Text."""
        return "x" * (mebibytes * 1024 * 1024)

    @tool_function
    def nothing(self) -> None:
        """Null."""

    @tool_function
    def refuse(self) -> None:
        """Fail on purpose."""
        raise ToolError("nothing is left", code="sold_out", hint="come back tomorrow")

    @tool_function
    def moody(self) -> str:
        """Fail until somebody has put a file beside the pipeline."""
        if not Path(self.directory, "calm").exists():
            raise ToolError("not today", code="moody")
        return "fine"

    def write_text(self, text: str) -> None:
        """Pass on in capitals; some texts are too much."""
        if "boom" in text:
            raise ValueError("too much")
        self.emit("text", text.upper())


class Single(Node):
    """A node with one tool."""

    provider = "single"

    @tool_function
    def only(self) -> str:
        """The only one."""
        return "alone"
