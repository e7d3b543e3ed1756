"""What tools return arrives as it was, or is a failure; bytes and texts cross unchanged."""

from __future__ import annotations

import base64
import hashlib
import os
from random import Random
from typing import Any

import pytest
from face import Face
from houses import LocalHouse
from wire_faces import WireLine

from rrext.errors import ToolError

BAD = {
    "nan": "/a/1",
    "infinity": "/a/b",
    "object": "/a/1",
    "surrogate": "/a",
    "key": "/a",
    "cycle": "",
    "depth": "",
    "set_of_objects": "/a",
}
"""Values that JSON cannot hold, and where in them that is."""


@pytest.mark.promise("result:never-null")
@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("tool", ["bad", "bad_async"])
async def test_a_result_that_json_cannot_hold_is_a_failure_with_its_path(tool: str, kind: str, house: LocalHouse) -> None:
    async with house.connect() as face:
        error = await face.tool_failure(tool, {"kind": kind})
        assert isinstance(error, ToolError)
        assert error.code == "tool_failed"
        assert error.data["path"].startswith(BAD[kind])
        assert await face.tool("nothing") is None  # and what is null stays null


@pytest.mark.promise("result:never-null")
async def test_nested_calls_refuse_them_all_too(face: Face) -> None:
    for kind, path in BAD.items():
        error = await face.tool_failure("bad", {"kind": kind})
        assert (error.code, error.data["path"][: len(path)]) == ("tool_failed", path)
        nested = await face.tool_failure("ask", {"node": "", "tool": "bad", "input": {"kind": kind}})
        assert nested.code == "tool_failed"


@pytest.mark.promise("result:never-null")
@pytest.mark.parametrize("kind", ["nan", "object", "surrogate"])
async def test_a_chunk_that_json_cannot_hold_ends_the_call_after_those_before_it(kind: str, face: Face) -> None:
    chunks: list[Any] = []
    error = await face.tool_failure("bad_chunk", {"kind": kind}, on_chunk=chunks.append)
    assert error.code == "tool_failed"
    assert chunks == [1]
    assert (await face.tool_failure("bad_chunk", {"kind": kind})).code == "tool_failed"


@pytest.mark.promise("result:never-null")
async def test_an_objects_result_that_json_cannot_hold_is_its_failure(face: Face) -> None:
    body = await face.send("good", "spoil:", mimeType="text/plain")
    assert body["error"]["code"] == "tool_failed"
    assert "/bad/0" in body["error"]["message"]
    assert None not in body.get("bad", [])


# bytes


SIZES = [0, 1, 2, 3, 255, 256, 4095, 4096, 65535, 65536, 65537, 300_000, 1_000_003]
"""Around every border there is."""


