"""A node whose tools answer at once, answer much, or never."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from rrext import Node, tool_function


class Victim(Node):
    """Answers, and takes bytes."""

    provider = "kill_victim"
    lanes = {"tags": ()}

    def write_tags(self, tag: Any) -> None:
        """Take bytes of an object."""

    @tool_function
    def echo(self, tag: str, size: int = 0) -> str:
        """The tag with as many further characters."""
        return tag + "." * size

    @tool_function
    async def echo_later(self, tag: str, size: int = 0) -> str:
        """The same, in a later iteration of the loop."""
        await asyncio.sleep(0)
        return tag + "." * size

    @tool_function
    def pid(self) -> int:
        """The process."""
        return os.getpid()

    @tool_function
    async def wait(self) -> None:
        """Never return."""
        await asyncio.Event().wait()
