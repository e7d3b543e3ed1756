"""The built-in nodes in real pipelines on the real engine."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from rrext import Node, ToolContext, tool_function
from rrext.errors import InvalidArguments, ResultTooLarge, RrextError, ToolError, Unavailable

from running import Running, component, pipeline, running  # isort: skip

WEBHOOK = component("in", "webhook")
EVERYTHING = pipeline(
    WEBHOOK,
    component(
        "out",
        "response",
        *(f"{lane}:in" for lane in ("text", "table", "documents", "questions", "answers", "image", "audio", "video", "json")),
    ),
)


@pytest.mark.parametrize(
    ("mime_type", "writes", "lane", "values"),
    [
        ("text/plain", [b"a", b"b"], "text", ["a\n\nb\n\n"]),
        ("lane/table", [b"|a|", b"|b|"], "table", ["|a|", "|b|"]),
        ("lane/documents", [[{"score": 1}], {"score": 2}], "documents", [{"score": 1}, {"score": 2}]),
        ("lane/answers", [{"answer": "x"}], "answers", ["x"]),
        ("lane/answers", [{"answer": "[1]", "expectJson": True}], "answers", [[1]]),
        ("application/json", [{"a": 1}], "json", [{"a": 1}]),
        ("image/png", [b"ab", b"c"], "image", [{"mime_type": "image/png", "image": base64.b64encode(b"abc").decode()}]),
        ("audio/x", [b"ab"], "audio", [{"url": "null://Stream/a.txt", "aviAction": "write", "mimeType": "audio/x", "size": 2}]),
    ],
)  # fmt: skip
async def test_what_is_sent_on_a_lane_stands_in_the_result(
    mime_type: str, writes: list[Any], lane: str, values: list[Any]
) -> None:
    async with running(EVERYTHING) as client:
        body = await client.send(mime_type, *writes)
    assert body[lane] == values
    assert body["result_types"] == {lane: lane}
    assert body["name"] == "a.txt"
    assert len(body["objectId"]) == 36


async def test_raw_bytes_that_nobody_takes_leave_a_result_without_types() -> None:
    async with running(EVERYTHING) as client:
        assert set(await client.send("application/pdf", b"%PDF")) == {"name", "path", "objectId"}


async def test_an_object_that_collects_too_much_fails_and_what_was_collected_is_kept() -> None:
    spec = pipeline(WEBHOOK, component("out", "response_text", "text:in", maxBytes=10))
    async with running(spec) as client:
        pipe = await client.open()
        await client.write(pipe, b"12345")
        with pytest.raises(ResultTooLarge, match="maxBytes"):
            await client.write(pipe, b"67890")
        body = await client.close(pipe)
    assert body["text"] == ["12345\n\n"]
    assert body["error"]["code"] == "result_too_large"


async def test_a_result_key_that_would_hide_the_body_s_own_is_refused_when_the_pipe_opens() -> None:
    async with running(pipeline(WEBHOOK, component("out", "response_text", "text:in", laneName="objectId"))) as client:
        with pytest.raises(ToolError, match='"objectId"'):
            await client.open()


async def test_two_response_nodes_with_one_key_share_a_list() -> None:
    nodes = [component(name, "response_text", "text:in", laneName="both") for name in ("one", "two")]
    async with running(pipeline(WEBHOOK, *nodes)) as client:
        assert (await client.send("text/plain", b"a"))["both"] == ["a\n\n", "a\n\n"]


async def test_a_prompt_joins_question_and_context_whatever_comes_first() -> None:
    spec = pipeline(
        WEBHOOK,
        component("ask", "question", "text:in"),
        component("prompt", "prompt", "questions:ask", "text:in", instructions=["Be brief."]),
        component("llm", "llm_scripted", "questions:prompt", script=[{"match": "*", "answer": "asked: {question}"}]),
        component("questions", "response_questions", "questions:prompt"),
        component("answers", "response_answers", "answers:llm"),
    )
    async with running(spec) as client:
        body = await client.send("text/plain", b"Why?", b"How?")
    (question,) = body["questions"]
    assert question["context"] == ["Why?", "How?"]
    assert question["instructions"] == [{"subtitle": "User Instruction", "instructions": "Be brief."}]
    assert body["answers"] == ["asked: Why?\nHow?"]


class Notebook(Node):
    """Calls another tool of its pipeline."""

    provider = "notebook"

    @tool_function
    async def note(self, key: str, *, ctx: ToolContext) -> list[Any]:
        """Keep a value, and look at what is there."""
        put = await ctx.call("memory", "put", {"key": key, "value": [key]})
        return [put["scope"], (await ctx.call("memory", "list"))["keys"]]


REMEMBERING = pipeline(
    component("in", "tools"),
    component("memory", "memory_internal", control="in"),
    component("notebook", "notebook", control="in"),
)


async def test_memory_lasts_as_long_as_a_pipe_is_open() -> None:
    spec = pipeline(WEBHOOK, component("memory", "memory_internal", control="in"))
    async with running(spec) as client:
        one, two = await client.open(), await client.open()
        assert await client.tool("put", {"key": "k", "value": 1}, pipe=one) == {"ok": True, "key": "k", "scope": "object"}
        assert (await client.tool("get", {"key": "k"}, pipe=one))["value"] == 1
        assert (await client.tool("list", pipe=two))["keys"] == []
        assert (await client.tool("list"))["keys"] == []
        await client.close(one)
        three = await client.open()
        assert (await client.tool("list", pipe=three))["keys"] == []


async def test_memory_without_a_pipe_lasts_as_long_as_the_call_with_the_tools_that_it_calls() -> None:
    async with running(REMEMBERING, nodes=[Notebook]) as client:
        for key in ("a", "b"):
            assert await client.tool("note", {"key": key}) == ["call", [key]]
        assert (await client.tool("list"))["keys"] == []
        results = await asyncio.gather(*(client.tool("note", {"key": str(n)}) for n in range(20)))
    assert results == [["call", [str(n)]] for n in range(20)]


async def test_memory_loses_nothing_when_calls_on_one_pipe_overlap() -> None:
    spec = pipeline(WEBHOOK, component("memory", "memory_internal", control="in"))
    async with running(spec) as client:
        pipe = await client.open()
        await asyncio.gather(*(client.tool("put", {"key": str(n), "value": n}, pipe=pipe) for n in range(50)))
        assert len((await client.tool("list", pipe=pipe))["keys"]) == 50


async def changing(client: Running, tool: str) -> RrextError:
    with pytest.raises(Unavailable) as caught:
        await client.tool(tool, {"path": "f", "content": "x"} if tool == "write_file" else {"path": "f"})
    return caught.value


async def test_the_file_tools_that_are_switched_off_are_hidden_and_name_their_switch(tmp_path: Path) -> None:
    switches = {"write_file": "allow_write", "delete_file": "allow_delete", "create_directory": "allow_create_directory"}
    spec = pipeline(WEBHOOK, component("files", "tool_filesystem", control="in"))
    async with running(spec, folder=str(tmp_path)) as client:
        assert await client.tools() == ["read_file", "list_directory", "stat_file"]
        for tool, switch in switches.items():
            assert switch in str((await changing(client, tool)).hint)
    spec = pipeline(WEBHOOK, component("files", "tool_filesystem", control="in", **dict.fromkeys(switches.values(), True)))
    async with running(spec, folder=str(tmp_path)) as client:
        assert await client.tools() == ["read_file", "list_directory", "stat_file", *switches]
        assert await client.tool("write_file", {"path": "f", "content": "x"}) == {"path": "f", "bytesWritten": 1}
    assert (tmp_path / "f").read_text() == "x"


async def test_relative_roots_begin_at_the_folder_of_the_file_and_with_root_nothing_is_outside_of_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "f").write_text("inside")
    (tmp_path / "f").write_text("outside")

    async def read(setting: str, root: Path | None) -> str:
        spec = pipeline(WEBHOOK, component("files", "tool_filesystem", control="in", root=setting))
        async with running(spec, folder=str(tmp_path), root=None if root is None else str(root)) as client:
            return (await client.tool("read_file", {"path": "f"}))["content"]

    assert await read("inner", None) == "inside"
    assert await read(str(inner), None) == "inside"
    assert await read(".", inner) == "inside"
    assert await read(str(inner), inner) == "inside"
    for setting in ("..", str(tmp_path), "/"):
        with pytest.raises(Unavailable):
            await read(setting, inner)


async def test_a_file_tool_says_where_its_input_is_wrong(tmp_path: Path) -> None:
    async with running(pipeline(WEBHOOK, component("files", "tool_filesystem", control="in")), folder=str(tmp_path)) as client:
        with pytest.raises(InvalidArguments) as caught:
            await client.tool("read_file", {"path": "f", "encoding": "rot13"})
    assert caught.value.data["errors"][0]["path"] == "/input/encoding"


async def test_a_scripted_model_answers_as_a_tool_too() -> None:
    llm = component("llm", "llm_scripted", script=[{"match": "list", "answer": [1, 2]}], default="?")
    async with running(pipeline(WEBHOOK, {**llm, "control": [{"classType": "llm", "from": "in"}]})) as client:
        assert await client.tool("ask", {"question": "list", "expectJson": True}) == {"answer": [1, 2], "expectJson": True}
        assert (await client.tool("ask", {"question": "list"}))["answer"] == "[1,2]"
