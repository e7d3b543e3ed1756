"""A model server and a chat node that asks it, for the tests of both ways to be answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rrext.errors import ToolError
from rrext.nodes.llm.openai import OpenAIApiNode
from rrext.testing import call_tool

from model_server import ModelServer, Step  # isort: skip

__all__ = ["KEY", "ask", "failure", "settings"]

KEY = "sk-test-4711-secret"


def settings(server: ModelServer, **more: Any) -> dict[str, Any]:
    return {"base_url": server.address, "apikey": KEY, "model": "test-model", "retryDelay": 0.001, **more}


def ask(server: ModelServer, question: Any = "Hello", expectJson: bool = False, **more: Any) -> Any:
    return call_tool(OpenAIApiNode, "ask", {"question": question, "expectJson": expectJson}, config=settings(server, **more))


def failure(server: ModelServer, *steps: Step, **more: Any) -> ToolError:
    server.next(*steps)
    with pytest.raises(ToolError) as caught:
        ask(server, **more)
    assert KEY not in caught.value.message + json.dumps(caught.value.data) + (caught.value.hint or "")
    return caught.value
