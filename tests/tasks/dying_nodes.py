"""A node whose tools end or block their process in every way."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
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
    async def crowd(self, threads: int) -> None:
        """Start threads that wait, and crash in one of these."""

        def deep(calls: int) -> None:
            if calls:
                deep(calls - 1)
            else:
                threading.Event().wait()

        for _ in range(threads):
            threading.Thread(target=deep, args=(40,), daemon=True).start()
        await asyncio.to_thread(self.crash)

    def crash(self) -> None:
        for _ in range(40):
            threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        ctypes.string_at(0)

    @tool_function
    def handled(self, how: str) -> None:
        """Tell an exception that is handled."""
        try:
            raise ValueError("an old trouble")
        except ValueError:
            if how == "printed":
                traceback.print_exc()
        if how == "raised":
            raise ValueError("an old trouble")

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
        elif how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
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
