"""The language model that is bound to a node by control: its questions and their check."""

from __future__ import annotations

from typing import Any, Final

from rrext.errors import InvalidArguments, Unavailable
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext

MAX_QUESTION: Final = 16_000
"""Characters of a question; longer texts are documents, not questions."""

LLM_SLOT: Final = {"llm": {"description": "The language model that is asked.", "min": 0, "max": 1}}
"""Declares an optional language model in `Node.invoke`."""


class ModelBound:
    """An availability rule: a language model is bound to the node."""

    by_settings = True
    """The pipeline alone decides, so that the engine need not check each call."""

    def __init__(self) -> None:
        self.missing = 'It needs a language model: bind one with "control": [{"classType": "llm", "from": "<this node>"}].'

    def __call__(self, node: Any, ctx: ToolContext | None) -> bool:
        return node is not None and bool(node.bindings.get("llm"))


def ask_model(node: Node, ctx: ToolContext, question: str | dict[str, Any], *, expect_json: bool = False) -> Any:
    """Ask the model; return a text, or with `expect_json` a JSON value. Blocks; for `def` tools and lane methods.

    `question` is a text, or a question as it travels on the questions lane. Raises `Unavailable` if no model is bound to
    the node, and what the model's own call raises.
    """
    bound = node.bindings.get("llm", ())
    if not bound:
        raise Unavailable(
            f'Node "{node.node_id}" has no language model',
            hint=f'Bind one: give an LLM node "control": [{{"classType": "llm", "from": "{node.node_id}"}}].',
        )
    answer = ctx.call_blocking(bound[0], "ask", {"question": question, "expectJson": expect_json})
    return answer["answer"]


def check_question(question: str) -> None:
    """Raise `InvalidArguments` for a tool's question that is blank or too long."""
    if not question.strip():
        raise InvalidArguments.at("/input/question", "asks nothing: expected a text")
    if len(question) > MAX_QUESTION:
        raise InvalidArguments.at("/input/question", f"has {len(question):,} characters: MAX_QUESTION is {MAX_QUESTION:,}")
