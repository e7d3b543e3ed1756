"""How much runs at once: true limits, nested calls that never wait for themselves, a loop that nothing holds up."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from face import SHARED, WIRES, Face, Line, Way, parked
from houses import LocalHouse, open_house
from more_pipelines import WEBHOOK, narrow

from rrext.errors import Cancelled, InvalidPipeline, ToolError, TooManyRequests


async def status(face: Face, token: str = "narrow") -> dict[str, Any]:
    return await face.request("rrext_get_task_status", {"token": token})


async def noted(line: Line, key: str, *entries: str) -> None:
    """Return when the journal of that key has exactly these entries."""
    with anyio.fail_after(10):
        while await line.result("journal", {"key": key}, token="face") != list(entries):
            await anyio.lowlevel.checkpoint()


@pytest.mark.promise("pool:limit:true")
@pytest.mark.parametrize("tool", ["crowd", "crowd_in_threads"])
async def test_as_many_calls_run_as_there_are_places_and_never_more(tool: str, face: Face, key: str) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 3})
    peaks: list[int] = []

    async def call() -> None:
        peaks.append(await face.tool(tool, {"key": key, "size": 3}, token="narrow"))

    async with anyio.create_task_group() as tasks:
        for _ in range(30):
            tasks.start_soon(call)
    assert len(peaks) == 30
    assert max(peaks) == 3


@pytest.mark.promise("pool:limit:true")
async def test_open_pipes_and_calls_without_one_share_the_limit(face: Face, key: str) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 2})
    first, _second = await face.open(token="narrow"), await face.open(token="narrow")
    done: list[str] = []

    async def call() -> None:
        await face.tool("note", {"key": key}, token="narrow")
        done.append("called")

    async def open_third() -> None:
        await face.open(token="narrow")
        done.append("opened")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        while (await status(face))["threads"]["waiting"] < 1:
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(open_third)
        while (await status(face))["threads"]["waiting"] < 2:
            await anyio.lowlevel.checkpoint()
        assert done == []
        assert await face.tool("journal", {"key": key}, token="face") == []
        assert await face.tool("nothing", pipe_id=first, token="narrow") is None  # an open pipe has its place already
        await face.close(first)
    assert done == ["called", "opened"]
    assert (await status(face))["threads"] == {"limit": 2, "used": 2, "waiting": 0}


@pytest.mark.promise("pool:limit:true")
async def test_sync_calls_have_a_limit_of_their_own(face: Face, key: str) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 2})
    pipe_id = await face.open(token="narrow")
    peaks: list[int] = []

    async def call() -> None:
        peaks.append(await face.tool("crowd_in_threads", {"key": key, "size": 2}, pipe_id=pipe_id, token="narrow"))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(call)
    assert len(peaks) == 10
    assert max(peaks) == 2


@pytest.mark.promise("pool:limit:true")
async def test_a_leftover_thread_holds_both_places_until_it_returns(line: Line, key: str) -> None:
    await line.answer(await line.send("execute", {"pipeline": narrow(), "token": "narrow", "threads": 2}))
    left = [await line.call("deaf", {"key": key}, token="narrow") for _ in range(2)]
    await noted(line, key, "in", "in")
    for number in left:
        await line.cancel(number)
        assert isinstance((await line.answer(number)).error, Cancelled)
    state = (await line.answer(await line.send("rrext_get_task_status", {"token": "narrow"}))).body
    assert (state["threads"]["used"], state["syncCalls"]["used"]) == (2, 2)
    waits = [await line.call(tool, {"key": f"{key} ran"}, token="narrow") for tool in ("note", "note_async")]
    assert await line.result("journal", {"key": f"{key} ran"}, token="face") == []
    assert [line.answers(number) for number in waits] == [[], []]
    await line.result("open_gate", {"key": key}, token="face")
    assert [(await line.answer(number)).error for number in waits] == [None, None]
    assert [len(line.answers(number)) for number in left] == [1, 1]


@pytest.mark.promise("pool:limit:true")
async def test_a_storm_of_cancels_never_passes_the_limit_and_loses_no_place(face: Face, key: str) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 3})

    async def cancelled_call(turns: int) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_after, scope, turns)
                await face.tool("deaf" if turns % 2 else "wait", {"key": key}, token="narrow")

    async with anyio.create_task_group() as tasks:
        for turns in range(60):
            tasks.start_soon(cancelled_call, turns)
    state = await status(face)
    assert state["threads"]["used"] <= 3
    assert state["syncCalls"]["used"] <= 3
    await face.tool("open_gate", {"key": key}, token="face")
    with anyio.fail_after(10):
        while (state := await status(face))["threads"]["used"] or state["syncCalls"]["used"]:
            await anyio.lowlevel.checkpoint()
    assert (state["threads"]["waiting"], state["syncCalls"]["waiting"]) == (0, 0)
    journal = await face.tool("journal", {"key": key}, token="face")
    assert journal.count("in") == journal.count("out")


async def cancel_after(scope: anyio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


@pytest.mark.parametrize("way", [way for way in WIRES if way in SHARED], ids=str)
async def test_a_connection_with_too_much_in_flight_is_told_so_and_can_still_do_all_else(way: Way, key: str) -> None:
    async with open_house(way, max_inflight=20) as house, house.line() as line:
        numbers = [await line.call("wait", {"key": key}) for _ in range(20)]
        error = (await line.answer(await line.call("nothing"))).error
        assert isinstance(error, TooManyRequests)
        assert error.data == {"limit": "max_inflight", "maximum": 20}
        opening = await line.send("rrext_process", {"subcommand": "open"})
        assert (await line.answer(await line.send("rrext_ping"))).body == {"pong": True}
        assert (await line.answer(await line.send("tools"))).body["tools"]
        await line.cancel(numbers[0])
        await line.result("open_gate", {"key": key})
        assert (await line.answer(opening)).body["pipe_id"]
        answers = [await line.answer(number) for number in numbers]
        assert [answer.error is None for answer in answers] == [False] + [True] * 19


# nested calls


@pytest.mark.promise("call:nested:no-deadlock")
@pytest.mark.parametrize("outer", ["ask", "ask_async", "ask_same"])
async def test_nested_calls_of_all_kinds_finish_with_one_thread(outer: str, house: LocalHouse) -> None:
    innermost: dict[str, dict[str, Any]] = {
        "add": {"a": 1},
        "add_async": {"a": 1},
        "thread_same": {},
        "thread_main": {},
        "count": {"to": 2},
        "count_async": {"to": 2},
    }
    async with house.connect() as face:
        await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 1})
        for middle in ("ask", "ask_async", "ask_same"):
            for inner, given in innermost.items():
                nested = {"node": "", "tool": middle, "input": {"node": "", "tool": inner, "input": given}}
                expected = await face.tool(inner, given, token="narrow")
                with anyio.fail_after(20):
                    assert await face.tool(outer, nested, token="narrow") == expected


@pytest.mark.promise("call:nested:no-deadlock")
async def test_many_nested_calls_at_a_time_finish_with_one_thread(face: Face) -> None:
    await face.request("execute", {"pipeline": narrow(), "token": "narrow", "threads": 1})
    results: list[Any] = []

    async def call(number: int) -> None:
        tool = ("ask", "ask_async", "ask_same")[number % 3]
        nested = {
            "node": "nest_1",
            "tool": ("ask_same", "ask")[number % 2],
            "input": {"node": "", "tool": "add", "input": {"a": number}},
        }
        results.append((await face.tool(tool, nested, token="narrow"))["sum"])

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(24):
                tasks.start_soon(call, number)
    assert sorted(results) == list(range(1, 25))
    assert await face.tool("ask_many", {"number": 50}, token="narrow") == list(range(1, 51))


@pytest.mark.promise("call:nested:no-deadlock")
async def test_nesting_has_an_end_that_names_the_chain(face: Face) -> None:
    assert await face.tool("sink", {"depth": 8}) == 7
    error = await face.tool_failure("sink", {"depth": 9})
    assert isinstance(error, ToolError)
    assert "call_depth" in error.message
    assert "nest_1.sink → nest_1.sink_async" in error.message
    assert await face.tool("sink", {"depth": 8}) == 7


@pytest.mark.promise("call:nested:no-deadlock")
async def test_a_nested_call_has_the_context_and_the_pipe_of_its_caller(face: Face) -> None:
    pipe_id = await face.open(context={"userId": "ada"})
    seen = await face.tool("who_nested", pipe_id=pipe_id, meta={"trace": 1})
    assert (seen["user"], seen["pipe"], seen["node"], seen["meta"]) == ("ada", pipe_id, "probe_1", {"trace": 1})
    await face.close(pipe_id)


@pytest.mark.promise("call:nested:no-deadlock")
@pytest.mark.parametrize("outer", ["ask", "ask_async", "ask_same"])
@pytest.mark.parametrize(("inner", "end"), [("wait", "unwound"), ("park", "cancelled")])
async def test_a_cancel_reaches_the_innermost_tool(outer: str, inner: str, end: str, house: LocalHouse, key: str) -> None:
    async with house.line() as line:
        number = await line.call(outer, {"node": "", "tool": inner, "input": {"key": key}})
        await noted(line, f"{key} began", inner)
        await line.cancel(number)
        assert isinstance((await line.answer(number)).error, Cancelled)
        await noted(line, key, end)
        assert await line.result("add", {"a": 1}) == {"sum": 2}


@pytest.mark.promise("call:nested:no-deadlock")
async def test_circles_of_control_are_refused_when_the_pipeline_is_loaded(face: Face) -> None:
    pipeline = {
        "components": [
            WEBHOOK,
            {"id": "a", "provider": "nest", "config": {}, "control": [{"classType": "tool", "from": "b"}]},
            {"id": "b", "provider": "nest", "config": {}, "control": [{"classType": "tool", "from": "a"}]},
        ],
        "source": "webhook_1",
    }
    error = await face.failure("execute", {"pipeline": pipeline})
    assert isinstance(error, InvalidPipeline)
    (circle,) = [problem for problem in error.data["problems"] if problem["code"] == "control_cycle"]
    assert "a" in circle["message"]
    assert "b" in circle["message"]


# the loop


@pytest.mark.promise("tool:sync:loop-free")
async def test_parked_sync_tools_delay_nobody(face: Face, key: str) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(face.tool, "deaf", {"key": key})
        await face.noted(key, *["in"] * 20)
        with anyio.fail_after(10):
            assert await face.tool("add", {"a": 1}) == {"sum": 2}
            assert await face.tool("add_async", {"a": 1}) == {"sum": 2}
            assert "add" in await face.names()
            assert (await face.send("text", mimeType="text/plain"))["reply"] == ["TEXT\n\n"]
        await face.tool("open_gate", {"key": key})


@pytest.mark.promise("tool:sync:loop-free")
async def test_a_tool_that_was_always_quick_delays_nobody_when_it_is_not(face: Face, key: str) -> None:
    for _ in range(200):
        await face.tool("moody", {"key": key})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(face.tool, "moody", {"key": key, "wait": True})
        await face.noted(key, "in")
        with anyio.fail_after(10):
            for number in range(20):
                assert await face.tool("add", {"a": number}) == {"sum": number + 1}
        await face.tool("open_gate", {"key": key})


@pytest.mark.promise("tool:sync:loop-free")
async def test_a_write_that_waits_delays_nobody_even_after_many_quick_ones(face: Face, key: str) -> None:
    pipe_id = await face.open(mimeType="text/plain")
    for _ in range(100):
        await face.write(pipe_id, b"quick")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(face.write, pipe_id, b"park:" + key.encode())
        await face.noted(key, "in")
        assert await face.tool("add", {"a": 1}) == {"sum": 2}
        await face.tool("open_gate", {"key": key})
    assert len((await face.close(pipe_id))["reply"]) == 1


@pytest.mark.promise("tool:sync:loop-free")
async def test_who_wants_a_thread_of_its_own_has_it_and_holds_up_none_but_its_kind(face: Face, key: str) -> None:
    assert len({await face.tool("thread_same") for _ in range(5)}) == 1
    assert await face.tool("thread_main") is True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(face.tool, "park_same", {"key": key})
        await face.noted(key, "in")
        assert await face.tool("add", {"a": 1}) == {"sum": 2}
        await face.tool("open_gate", {"key": key})


async def test_a_call_that_is_parked_is_seen_in_the_status(face: Face, key: str) -> None:
    async with parked(face, "park", key):
        state = await status(face, "face")
        assert (state["threads"]["used"], state["syncCalls"]["used"]) == (1, 1)
    state = await status(face, "face")
    assert (state["threads"]["used"], state["syncCalls"]["used"]) == (0, 0)
