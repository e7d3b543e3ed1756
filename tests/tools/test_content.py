"""`Content`: a result of several blocks, and the value of it for callers that ask for none."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from rrext import Content, ResultTooLarge, ToolError
from rrext.limits import DEFAULTS
from rrext.tools.decorator import tool_function
from rrext.tools.spec import collect_tools

PNG = b"\x89PNG\r\n\x1a\n...."
TEXT = {"type": "text", "text": "words"}
NOTED = {**TEXT, "annotations": {"audience": ["user"]}}
IMAGE = {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a/b.csv", "name": "b.csv"}


def test_texts_bytes_and_blocks_are_blocks() -> None:
    content = Content("words", PNG, Content.link("file:///a/b.csv"), NOTED, b"\x00")
    blob = {"type": "resource", "resource": {"uri": "rrext:result", "mimeType": "application/octet-stream", "blob": "AA=="}}
    assert content.members == {"content": [TEXT, IMAGE, LINK, NOTED, blob]}


@pytest.mark.parametrize("block", [7, None, {}, {"type": 1}, {"type": "image", "data": "AA=="}, {"type": "resource_link"}])
def test_what_is_no_block_is_refused(block: Any) -> None:
    with pytest.raises(ValueError, match="block"):
        Content(block)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (Content("words"), "words"),
        (Content(NOTED), "words"),
        (Content(PNG), PNG),
        (Content(b"\x00"), b"\x00"),
        (Content(LINK), {"content": [LINK]}),
        (Content(), {"content": []}),
        (Content("words", PNG), {"content": [TEXT, IMAGE]}),
        (Content({"type": "of tomorrow"}), {"content": [{"type": "of tomorrow"}]}),
        (Content("words", structured=[1]), [1]),
        (Content(PNG, structured=None), {"structuredContent": None, "content": [IMAGE]}),
    ],
)
def test_callers_that_ask_for_no_blocks_get_the_value(content: Content, value: Any) -> None:
    assert content.value == value


def test_a_picture_that_is_no_base64_is_no_value() -> None:
    with pytest.raises(ToolError, match="no base64"):
        _ = Content({**IMAGE, "data": "?"}).value


class Owner:
    @tool_function(output_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    def described(self) -> Any: ...

    @tool_function(output_schema={"type": "array"})
    def listed(self) -> Any: ...

    @tool_function
    def free(self) -> Any: ...


def encoded(tool: str, content: Content) -> bytes:
    return collect_tools(Owner)[tool].encode_content(Owner(), content, DEFAULTS)


def test_structured_content_is_an_object_and_fits_the_schema_of_the_output() -> None:
    assert encoded("described", Content(structured={"a": 1})) == b'{"content":[],"structuredContent":{"a":1}}'
    assert encoded("listed", Content(structured=[1])) == b'{"content":[],"structuredContent":{"result":[1]}}'
    assert encoded("free", Content(structured=None, meta={"k": 1})).endswith(
        b'"_meta":{"k":1},"structuredContent":{"result":null}}'
    )
    with pytest.raises(ToolError, match="breaks its output_schema: /a"):
        encoded("described", Content(structured={"a": "x"}))
    with pytest.raises(ToolError, match="no structured content"):
        encoded("described", Content("words"))


def test_a_caller_that_asks_for_no_blocks_gets_what_the_schema_of_the_output_describes() -> None:
    content = Content(PNG, structured={"a": 1})
    assert collect_tools(Owner)["described"].value_of(content) == {"a": 1}
    assert collect_tools(Owner)["free"].value_of(content) == content.value == content.members


def test_blocks_are_strict_json_of_bounded_size() -> None:
    with pytest.raises(ToolError) as caught:
        encoded("free", Content({"type": "text", "text": "x", "score": float("nan")}))
    assert caught.value.data["path"] == "/content/0/score"
    with pytest.raises(ResultTooLarge):
        encoded("free", Content("x" * DEFAULTS.max_result))
