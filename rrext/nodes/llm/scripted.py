"""`llm_scripted`: a language model with scripted answers in its settings, for chats offline and in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import msgspec

from rrext.errors import ToolError
from rrext.nodes.base.lanes import answer_value, asked_question, question_text
from rrext.nodes.base.node import Node
from rrext.tools.decorator import tool_function


class ScriptLine(TypedDict):
    """A line of a script: a pattern of questions and the answer."""

    match: str
    answer: Any


class ScriptedNode(Node):
    """Answers questions from a script in its settings. The first line that fits speaks.

    A line fits if its `match` occurs anywhere in the question; with `*`, which stands for any text, it has to fit the
    whole question. Case does not matter. In an answer that is a text, `{question}` becomes the question. If no line
    fits, `default` is the answer; without one the question fails.
    """

    provider = "llm_scripted"
    title = "LLM (scripted)"
    class_types = ("llm",)
    lanes = {"questions": ("answers",)}

    class Config:
        script: Annotated[tuple[ScriptLine, ...], 'Lines of `{"match": text, "answer": any JSON value}`.'] = ()
        default: Annotated[Any, "The answer if no line fits; null: there is none."] = None

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
        text = question_text(question)
        found = self.config.default
        for line in self.config.script:
            if fits(line["match"], text):
                found = line["answer"]
                break
        if found is None:
            raise ToolError(
                f'The script of node "{self.node_id}" has no line for this question',
                code="no_answer",
                hint='Add a line whose "match" fits, or a "default".',
            )
        expect_json = bool(question.get("expectJson"))
        if isinstance(found, str):
            found = found.replace("{question}", text)
        elif not expect_json:  # a model that is asked for text writes JSON as text
            found = msgspec.json.encode(found).decode()
        return {"answer": found, "expectJson": expect_json}


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
