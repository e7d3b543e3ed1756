"""`LanguageModelNode`, the base of the nodes that ask a language model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, ClassVar, Final

from rrext.nodes.base.lanes import answer_value, asked_question
from rrext.nodes.base.node import Node
from rrext.nodes.llm.chat import LanguageModel
from rrext.nodes.llm.price import Price, known_price
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

HINTS: Final = {"readOnlyHint": True, "openWorldHint": True}


class LanguageModelNode(Node):
    """Asks a language model: questions become answers, on the lane and by the tools `ask` and `ask_stream`."""

    class_types = ("llm",)
    capabilities = ("invoke",)
    lanes = {"questions": ("answers",)}
    address: ClassVar[str] = ""
    """The address of the API by default."""
    service: ClassVar[str] = ""
    """Whose API it is."""
    shared: LanguageModel

    @classmethod
    def price_of(cls, config: Any) -> Price | None:
        """The price of the model that the settings name: theirs, else the known one. Raises `ImportError`."""
        address = config.base_url or config.serverbase or cls.address
        return config.price or known_price(config.model.strip(), address, cls.service)

    async def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        answer = await self.shared.ask(question, ctx)
        sent = self.emit("answers", answer)
        if sent is not None:
            await sent

    @tool_function(group="llm", annotations=HINTS)
    async def ask(self, question: str | dict[str, Any], expectJson: bool = False, *, ctx: ToolContext) -> dict[str, Any]:
        """Ask the model one question. Answers `{answer, expectJson}`, and `tokens` if the server counts them.

        Args:
            question: The text of the question, or a question as it travels on the questions lane.
            expectJson: Whether the answer is to be a JSON value instead of a text.
        """
        answer = await self.shared.ask(asked_question(question, expectJson), ctx)
        return {**answer, "answer": answer_value(answer)}

    @tool_function(group="llm", annotations=HINTS)
    async def ask_stream(
        self, question: str | dict[str, Any], expectJson: bool = False, *, ctx: ToolContext
    ) -> AsyncIterator[str]:
        """Ask the model one question and get the answer piece by piece while it is written (call it with `stream: true`).

        Args:
            question: The text of the question, or a question as it travels on the questions lane.
            expectJson: Whether the pieces together are to be a JSON value.
        """
        async with aclosing(self.shared.stream(asked_question(question, expectJson), ctx)) as pieces:
            async for piece in pieces:
                yield piece
