"""A node whose tools change when one of them is called, and one that waits for a file."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rrext import Node, ToolContext, tool_function
from rrext.nodes.base.setup import SetupContext
from rrext.tools.decorator import ToolOptions
from rrext.tools.spec import ToolSpec


class Shelf:
    """A source of tools: `grow` adds one to them."""

    prefix = ""

    def __init__(self) -> None:
        self._tools: dict[str, ToolSpec] = {}
        self._watchers: list[Callable[[], None]] = []
        self._add("grow")

    def _add(self, name: str) -> None:
        async def call(input: dict[str, Any], ctx: ToolContext) -> Any:
            if name == "grow":
                self._add(input["name"])
                for changed in self._watchers:
                    changed()
            return name

        schema = {"properties": {"name": {"type": "string"}}, "additionalProperties": False}
        self._tools = {
            **self._tools,
            name: ToolSpec(call, ToolOptions(name=name, input_schema=schema, takes_input=True), owner=None, bound=False),
        }

    def tools(self) -> Mapping[str, ToolSpec]:
        return self._tools

    def watch(self, changed: Callable[[], None]) -> None:
        self._watchers.append(changed)


class Changing(Node):
    """Tools that are others after a call."""

    provider = "changing"
    has_dynamic_tools = True

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[Shelf]:
        yield Shelf()


class Patient(Node):
    """A tool that another process lets go on."""

    provider = "patient"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[list[str]]:
        gone: list[str] = []
        ctx.on_disconnect(gone.append)
        yield gone

    @tool_function
    def connections_gone(self) -> list[str]:
        """The connections that have ended, as a node hears of them that keeps something for each."""
        return list(self.shared)

    @tool_function
    def await_file(self, path: str, *, ctx: ToolContext) -> str:
        """Wait until there is a file."""
        ctx.progress(1, message="parked")
        while not os.path.exists(path):
            time.sleep(0.01)
        return "passed"
