"""The language model that is bound to a node by control, and how a node asks it."""

from __future__ import annotations

from typing import Any, Final

from rrext.engine.node import Node
from rrext.errors import Unavailable
from rrext.tools.context import ToolContext

__all__ = ["LLM_SLOT", "ask_model"]

LLM_SLOT: Final = {"llm": {"description": "The language model that is asked.", "min": 0, "max": 1}}
"""For `Node.invoke` of a node that works without a model too, but for what needs one."""


def ask_model(node: Node, ctx: ToolContext, question: str | dict[str, Any], *, expect_json: bool = False) -> Any:
    """What the model answers: a text, or with `expect_json` a JSON value. Blocks; for `def` tools and lane methods.

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
