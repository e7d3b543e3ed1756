"""`SdkModel`: a language model that is asked by the SDK of its maker, on the thread of `ModelLoop`; the base of its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from rrext.nodes.base.setup import SetupContext, missing_packages
from rrext.nodes.http import EndpointSettings, ServerName, endpoint_settings, server_name
from rrext.nodes.llm.chat import ChatSettings, LanguageModel, Message, ModelReply
from rrext.nodes.llm.model_loop import ModelLoop
from rrext.nodes.llm.node import LanguageModelNode
from rrext.nodes.llm.settings import LanguageModelSettings
from rrext.tools.context import ToolContext

if TYPE_CHECKING:
    from rrext.nodes.llm.agent_models import AgentModel


class SdkModel(LanguageModel):
    """A language model whose API pydantic-ai speaks. Nothing of it is imported before the first question."""

    def __init__(self, make: Callable[[], AgentModel], in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._make = make
        self._in_thread = in_thread
        self._made: AgentModel | None = None  # of the other loop
        self._making = asyncio.Lock()

    def agent_model(self) -> AgentModel:
        return self._make()

    async def aclose(self) -> None:
        """Close the connections of questions."""
        if self._made is not None:
            await ModelLoop.shared().run(self._close(self._made))

    async def _close(self, made: AgentModel) -> None:
        await made.close()

    async def _complete(self, messages: list[Message], expect_json: bool, ctx: ToolContext) -> ModelReply:
        async with aclosing(ModelLoop.shared().stream(self._answer, messages)) as items:
            async for item in items:
                if isinstance(item, ModelReply):
                    return item
        raise RuntimeError("a model ended without a reply")

    async def _pieces(self, messages: list[Message], expect_json: bool, ctx: ToolContext) -> AsyncGenerator[str, None]:
        async with aclosing(ModelLoop.shared().stream(self._answer, messages)) as items:
            async for item in items:
                if isinstance(item, str):
                    yield item

    async def _answer(self, messages: list[Message]) -> AsyncGenerator[str | ModelReply, None]:
        """On the other loop."""
        async with self._making:
            made = self._made = self._made or await self._in_thread(self._make)
        from rrext.nodes.llm.agent_models import streamed_answer

        async with aclosing(streamed_answer(made, messages)) as items:
            async for item in items:
                yield item


class SdkNode(LanguageModelNode):
    """A node of a maker with an SDK."""

    needs: ClassVar[tuple[str, str]]
    """The extra of the node, and the module that it brings."""

    class Config(LanguageModelSettings):
        modelOutputTokens: Annotated[int | None, "As maxTokens, which wins, in RocketRide's files."] = None

    @classmethod
    def unavailable(cls) -> str | None:
        """The missing packages, if any."""
        extra, module = cls.needs
        return missing_packages(extra, "httpx2", "pydantic_ai", module)

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[SdkModel]:
        """Check the settings; imports and connects to nothing yet."""
        settings = endpoint_settings(config, cls.address, ctx.node_id)
        server = server_name(settings, ctx.node_id)
        chat = ChatSettings(
            model=config.model.strip(),
            temperature=config.temperature,
            max_tokens=config.maxTokens or config.modelOutputTokens,
            window=config.modelTotalTokens,
            price=config.price,
        )
        model = SdkModel(lambda: cls._made(server, settings, chat, is_remote=ctx.remote), ctx.in_thread)
        try:
            yield model
        finally:
            await model.aclose()

    @classmethod
    def _made(cls, server: ServerName, settings: EndpointSettings, chat: ChatSettings, *, is_remote: bool) -> AgentModel:
        """The model; blocks."""
        raise NotImplementedError
