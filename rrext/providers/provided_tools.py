"""The tools of a provider as tools of a node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from rrext.content import Content
from rrext.errors import RrextError
from rrext.providers.provider import ProvidedTool, ToolProvider, log
from rrext.tools.context import ToolContext
from rrext.tools.decorator import ToolOptions
from rrext.tools.spec import ToolSpec


class ProvidedTools:
    """The tools of a provider by name, kept up to date: a `ToolSource`."""

    def __init__(self, provider: ToolProvider) -> None:
        self._own = provider.own_tools()
        self.prefix = f"{provider.connection.name}."
        self._provider = provider
        self._tools: dict[str, tuple[ProvidedTool, ToolSpec]] = {}
        self._specs: Mapping[str, ToolSpec] = {}
        self._watchers: list[Callable[[], None]] = []
        self._is_reading = True
        self._again = False

    @classmethod
    @asynccontextmanager
    async def of(cls, provider: ToolProvider) -> AsyncIterator[ProvidedTools]:
        """The tools of a provider, kept up to date during the block, and its own. Raises `RrextError`."""
        found = cls(provider)
        tools = await provider.tools()
        provider.watch(found._changed)
        try:
            await found._take(tools)
            found._is_reading = False
            if found._again:
                found._changed()
            yield found
        finally:
            provider.unwatch(found._changed)
            found._watchers.clear()

    def tools(self) -> Mapping[str, ToolSpec]:
        """The tools by name, now."""
        return self._specs

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of the tools."""
        self._watchers.append(changed)

    async def _take(self, told: Sequence[ProvidedTool]) -> None:
        tools = await _without_secrets(self._provider, told)
        kept, self._tools = self._tools, {}
        for tool in tools:
            before = kept.get(tool.name)
            same = before is not None and before[0] == tool
            self._tools[tool.name] = before if same and before is not None else (tool, spec_of(self._provider, tool))
        self._specs = {**{name: spec for name, (_, spec) in self._tools.items()}, **self._own}

    def _changed(self) -> None:
        self._again = True  # of many changes in a row, the last one counts
        if not self._is_reading:
            self._is_reading = True
            self._provider.services.spawn(self._learn(), f"tools of {self._provider.connection.name}")

    async def _learn(self) -> None:
        try:
            while self._again:
                self._again = False
                await self._learn_once()
        finally:
            self._is_reading = False

    async def _learn_once(self) -> None:
        try:
            await self._take(await self._provider.tools())
        except RrextError as error:
            log.warning("connection %s has other tools, and cannot tell them: %s", self._provider.connection.name, error)
        else:
            for changed in self._watchers:
                changed()


async def _without_secrets(provider: ToolProvider, tools: Sequence[ProvidedTool]) -> Sequence[ProvidedTool]:
    """Descriptions without the secrets of their connection. A tool whose name has one is left out, and logged."""
    if not provider.has_secrets:
        return tools
    plain = msgspec.to_builtins(tools)
    told = await provider.without_secrets(plain)
    if told is plain:
        return tools
    found = [new for new, old in zip(told, plain, strict=True) if new["name"] == old["name"]]
    if len(found) < len(plain):
        log.warning("connection %s: tools whose names have a secret are left out", provider.connection.name)
    return msgspec.convert(found, list[ProvidedTool])


def spec_of(provider: ToolProvider, tool: ProvidedTool) -> ToolSpec:
    """A tool of a provider, as the engine calls tools."""

    async def call(input: dict[str, Any], ctx: ToolContext) -> Any:
        value = await provider.call(tool.name, input, ctx)
        authorization = ctx.authorization_for(provider.connection)
        if isinstance(value, Content):
            return Content.of_members(await provider.without_secrets(value.members, authorization))
        return await provider.without_secrets(value, authorization)

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