@pytest.mark.promise("wire:bytes:one-rule")
async def test_random_bytes_survive_as_input_result_and_chunks(face: Face) -> None:
    for size in SIZES:
        data = os.urandom(size)
        encoded = base64.b64encode(data).decode()
        assert await face.tool("blob", {"data": encoded}) == data
        assert await face.tool("boxed_blob", {"data": encoded}) == {"data": encoded}
        chunks: list[bytes] = []
        await face.tool("pieces", {"data": encoded, "size": max(1, size // 7)}, on_chunk=chunks.append)
        assert b"".join(chunks) == data
        listed = await face.tool("pieces", {"data": encoded, "size": max(1, size // 3)})
        assert b"".join(map(base64.b64decode, listed)) == data


@pytest.mark.promise("wire:bytes:one-rule")
async def test_random_bytes_survive_every_way_of_writing(face: Face) -> None:
    data = b"".join(os.urandom(size) for size in SIZES)
    pipe_id = await face.open()
    rest, random = data, Random(7)
    while rest:
        size = random.choice([1, 100, 5000, 200_000])
        piece, rest = rest[:size], rest[size:]
        if random.random() < 0.5:
            await face.write(pipe_id, piece)
        else:
            await face.process("write", pipe_id=pipe_id, data_base64=base64.b64encode(piece).decode())
    await face.write(pipe_id, b"")
    assert await face.tool("measured", pipe_id=pipe_id) == {"total": len(data), "digest": hashlib.sha256(data).hexdigest()}
    assert (await face.close(pipe_id))["reply"] == [f"{len(data)} {hashlib.sha256(data).hexdigest()}\n\n"]


@pytest.mark.promise("wire:bytes:one-rule")
async def test_who_takes_no_tails_gets_base64_and_may_send_tails_all_the_same(wire: WireLine) -> None:
    """A line does not say `initialize`, so that the server may send it no tails."""
    for size in SIZES[:-1]:
        data = os.urandom(size)
        encoded = base64.b64encode(data).decode()
        answer = await wire.answer(await wire.call("blob", {"data": encoded}))
        assert (answer.body, answer.tail) == ({"result": encoded}, None)
        streamed = await wire.call("pieces", {"data": encoded, "size": max(1, size // 5)}, stream=True)
        await wire.answer(streamed)
        assert b"".join(base64.b64decode(event["chunk"]) for event in wire.events(streamed)) == data
        opened = await wire.answer(await wire.send("rrext_process", {"subcommand": "open"}))
        await wire.answer(await wire.send("rrext_process", {"subcommand": "write", **opened.body}, data))
        assert (await wire.result("measured", **opened.body))["total"] == size
        await wire.answer(await wire.send("rrext_process", {"subcommand": "close", **opened.body}))


@pytest.mark.promise("wire:bytes:one-rule")
async def test_any_text_survives(face: Face) -> None:
    text = 'äöü€𝄞\u0000\u001f\u2028\ufeff"\\/\n\r\t' + "".join(map(chr, range(32, 0xD800, 97)))
    assert await face.tool("echo", {"value": {text: [text]}}) == {text: [text]}
    body = await face.send(text, text.encode(), mimeType="text/plain", object={"name": text})
    assert body["reply"] == [f"{text.upper()}\n\n" * 2]
    assert body["name"] == text


# blocks


LINK = {"type": "resource_link", "uri": "file:///a/b.csv", "name": "b.csv", "mimeType": "text/csv"}
LOUD = {"type": "text", "text": "loud", "annotations": {"priority": 1}}
SEVERAL = [{"type": "text", "text": "words"}, {"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}, LINK, LOUD]


@pytest.mark.promise("result:content")
async def test_a_caller_that_asks_for_content_gets_each_block_as_the_tool_gave_it(face: Face) -> None:
    async def content(tool: str, **given: Any) -> Any:
        return (await face.process("tool", tool=tool, input=given, content=True))["result"]

    assert await content("several") == {"content": SEVERAL}
    assert await face.tool("several") == {"content": SEVERAL}
    three = [{"type": "text", "text": "three in all"}]
    assert await content("told") == {"content": three, "structuredContent": {"count": 3}, "_meta": {"org.example/kind": "sum"}}
    assert await face.tool("told") == {"count": 3}
    assert await face.tool("ask", {"node": "", "tool": "told", "input": {}}) == {"count": 3}  # a tool gets the value


@pytest.mark.promise("result:content")
async def test_any_other_result_as_content_is_a_text_beside_the_value_or_the_block_of_its_bytes(face: Face) -> None:
    async def content(tool: str, **given: Any) -> Any:
        return (await face.process("tool", tool=tool, input=given, content=True))["result"]

    text = {"type": "text", "text": '{"sum":3}'}
    assert await content("add", a=2) == {"content": [text], "structuredContent": {"sum": 3}}
    text = {"type": "text", "text": "[1]"}
    assert await content("numbers", value=[1]) == {"content": [text], "structuredContent": {"result": [1]}}
    assert await content("blob", data="R0lGODlh") == {"content": [SEVERAL[1]]}
    hours = await content("pieces", data="AAEC", size=2)
    assert hours["structuredContent"] == {"result": ["AAE=", "Ag=="]}
