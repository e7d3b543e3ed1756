"""The result of a tool of an MCP server as `Content`, which has all that the server said."""

from __future__ import annotations

from typing import Any, Final

from rrext.content import Content
from rrext.errors import ToolError
from rrext.providers.mcp.failures import cut
from rrext.providers.provider import ProvidedTool

PROTOCOL_KEYS: Final = "io.modelcontextprotocol/"
"""The beginning of the keys of `_meta` that the protocol reserves."""


def content_of(connection: str, tool: ProvidedTool, result: dict[str, Any]) -> Content:
    """The content of the result of `tools/call`. Raises `ToolError` for a failure that the tool reports."""
    of = f'tool "{tool.name}" of connection "{connection}"'
    require_complete(of, result)
    blocks = result.get("content", [])
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise ToolError(f"The result of {of} is no MCP result: content is no list of blocks")
    content = Content.of_members({**result, "_meta": own_meta(result.get("_meta"))})
    if result.get("isError"):
        texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
        raise ToolError(cut("\n".join(texts)) or "it failed, and did not say why", data=content.members)
    if tool.output_schema is not None and "structuredContent" not in result:
        raise ToolError(f"The {of} has an output schema and sent no structured content")
    return content


def own_meta(meta: Any) -> dict[str, Any] | None:
    """The `_meta` of a result without what the protocol itself says there, which is of this connection alone."""
    given: dict[str, Any] = meta if isinstance(meta, dict) else {}
    return {key: value for key, value in given.items() if not key.startswith(PROTOCOL_KEYS)} or None


def require_complete(of: str, result: dict[str, Any]) -> None:
    """Raise `ToolError` for a result that is none yet."""
    kind = result.get("resultType", "complete")
    if kind == "complete":
        return
    if kind != "input_required":
        raise ToolError(f'the result of {of} has the unknown type "{cut(str(kind))}"')
    requests = result.get("inputRequests")
    asked = requests.values() if isinstance(requests, dict) else ()
    methods = sorted({str(each.get("method")) for each in asked if isinstance(each, dict)})
    raise ToolError(
        f"{of} asks for more input ({', '.join(methods) or 'later'}), which its caller cannot give",
        hint="Give all that the tool needs in its arguments.",
    )
