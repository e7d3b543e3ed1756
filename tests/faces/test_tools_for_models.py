"""Tools as models take them, through every face: formats, unique names, and calls by these names with `null` for absence."""

from __future__ import annotations

from typing import Any

import pytest
from face import Face
from more_pipelines import with_tools

from rrext.errors import InvalidArguments, ToolNotFound

PIPELINE = with_tools(probe_1="probe", probe_2="probe", nest_1="nest")


async def loaded(face: Face) -> Face:
    await face.request("execute", {"pipeline": PIPELINE, "token": "two"})
    return face


async def listed(face: Face, **arguments: Any) -> list[Any]:
    return (await face.request("tools", {"token": "two", **arguments}))["tools"]


@pytest.mark.promise("names:unique-and-exportable")
async def test_names_are_unique_in_the_pipeline_and_the_same_in_every_format(face: Face) -> None:
    await loaded(face)
    names = {
        "openai": [tool["function"]["name"] for tool in await listed(face, format="openai")],
        "openai-strict": [tool["function"]["name"] for tool in await listed(face, format="openai-strict")],
        "anthropic": [tool["name"] for tool in await listed(face, format="anthropic")],
        "mcp": [tool["name"] for tool in await listed(face, format="mcp")],
    }
    found = names.pop("mcp")
    assert len(set(found)) == len(found) == len(await listed(face))
    assert {"probe_1__add", "probe_2__add", "ask"} <= set(found)
    assert "add" not in found
    assert list(names.values()) == [found] * 3
    of_node = [tool["name"] for tool in await listed(face, format="mcp", nodeId="probe_2")]
    assert of_node == [name for name in found if name.startswith("probe_2__")]


@pytest.mark.promise("names:unique-and-exportable", "tool:null:absent")
async def test_a_call_accepts_the_exported_name_wherever_it_accepts_a_name(face: Face) -> None:
    await loaded(face)
    where = await face.tool("probe_2__who", token="two")
    assert where["node"] == "probe_2"
    assert (await face.tool("probe_1__who", token="two", node_id="probe_1"))["node"] == "probe_1"
    assert await face.tool("probe_2__add", {"a": 2, "b": None}, token="two") == {"sum": 3}
    asked = {"node": "", "tool": "probe_2__who", "input": None}
    assert (await face.tool("ask", asked, token="two"))["node"] == "probe_2"
    assert (await face.tool("ask_async", asked, token="two"))["node"] == "probe_2"
    pipe = await face.open(token="two", mimeType="lane/text")
    assert (await face.tool("probe_2__who", pipe_id=pipe, token="two"))["pipe"] == pipe
    await face.close(pipe)


async def test_near_matches_know_exported_names(face: Face) -> None:
    await loaded(face)
    error = await face.tool_failure("probe2__add", {"a": 1}, token="two")
    assert isinstance(error, ToolNotFound)
    assert "probe_2__add" in error.data["near"]
    error = await face.tool_failure("probe_2__add", {"a": 1}, token="two", node_id="probe_1")
    assert error.hint == 'Node "probe_2" has a tool of that name.'


async def test_an_unknown_format_is_refused_with_the_near_one(face: Face) -> None:
    error = await face.failure("tools", {"token": "face", "format": "opena"})
    assert isinstance(error, InvalidArguments)
    assert error.message == '/format: unknown format "opena"; did you mean "openai"?'
    assert error.hint == "one of openai, openai-strict, anthropic, mcp"
    error = await face.failure("tools", {"token": "face", "format": 3})
    assert error.data["errors"][0]["path"] == "/format"
