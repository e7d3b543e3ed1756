"""A node whose tools are known after its setup, and a source of tools that a test changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolOptions
from rrext.tools.spec import ToolSpec


def named(name: str, answer: str = "") -> ToolSpec:
    """A tool that returns its input, or a fixed answer; its schema has a property of the name of its parameter."""

    async def call(input: dict[str, Any], ctx: ToolContext) -> Any:
        return answer or input

    schema = {"properties": {"input": {"type": "string"}}, "additionalProperties": False}
    return ToolSpec(call, ToolOptions(name=name, input_schema=schema, takes_input=True), owner=None, bound=False)


class Tools:
    """A source of tools that a test changes."""

    prefix = ""

    def __init__(self, *names: str) -> None:
        self.current: dict[str, ToolSpec] = {name: named(name) for name in names}
        self.watchers: list[Callable[[], None]] = []

    def tools(self) -> Mapping[str, ToolSpec]:
        return self.current

    def watch(self, changed: Callable[[], None]) -> None:
        self.watchers.append(changed)

    def become(self, *names: str) -> None:
        self.current = {name: self.current.get(name) or named(name) for name in names}
        for changed in self.watchers:
            changed()


class Outside:
    """A node class over such a source, whose setup can be held and can fail."""

    def __init__(self, *names: str) -> None:
        self.source = source = Tools(*names)
        self.gate = gate = asyncio.Event()
        gate.set()
        self.failures: list[Exception] = []
        self.setups = 0
        me = self

        class OutsideNode(Node):
            provider = "outside"
            has_dynamic_tools = True

            @classmethod
            @asynccontextmanager
            async def setup(cls, config: Any) -> AsyncIterator[Tools]:
                me.setups += 1
                await gate.wait()
                if me.failures:
                    raise me.failures.pop()
                yield source

        self.node = OutsideNode
