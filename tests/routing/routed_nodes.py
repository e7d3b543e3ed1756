"""A node that tells what its process sees, and dies or stops when asked."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading

from rrext import Node, ToolContext, tool_function


class Routed(Node):
    """Answers from its process."""

    provider = "routed"
    lanes = {"text": ()}

    def write_text(self, text: str) -> None:
        """Take a text."""
        if text == "fail":
            raise ValueError("as asked")
        if text == "park":
            assert self.gate.wait(50)

    gate = threading.Event()
    committed = 0
    """Objects that came to a good end."""

    def closing(self) -> None:
        """End an object."""
        type(self).committed += 1

    @tool_function
    def open_gate(self) -> None:
        """Let the writes go on that park."""
        self.gate.set()

    @tool_function
    def commits(self) -> int:
        """How many objects came to a good end."""
        return self.committed

    @tool_function
    def pid(self) -> int:
        """The process."""
        return os.getpid()

    @tool_function
    def echo(self, data: str) -> str:
        """The same."""
        return data

    @tool_function
    async def wait(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    @tool_function
    def hold(self, seconds: float) -> float:
        """Keep the interpreter's lock."""
        ctypes.PyDLL(None).usleep(round(seconds * 1e6))
        return seconds

    @tool_function
    def stop(self) -> None:
        """Stop the process."""
        os.kill(os.getpid(), signal.SIGSTOP)

    @tool_function
    def flood(self) -> int:
        """Leave a process in a session of its own that writes to stderr for ever."""
        write = "import os\nwhile True: os.write(2, b'flood' * 1000 + b'\\n')"
        return subprocess.Popen([sys.executable, "-c", write], start_new_session=True).pid

    @tool_function
    def say(self, text: str) -> None:
        """Write to stderr, and end the process."""
        os.write(2, text.encode())
        os._exit(3)

    @tool_function
    def progress(self, count: int, *, ctx: ToolContext) -> int:
        """Report progress again and again."""
        for number in range(count):
            ctx.progress(number)
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
