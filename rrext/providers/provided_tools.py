"""The tools of a provider as tools of a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rrext.errors import RrextError
from rrext.providers.provider import ProvidedTool, ToolProvider, log
from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolOptions
from rrext.tools.spec import ToolSpec


class ProvidedTools:
    """The tools of a provider by name, kept up to date: a `ToolSource`."""

    def __init__(self, provider: ToolProvider) -> None:
        self.prefix = f"{provider.connection.name}."
        self._provider = provider
        self._tools: dict[str, tuple[ProvidedTool, ToolSpec]] = {}
        self._specs: Mapping[str, ToolSpec] = {}
        self._watchers: list[Callable[[], None]] = []
        self._learning: asyncio.Task[None] | None = None
        self._again = False

    @classmethod
    async def of(cls, provider: ToolProvider) -> ProvidedTools:
        """Ask the provider for its tools. Raises `RrextError`."""
        found = cls(provider)
        found._take(await provider.tools())
        provider.watch(found._changed)
        return found

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools by name, now."""
        return self._specs

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of the tools."""
        self._watchers.append(changed)

    def _take(self, tools: Iterable[ProvidedTool]) -> None:
        kept, self._tools = self._tools, {}
        for tool in tools:
            before = kept.get(tool.name)
            same = before is not None and before[0] == tool
            self._tools[tool.name] = before if same and before is not None else (tool, spec_of(self._provider, tool))
        self._specs = {name: spec for name, (_, spec) in self._tools.items()}

    def _changed(self) -> None:
        if self._learning is not None and not self._learning.done():
            self._again = True  # of many changes in a row, the last one counts
            return
        name = f"tools of {self._provider.connection.name}"
        self._learning = self._provider.services.spawn(self._learn(), name)

    async def _learn(self) -> None:
        again = True
        while again:
            self._again = False
            try:
                tools = await self._provider.tools()
            except RrextError as error:
                log.warning("connection %s has other tools, and cannot tell them: %s", self._provider.connection.name, error)
            else:
                self._take(tools)
                for changed in self._watchers:
                    changed()
            again = self._again


def spec_of(provider: ToolProvider, tool: ProvidedTool) -> ToolSpec:
    """A tool of a provider, as the engine calls tools."""

    async def call(input: dict[str, Any], ctx: ToolContext) -> Any:
        return await provider.call(tool.name, input, ctx)

    options = ToolOptions(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=tool.annotations,
        timeout=provider.connection.timeout,
        takes_input=True,
    )
    return ToolSpec(call, options, owner=None, bound=False)
