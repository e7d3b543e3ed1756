"""A node whose tools end or block their process in every way."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import resource
import subprocess
import sys
import threading
import time
from typing import Any

from rrext import Node, ToolContext, ToolError, tool_function


class Dying(Node):
    """Dies."""

    provider = "dying"
    lanes = {"text": ("text",)}

    stays = 0

    def write_text(self, text: str, ctx: ToolContext) -> None:
        if text == "stay":
            Dying.stays += 1
            while True:
                ctx.check()
                time.sleep(0.001)
        if text == "die":
            os._exit(9)
        if text == "fail":
            raise ToolError("no luck", code="no_luck")
        self.emit("text", text.upper())

    @tool_function
    def staying(self) -> int:
        """How many texts have stayed here."""
        return self.stays

    @tool_function
    def pid(self) -> int:
        """The process of the task."""
        return os.getpid()

    @tool_function
    def die(self, how: str, say: str = "") -> None:
        """End the process."""
        if say:
            print(say, file=sys.stderr, flush=True)
        if how == "exit":
            os._exit(7)
        elif how == "abort":
            os.abort()
        elif how == "segfault":
            ctypes.string_at(0)
        elif how == "memory":
            resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
            while True:
                pass

    @tool_function
    async def nap(self, *, ctx: ToolContext) -> str:
        """Wait until the call is cancelled."""
        ctx.progress(1)
        await asyncio.sleep(3600)
        return "slept"

    @tool_function
    def hold(self, *, ctx: ToolContext) -> bool:
        """Keep the interpreter's lock: a regular expression that backtracks without an end."""
        ctx.progress(1)
        return re.match(r"(a|a|a)*$", "a" * 64 + "b") is not None

    @tool_function
    def leave_child(self) -> int:
        """Begin a process that outlives its parent unless somebody ends the process."""
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]).pid

    @tool_function
    async def ask_other(self, token: str, text: str, *, ctx: ToolContext) -> Any:
        """Give a text to another pipeline."""
        return [text.strip() for text in (await ctx.run_pipeline(token, text))["text"]]

    @tool_function
    def fail(self) -> None:
        """Fail with all that an error may carry."""
        raise ToolError("no luck", code="no_luck", hint="try again", data={"at": [1, None]})

    @tool_function
    def chunks(self, count: int, size: int) -> Any:
        """Many chunks."""
        for _ in range(count):
            yield "x" * size

    @tool_function
    def sent(self) -> int:
        """How many threads run, as a call beside others."""
        return threading.active_count()
