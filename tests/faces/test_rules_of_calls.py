"""Rules of single commands: deadlines of everything that waits, who answers a broadcast, how much of an error is told."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from face import SHARED, Face, Line, Way
from houses import LocalHouse, open_house
from more_pipelines import WEBHOOK, narrow, with_tools

from rrext.errors import Cancelled, InvalidArguments, PipeFailed, PipeNotOpen, ToolTimeout, Unavailable

LAKE = {
    "components": [
        WEBHOOK,
        {"id": "lake_1", "provider": "lake", "config": {}, "input": [{"lane": "text", "from": "webhook_1"}]},
        {"id": "out_1", "provider": "response_text", "config": {}, "input": [{"lane": "text", "from": "lake_1"}]},
    ],
    "source": "webhook_1",
}
"""A pipeline that receives on the loop."""


async def noted(line: Line, key: str, *entries: str) -> None:
    """Return when the journal of that key has exactly these entries."""
    with anyio.fail_after(10):
        while await line.result("journal", {"key": key}, token="face") != list(entries):
            await anyio.lowlevel.checkpoint()


async def free(line: Line, token: str) -> None:
    """Return when no pipe of that pipeline is open or borrowed."""
    with anyio.fail_after(10):
        while (await line.answer(await line.send("rrext_get_task_status", {"token": token}))).body["threads"]["used"]:
            await anyio.lowlevel.checkpoint()


async def test_a_deadline_of_open_ends_its_wait_in_the_line_and_leaves_nothing(face: Face) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 1})
    first = await face.open(token="narrow")
    error = await face.failure("rrext_process", {"subcommand": "open", "token": "narrow", "timeout": 0.02})
    assert isinstance(error, ToolTimeout)
    assert "0.02 s" in error.message
    assert await face.close(first)
    second = await face.open(token="narrow", timeout=60)
    await face.close(second)


@pytest.mark.parametrize(("pipeline", "out"), [("face", "reply"), ("lake", "text")], ids=["thread", "loop"])
async def test_a_deadline_of_write_fails_its_pipe(pipeline: str, out: str, house: LocalHouse, key: str) -> None:
    async with house.line() as line:
        if pipeline == "lake":
            await line.answer(await line.send("execute", {"pipeline": LAKE, "token": "lake"}))
        opened = await line.answer(
            await line.send("rrext_process", {"subcommand": "open", "token": pipeline, "mimeType": "text/plain"})
        )
        write = {"subcommand": "write", **opened.body, "timeout": 10}
        assert (await line.answer(await line.send("rrext_process", {**write, "data": "one"}))).error is None
        late = await line.send("rrext_process", {**write, "data": f"park:{key}"})
        await noted(line, key, "in")
        house.clock.advance(11)
        assert isinstance((await line.answer(late)).error, ToolTimeout)
        assert isinstance((await line.answer(await line.send("rrext_process", {**write, "data": "two"}))).error, PipeFailed)
        closed = (await line.answer(await line.send("rrext_process", {"subcommand": "close", **opened.body}))).body
        assert closed["error"]["code"] == "tool_timeout"
        assert "one" in "".join(closed.get(out, ["one"])).lower()
        await line.result("open_gate", {"key": key}, token="face")
        await free(line, pipeline)


async def test_a_deadline_of_close_frees_the_pipe(house: LocalHouse, key: str) -> None:
    async with house.line() as line:
        opened = await line.answer(await line.send("rrext_process", {"subcommand": "open", "mimeType": "text/plain"}))
        write = await line.send("rrext_process", {"subcommand": "write", **opened.body, "data": f"park:{key}"})
        await noted(line, key, "in")
        close = await line.send("rrext_process", {"subcommand": "close", **opened.body, "timeout": 5})
        await line.result("nothing")
        house.clock.advance(6)
        assert isinstance((await line.answer(close)).error, ToolTimeout)
        again = await line.send("rrext_process", {"subcommand": "close", **opened.body})
        assert isinstance((await line.answer(again)).error, PipeNotOpen)
        await line.result("open_gate", {"key": key})
        await line.answer(write)
        await free(line, "face")


@pytest.mark.parametrize("subcommand", ["write", "close"])
async def test_a_cancel_of_what_waits_behind_another_on_its_pipe(subcommand: str, line: Line, key: str) -> None:
    opened = await line.answer(await line.send("rrext_process", {"subcommand": "open", "mimeType": "text/plain"}))
    first = await line.send("rrext_process", {"subcommand": "write", **opened.body, "data": f"park:{key}"})
    await noted(line, key, "in")
    second = await line.send(
        "rrext_process", {"subcommand": subcommand, **opened.body, **({"data": "x"} if subcommand == "write" else {})}
    )
    await line.cancel(second)
    assert isinstance((await line.answer(second)).error, Cancelled)
    assert line.answers(first) == []
    await line.result("open_gate", {"key": key})
    await line.answer(first)
    closed = await line.answer(await line.send("rrext_process", {"subcommand": "close", **opened.body}))
    if subcommand == "write":
        assert closed.body["error"]["code"] in ("cancelled", "pipe_failed")  # what was to be written is missing
    else:
        assert isinstance(closed.error, PipeNotOpen)
    await free(line, "face")


@pytest.mark.promise("call:own-fate")
async def test_what_waits_between_two_closes_that_are_cancelled_is_behind_the_first(line: Line, key: str) -> None:
    opened = await line.answer(await line.send("rrext_process", {"subcommand": "open", "mimeType": "text/plain"}))
    write, close = {"subcommand": "write", **opened.body, "data": "x"}, {"subcommand": "close", **opened.body}
    before = [
        await line.send("rrext_process", {**write, "data": f"park:{key}"}),
        await line.send("rrext_process", write),
    ]
    await noted(line, key, "in")
    first = await line.send("rrext_process", close)
    between = await line.send("rrext_process", write)
    second = await line.send("rrext_process", close)
    for number in (second, first):
        await line.cancel(number)
        assert isinstance((await line.answer(number)).error, Cancelled)
    await line.result("open_gate", {"key": key})
    assert [(await line.answer(number)).error for number in before] == [None, None]
    assert isinstance((await line.answer(between)).error, PipeNotOpen)
    await free(line, "face")


async def test_lanes_on_the_loop_work_as_those_in_threads(face: Face, key: str) -> None:
    await face.request("execute", {"pipeline": LAKE, "token": "lake"})
    body = await face.send("hello world", b"again", token="lake", mimeType="text/plain")
    assert "".join(body["text"]).split() == ["Hello", "World", "Again"]
    pipe_id = await face.open(token="lake", mimeType="text/plain")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(face.write, pipe_id, f"park:{key}")
        await face.noted(key, "in")
        await face.tool("open_gate", {"key": key}, token="face")
    assert (await face.close(pipe_id))["text"]


async def test_a_broadcast_is_answered_by_the_first_that_has_the_tool_and_has_it_available(face: Face) -> None:
    pipeline = with_tools(first="probe", second="probe", third="fate")
    await face.request("execute", {"pipeline": pipeline, "token": "two"})
    assert (await face.tool("who", token="two"))["node"] == "first"
    assert (await face.tool("who", token="two", node_id="second"))["node"] == "second"
    assert await face.tool("for_ada", token="two", context={"userId": "ada"}) == "hello ada"
    assert isinstance(await face.tool_failure("for_ada", token="two"), Unavailable)
    wrong = await face.tool_failure("add", {"a": "x"}, token="two")  # a real error of an owner ends the search
    assert isinstance(wrong, InvalidArguments)


async def test_a_node_that_cannot_run_here_lists_nothing_and_says_what_is_missing(face: Face) -> None:
    await face.request("execute", {"pipeline": with_tools(a="missing", b="doubt", c="probe"), "token": "some"})
    with anyio.fail_after(10):
        names = await face.names(token="some")
        assert "add" in names
        assert not names & {"oracle", "omen"}
        for node_id in ("", "a"):
            error = await face.tool_failure("oracle", token="some", node_id=node_id)
            assert isinstance(error, Unavailable)
            assert "pip install oracle" in error.message
        doubt = await face.tool_failure("omen", token="some")
    assert isinstance(doubt, Unavailable)
    assert "Mute" in doubt.message


async def test_many_problems_are_told_up_to_a_hundred_and_of_large_input_the_first(face: Face) -> None:
    error = await face.tool_failure("typed", {"name": "n", "tags": [7] * 500})
    assert isinstance(error, InvalidArguments)
    assert len(error.data["errors"]) == 100
    error = await face.tool_failure("typed", {"name": "n", "tags": [7] * 500, "count": "x" * 70_000})
    assert isinstance(error, InvalidArguments)
    assert len(error.data["errors"]) == 1
    assert len(error.message) < 1000


async def test_null_is_absence_and_what_is_unknown_is_ignored(line: Line) -> None:
    nulls = dict.fromkeys(("nodeId", "token", "pipe_id", "timeout", "progress", "stream", "context", "_meta"))
    assert await line.result("add", {"a": 1}, **nulls) == {"sum": 2}
    assert await line.result("add", {"a": 1}, newArgument={"from": "the future"}) == {"sum": 2}
    opened = await line.answer(await line.send("rrext_process", {"subcommand": "open", "object": None, "mimeType": None}))
    written = {"subcommand": "write", **opened.body, "data": "x", "data_base64": None}
    assert (await line.answer(await line.send("rrext_process", written))).body == {}


@pytest.mark.parametrize("way", [way for way in SHARED if way.kind != "engine"], ids=str)
@pytest.mark.parametrize("command", ["shutdown", "disconnect"])
async def test_the_end_of_one_connection_is_not_that_of_another(way: Way, command: str, key: str) -> None:
    async with open_house(way, drain=0.05) as house, house.connect() as other:
        pipe_id = await other.open(mimeType="text/plain")
        async with house.line() as line:
            waits = await line.call("wait", {"key": key}, progress=True)
            await line.message(waits, 0)
            end = await line.send(command)
            assert (await line.answer(end)).body == {}
            stopped: Any = (await line.answer(waits)).error
            assert stopped.code == "shutting_down"
            assert line.messages[-1].id == end  # type: ignore[union-attr]
        await other.noted(key, "unwound")
        await other.write(pipe_id, "still here")
        assert (await other.close(pipe_id))["reply"] == ["STILL HERE\n\n"]
