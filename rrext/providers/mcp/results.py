"""The result of a tool of an MCP server as a value of ours: JSON, text or bytes."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from rrext.errors import ToolError
from rrext.providers.mcp.failures import cut
from rrext.providers.provider import ProvidedTool


def value_of(connection: str, tool: ProvidedTool, result: dict[str, Any]) -> Any:
    """The value of the result of `tools/call`.

    Structured content counts before all; a single text is a string, a single image, sound or blob is its bytes, anything
    else is `{"content": […]}` as the server sent it. Raises `ToolError` for a failure that the tool reports.
    """
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    kind = result.get("resultType", "complete")
    if kind != "complete":
        raise _unexpected(connection, tool.name, kind, result)
    structured = result.get("structuredContent")
    if result.get("isError"):
        message = cut("\n".join(_texts(blocks))) or "it failed, and did not say why"
        raise ToolError(message, data={} if structured is None else {"structuredContent": structured})
    if "structuredContent" in result:
        if tool.output_schema is not None or all(_is_text(block) for block in blocks):
            return structured
        return {"structuredContent": structured, "content": blocks}
    if tool.output_schema is not None:
        raise ToolError(
            f'The tool "{tool.name}" of connection "{connection}" has an output schema and sent no structured content'
        )
    if content is not None and not isinstance(content, list):
        raise ToolError(f'The result of tool "{tool.name}" of connection "{connection}" is no MCP result: content is no list')
    if len(blocks) == 1:
        return _single(blocks[0])
    return {"content": blocks}


def _single(block: Any) -> Any:
    if _is_text(block):
        return block["text"]
    if isinstance(block, dict):
        resource = block.get("resource")
        packed = block.get("data") if block.get("type") in ("image", "audio") else None
        if isinstance(resource, dict) and block.get("type") == "resource":
            packed = resource.get("blob")
        if isinstance(packed, str):
            try:
                return b64decode(packed, validate=True)
            except (binascii.Error, ValueError):
                raise ToolError(f"The {block['type']} of the result is no base64") from None
    return {"content": [block]}


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _texts(blocks: list[Any]) -> list[str]:
    return [block["text"] for block in blocks if _is_text(block)]


def _unexpected(connection: str, tool: str, kind: Any, result: dict[str, Any]) -> ToolError:
    of = f'tool "{tool}" of connection "{connection}"'
    if kind != "input_required":
        return ToolError(f'the result of {of} has the unknown type "{cut(str(kind))}"')
    requests = result.get("inputRequests")
    asked = requests.values() if isinstance(requests, dict) else ()
    methods = sorted({str(each.get("method")) for each in asked if isinstance(each, dict)})
    return ToolError(
        f"{of} asks for more input ({', '.join(methods) or 'later'}), which a tool call cannot give",
        hint="Give all that the tool needs in its arguments.",
    )
