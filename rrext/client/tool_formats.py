"""The forms in which `Client.tools` gives tools to models: what the vendors' requests and MCP's `tools/list` take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

OpenAIFormat: TypeAlias = Literal["openai", "openai-strict"]

Schema: TypeAlias = dict[str, Any]


class WhichTools(TypedDict, total=False):
    """Which tools `Client.tools` lists; `context` stands in for the client's."""

    token: str | None
    node_id: str | None
    context: Mapping[str, Any] | None


class OpenAIFunction(TypedDict):
    """A function of OpenAI's Chat Completions; `strict` is present in the format `openai-strict`."""

    name: str
    description: NotRequired[str]
    parameters: Schema
    strict: NotRequired[bool]


class OpenAITool(TypedDict):
    """An entry of `tools` in a request to OpenAI's Chat Completions."""

    type: Literal["function"]
    function: OpenAIFunction


class AnthropicTool(TypedDict):
    """An entry of `tools` in a request to Anthropic's Messages."""

    name: str
    description: NotRequired[str]
    input_schema: Schema


class McpTool(TypedDict):
    """An entry of the answer to MCP's `tools/list`."""

    name: str
    title: str
    description: NotRequired[str]
    inputSchema: Schema
    outputSchema: NotRequired[Schema]
    annotations: NotRequired[dict[str, bool]]
