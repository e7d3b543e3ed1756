"""A node whose tools end or block their process in every way."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
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
    def nested(self, inner: Any, depth: int) -> Any:
        """Put a value into lists."""
        for _ in range(depth):
            inner = [inner]
        return inner

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
    def grow(self, where: str, mib: int, *, ctx: ToolContext) -> None:
        """Take memory and keep it, here or in children."""
        code = f"import time; kept = bytearray(b'x') * ({mib} << 20); time.sleep(3600)"
        command = [sys.executable, "-S", "-c", code]
        if where == "here":
            self.kept = bytearray(b"x") * (mib << 20)
        elif where == "orphan":  # its parent ends at once
            subprocess.run(["sh", "-c", 'setsid env -i "$@" & exit', "sh", *command], check=True)
        else:
            for _ in range(4 if where == "children" else 1):
                subprocess.Popen(command, start_new_session=where == "session")
        while True:
            ctx.check()
            time.sleep(0.01)

    @tool_function
    def daemon(self) -> int:
        """Begin a process in a session of its own and without an environment, whose parent ends at once."""
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"
        command = ["sh", "-c", 'setsid env -i "$@" & exit', "sh", sys.executable, "-S", "-c", code]
        begun = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert begun.stdout is not None
        return int(begun.stdout.readline())

    @tool_function
    def bomb(self, most: int) -> None:
        """Begin a process that begins two others, which do the same, in sessions of their own, up to a number."""
        code = (
            "import subprocess, sys, time\n"
            "most, code = int(sys.argv[1]) // 2, sys.argv[2]\n"
            "for _ in range(2 if most else 0):\n"
            "    subprocess.Popen([sys.executable, '-S', '-c', code, str(most), code], start_new_session=True, env={})\n"
            "time.sleep(3600)"
        )
        subprocess.Popen([sys.executable, "-S", "-c", code, str(most), code], start_new_session=True)

    @tool_function
    def staying(self) -> int:
        """How many texts have stayed here."""
        return self.stays

    @tool_function
    def draw(self) -> float:
        """A random number."""
        return random.random()

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
    async def block(self, *, ctx: ToolContext) -> None:
        """Block the loop."""
        ctx.progress(1)
        await asyncio.sleep(0)
        threading.Event().wait()

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
