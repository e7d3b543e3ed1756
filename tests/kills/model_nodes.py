"""Nodes for the random model: tools of each kind, and objects that are slow or fail; with `def` methods or `async def`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from typing import Any

from rrext import Node, tool_function
from rrext.errors import ToolError

NAP = 0.01


class Model(Node):
    """Its objects are written in threads."""

    provider = "model"
    lanes = {"tags": ()}

    def write_tags(self, tag: Any) -> None:
        """Take bytes: the first one says what becomes of them."""
        if tag.kind == "data" and tag.data[:1] == b"s":
            time.sleep(NAP)
        if tag.kind == "data" and tag.data[:1] == b"f":
            raise ToolError("these bytes fail", code="model_fails")

    @tool_function
    def echo(self, size: int = 0) -> str:
        """So many characters."""
        return "." * size

    @tool_function
    async def echo_later(self, size: int = 0) -> str:
        """The same, in a later iteration of the loop."""
        await asyncio.sleep(0)
        return "." * size

    @tool_function
    def chunks(self, size: int = 0) -> Iterator[str]:
        """A few chunks of so many characters."""
        for _ in range(4):
            yield "." * size

    @tool_function
    def fails(self, size: int = 0) -> None:
        """Fail with a code of its own."""
        raise ToolError("it fails", code="model_fails")

    @tool_function
    async def fails_later(self, size: int = 0) -> None:
        """Fail with a code of its own, in a later iteration of the loop."""
        await asyncio.sleep(0)
        raise ToolError("it fails", code="model_fails")

    @tool_function
    def nap(self, size: int = 0) -> None:
        """Block a thread for a moment."""
        time.sleep(NAP)

    @tool_function
    async def nap_later(self, size: int = 0) -> None:
        """Sleep a moment on the loop."""
        await asyncio.sleep(NAP)

    @tool_function
    async def wait(self, size: int = 0) -> None:
        """Never return."""
        await asyncio.Event().wait()

    @tool_function
    def pid(self) -> int:
        """The process."""
        return os.getpid()


class ModelLater(Model):
    """Its objects are written on the loop."""

    provider = "model_later"
    lanes = {"tags": ()}

    async def write_tags(self, tag: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take bytes: the first one says what becomes of them."""
        if tag.kind == "data" and tag.data[:1] == b"s":
            await asyncio.sleep(NAP)
        if tag.kind == "data" and tag.data[:1] == b"f":
            raise ToolError("these bytes fail", code="model_fails")
