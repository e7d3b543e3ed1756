"""Tools under the names that the protocol's conformance suite calls, with the results that it expects."""

from __future__ import annotations

import asyncio
from base64 import b64decode

from rrext import Content, Node, ToolContext, ToolError, tool_function

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
WAV = bytes.fromhex("524946462400000057415645666d74201000000001000100401f0000803e0000020010006461746100000000")
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


class Conformance(Node):
    """What the suite calls."""

    provider = "conformance"

    @tool_function
    def test_simple_text(self) -> str:
        """A text."""
        return "This is a simple text response for testing."

    @tool_function
    def test_image_content(self) -> bytes:
        """An image."""
        return PNG

    @tool_function
    def test_audio_content(self) -> bytes:
        """A sound."""
        return WAV

    @tool_function
    def test_embedded_resource(self) -> bytes:
        """Other bytes."""
        return b"\x00\x01"

    @tool_function
    def test_multiple_content_types(self) -> Content:
        """Several blocks."""
        about = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": '{"test": "data"}'}
        return Content("Multiple content types test:", PNG, {"type": "resource", "resource": about})

    @tool_function
    def test_error_handling(self) -> str:
        """A failure."""
        raise ToolError("This tool intentionally returns an error for testing")

    @tool_function
    async def test_tool_with_progress(self, *, ctx: ToolContext) -> str:
        """Progress."""
        for value in (0, 50, 100):
            ctx.progress(value, 100)
            await asyncio.sleep(0)
        return "done"

    @tool_function(input_schema=SCHEMA)
    def json_schema_2020_12_tool(self, name: str = "", address: dict[str, str] | None = None) -> str:
        """A schema with parts that are referred to."""
        return f"{name} {address}"
