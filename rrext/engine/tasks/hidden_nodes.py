"""The node classes of hidden components, whose tools are offered by references alone: a connection, another pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

if TYPE_CHECKING:
    from rrext.providers.provided_tools import ProvidedTools


class ConnectionNode(Node):
    """Has the tools of a connection. `config` is the kind of its provider, its name, and the integration that is meant."""

    has_dynamic_tools = True

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: tuple[str, str, str], ctx: SetupContext) -> AsyncIterator[ProvidedTools]:
        """Connect, and learn the tools."""
        from rrext.providers.provided_tools import ProvidedTools  # few pipelines have tools outside

        kind, name, integration = config
        async with ProvidedTools.of(await ctx.provider(name, kind, integration)) as found:
            yield found


class PipelineNode(Node):
    """Has a running pipeline as its one tool. `config` is the kind, and the token of the pipeline."""

    @tool_function(description=lambda node: f'Give a text to the pipeline "{node.config[1]}", and get its result.')
    async def run(
        self,
        text: Annotated[str, "The text, or the question for a pipeline that chats."],
        mime_type: Annotated[str | None, "The type of the text, which chooses its lane."] = None,
        name: Annotated[str | None, "A name for the text."] = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        return await ctx.run_pipeline(self.config[1], text, mime_type=mime_type, name=name)
