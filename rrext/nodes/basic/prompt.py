"""Nodes that make questions: out of texts, or out of everything that an object brings along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from rrext.errors import ToolError
from rrext.nodes.base.lanes import empty_question, merge_questions, new_question
from rrext.nodes.base.node import Entry, Node

MIB = 1024 * 1024


class PromptNode(Node):
    """Puts questions and their context together: one question per object, with instructions and context.

    Texts and tables become its `context`, documents its `documents`; several questions become one that asks them all.
    It is sent on when the object ends, because context may arrive after the question. An object that brings context
    but no question gives a question of instructions and context alone; one that brings nothing gives none.
    """

    provider = "prompt"
    title = "Prompt"
    class_types = ("text",)
    lanes = {"questions": ("questions",), "documents": (), "text": (), "table": ()}

    class Config:
        instructions: Annotated[tuple[str, ...], "What the model is told, before context and question."] = ()
        offer: Annotated[
            bool, "Offer the instructions to hosts (Model Context Protocol), whose users begin a conversation with them."
        ] = False
        maxContext: Annotated[int, "Characters of text and tables that one object may bring; a model takes far fewer."] = (
            16 * MIB
        )

    @classmethod
    def offers(cls, config: Any) -> dict[str, Any] | None:
        """A prompt of these instructions."""
        return {"instructions": list(config.instructions)} if config.offer else None

    def open(self, entry: Entry) -> None:
        self._questions: list[dict[str, Any]] = []
        self._context: list[str] = []
        self._documents: list[dict[str, Any]] = []
        self._characters = 0

    def write_questions(self, question: dict[str, Any]) -> None:
        self._questions.append(question)

    def write_documents(self, documents: list[dict[str, Any]]) -> None:
        for document in documents:
            self._count(str(document.get("page_content") or ""))
        self._documents.extend(documents)

    def write_text(self, text: str) -> None:
        self._count(text)
        self._context.append(text)

    def write_table(self, table: str) -> None:
        self._count(table)
        self._context.append(table)

    def closing(self) -> None:
        if not (self._questions or self._context or self._documents):
            return
        self.emit("questions", put_together(self.config.instructions, self._context, self._documents, self._questions))

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > self.config.maxContext:
            raise ToolError(
                f"This object brings more than {self.config.maxContext} characters of context",
                code="context_too_large",
                hint=f'Send less, or raise "maxContext" of node "{self.node_id}".',
            )


def put_together(
    instructions: Sequence[str],
    context: Sequence[str],
    documents: Sequence[dict[str, Any]] = (),
    questions: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """One question of instructions, context, documents and questions."""
    titles = ["User Instruction"]
    if len(instructions) != 1:
        titles = [f"User Instruction {number}" for number in range(1, len(instructions) + 1)]
    told = [{"subtitle": title, "instructions": text} for title, text in zip(titles, instructions, strict=True)]
    brought = {**empty_question(), "instructions": told, "context": list(context), "documents": list(documents)}
    first, *others = questions or [empty_question()]
    return merge_questions(first, *others, brought)


class QuestionNode(Node):
    """Asks every text that arrives as a question. A blank one asks nothing."""

    provider = "question"
    title = "Question"
    class_types = ("text",)
    lanes = {"text": ("questions",)}

    class Config:
        expectJson: Annotated[bool, "Ask for answers in JSON."] = False

    def write_text(self, text: str) -> None:
        if text.strip():
            self.emit("questions", new_question(text, expectJson=self.config.expectJson))
