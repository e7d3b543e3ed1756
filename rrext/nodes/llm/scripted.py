"""`llm_scripted`: a language model with scripted answers in its settings, for chats and agents offline and in tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

from rrext.errors import ToolError
from rrext.nodes.base.lanes import answer_value, asked_question, question_text
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.llm.price import Price
from rrext.tools.decorator import tool_function

if TYPE_CHECKING:
    from rrext.nodes.llm.agent_models import AgentModel

Count = Annotated[int, msgspec.Meta(ge=0)]


class ScriptCall(TypedDict):
    """A call of a tool: its arguments as an object, or the text that the model writes for them, JSON or not."""

    tool: str
    input: NotRequired[dict[str, Any] | str]


class ScriptUsage(TypedDict):
    """Tokens that a turn has read and written."""

    input: Count
    output: Count


class ScriptFailure(TypedDict):
    """A failure of the model server: its status, and what it says."""

    status: Annotated[int, msgspec.Meta(ge=400, le=599)]
    message: NotRequired[str]


class ScriptTurn(TypedDict):
    """A turn of a model in the run of an agent: a text, or its pieces, then calls of tools.

    `stall` are seconds of silence after the text. A turn that is `cut` breaks off before its end; a turn with a `failure` has
    nothing else. Without `usage` the tokens of the turn are not counted.
    """

    text: NotRequired[str | tuple[str, ...]]
    calls: NotRequired[tuple[ScriptCall, ...]]
    stall: NotRequired[Annotated[float, msgspec.Meta(ge=0)]]
    finish: NotRequired[Literal["stop", "length", "content_filter"]]
    cut: NotRequired[bool]
    failure: NotRequired[ScriptFailure]
    usage: NotRequired[ScriptUsage]


class ScriptLine(TypedDict):
    """A line of a script: a pattern of questions, the answer, and the turns of an agent before it."""

    match: str
    answer: NotRequired[Any]
    turns: NotRequired[tuple[ScriptTurn, ...]]


class ScriptedNode(Node):
    """Answers questions from a script in its settings. The first line that fits speaks.

    A line fits if its `match` occurs anywhere in the question; with `*`, which stands for any text, it has to fit the
    whole question. Case does not matter. In an answer that is a text, `{question}` becomes the question. If no line
    fits, or the line has no `answer`, `default` is the answer; without one the question fails.

    An agent gets the `turns` of the line first, one for each of its requests since the question. In their texts and in the
    inputs of their calls `{result}` becomes the result of the last tool, `{result.rows.0.n}` a value in it. After the turns it
    gets the answer.
    """

    provider = "llm_scripted"
    title = "LLM (scripted)"
    class_types = ("llm",)
    lanes = {"questions": ("answers",)}
    shared: Script

    class Config:
        script: Annotated[
            tuple[ScriptLine, ...], 'Lines of `{"match": text, "answer": any JSON value, "turns": [for agents]}`.'
        ] = ()
        default: Annotated[Any, "The answer if no line fits; null: there is none."] = None
        price: Annotated[
            Price | None, "Dollars per million tokens, for the limits of agents: {input, output}. null: nobody knows it."
        ] = None

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Script]:
        """Make the script what agents ask for their model."""
        yield Script(config, ctx.node_id)

    def write_questions(self, question: dict[str, Any]) -> None:
        self.emit("answers", self._answer(question))

    @tool_function(group="llm")
    def ask(self, question: str | dict[str, Any], expectJson: bool = False) -> dict[str, Any]:
        """Ask the model one question. Answers `{answer, expectJson}`.

        Args:
            question: The text of the question, or a question as it travels on the questions lane.
            expectJson: Whether the answer is to be a JSON value instead of a text.
        """
        answer = self._answer(asked_question(question, expectJson))
        return {**answer, "answer": answer_value(answer)}

    def _answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        expect_json = bool(question.get("expectJson"))
        found = Script(self.config, self.node_id).answer(question_text(question))
        if not (isinstance(found, str) or expect_json):  # a model that is asked for text writes JSON as text
            found = msgspec.json.encode(found).decode()
        return {"answer": found, "expectJson": expect_json}


class Script:
    """The settings of a node as a script: what is said to a question."""

    def __init__(self, config: Any, node_id: str) -> None:
        self._config = config
        self.node_id = node_id

    def agent_model(self) -> AgentModel:
        """The script as a model for agents; see `LanguageModel.agent_model`."""
        from rrext.nodes.llm.scripted_model import scripted_model

        return scripted_model(self, self._config.price)

    def turns(self, question: str) -> Sequence[ScriptTurn]:
        """The turns of an agent before the answer."""
        line = self._line(question)
        return () if line is None else line.get("turns", ())

    def answer(self, question: str) -> Any:
        """The answer. Raises `ToolError` (`no_answer`) if there is none."""
        line = self._line(question)
        found = None if line is None else line.get("answer")
        if found is None:
            found = self._config.default
        if found is None:
            raise ToolError(
                f'The script of node "{self.node_id}" has no line for this question',
                code="no_answer",
                hint='Add a line whose "match" fits, or a "default".',
            )
        return found.replace("{question}", question) if isinstance(found, str) else found

    def _line(self, question: str) -> ScriptLine | None:
        return next((line for line in self._config.script if fits(line["match"], question)), None)


def fits(pattern: str, text: str) -> bool:
    """Whether `pattern` occurs in the text or, if it holds `*`, fits the whole of it. In time linear in the text per part."""
    pattern, text = pattern.casefold(), text.casefold()
    if "*" not in pattern:
        return pattern in text
    head, *middle, tail = pattern.split("*")
    if not text.startswith(head) or not text.endswith(tail) or len(text) < len(head) + len(tail):
        return False
    at, end = len(head), len(text) - len(tail)
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
