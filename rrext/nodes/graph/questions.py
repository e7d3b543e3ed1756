"""Questions in natural language: the bound language model writes Cypher, the gate and the database judge it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from rrext.errors import RrextError, ToolError
from rrext.nodes.base.node import Node
from rrext.nodes.databases.statements import model_answer
from rrext.nodes.graph.calls import CypherCall
from rrext.nodes.graph.database import Graph
from rrext.nodes.graph.schema_text import schema_text
from rrext.nodes.llm.bound_model import ask_model, check_question
from rrext.tools.context import ToolContext

FENCE: Final = re.compile(r"```(?:[a-zA-Z]*)\n(.*?)```", re.S)
NO_DATA: Final = "NO_DATA:"
FED_BACK: Final = frozenset({"invalid_arguments", "not_read_only", "cypher_failed"})
"""Failures that another statement may avoid; for others, a second attempt would not help."""

INSTRUCTIONS: Final = """You write one Cypher statement for the {dialect} graph database that answers the question.
It must only read: MATCH, WHERE, WITH, UNWIND, CALL subqueries and RETURN. Use only labels, types and properties of the schema.
Answer with the statement alone. If no data of this graph can answer the question, answer with "{no_data}" and a sentence
for the person who asks.

Schema:
{schema}
{description}
Question: {question}"""
AGAIN: Final = """
You wrote:
{cypher}
That was refused: {problem}
Write it anew."""


class WrittenCypher(msgspec.Struct, frozen=True):
    """The model's reply to a question: a valid statement, or an answer in words."""

    cypher: str | None = None
    answer: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The answer of `get_cypher`."""
        if self.cypher is None:
            return {"valid": False, "answer": self.answer}
        return {"valid": True, "cypher": self.cypher}


class Asker:
    """Answers the questions of one call."""

    def __init__(self, node: Node, graph: Graph, ctx: ToolContext, call: CypherCall, attempts: int) -> None:
        self._node = node
        self._graph = graph
        self._ctx = ctx
        self._call = call
        self._attempts = max(1, attempts)

    def cypher(self, question: str) -> WrittenCypher:
        """A statement that only reads and that the database can plan.

        Raises `ToolError` (`no_valid_cypher`, with the last statement and its problem) if the model finds none.
        """
        check_question(question)
        prompt = self._prompt(question)
        problem, cypher = "", ""
        for _ in range(self._attempts):
            self._ctx.check()
            more = AGAIN.format(cypher=cypher, problem=problem) if problem else ""
            written = _statement(ask_model(self._node, self._ctx, prompt + more))
            if written.cypher is None:
                return written
            cypher = written.cypher
            try:
                self._call.explain(cypher, {})
                return WrittenCypher(self._call.checked(cypher, {}).text)
            except RrextError as error:
                if error.code not in FED_BACK:
                    raise
                problem = error.message
        times = "1 attempt" if self._attempts == 1 else f"{self._attempts} attempts"
        raise ToolError(
            f"The language model wrote no valid Cypher in {times}: {problem}",
            code="no_valid_cypher",
            hint="Ask more plainly, or tell the model more in the node's description.",
            data={"cypher": cypher},
        )

    def data(self, question: str, limit: int) -> dict[str, Any]:
        """The answer of `get_data`."""
        written = self.cypher(question)
        if written.cypher is None:
            return written.as_json()
        found = self._call.query(written.cypher, {}, limit)
        return model_answer(found, "cypher", written.cypher, limit)

    def _prompt(self, question: str) -> str:
        description = getattr(self._node.config, "description", "")
        return INSTRUCTIONS.format(
            dialect=self._graph.backend.dialect.name,
            no_data=NO_DATA,
            schema=schema_text(self._graph.schema(self._ctx)),
            description=f"\n{description}\n" if description else "",
            question=question,
        )


def _statement(answer: Any) -> WrittenCypher:
    """The statement in a model's reply, without the code fence around it."""
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    text = text.strip()
    if text.startswith(NO_DATA):
        return WrittenCypher(answer=text[len(NO_DATA) :].strip())
    fenced = FENCE.search(text)
    return WrittenCypher(cypher=(fenced[1] if fenced else text).strip())
