"""A call that nobody waits for any more ends, never harms the next one, and if it had not begun, never runs."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from face import WIRES, Face, Line, Way, parked
from houses import LocalHouse, open_house
from more_pipelines import narrow

from rrext.errors import Cancelled, RrextError, ToolTimeout

both_kinds = pytest.mark.parametrize(("tool", "wait_end"), [("wait", "unwound"), ("park", "{}")], ids=["async", "sync"])


@pytest.mark.promise("cancel:reaches:both-kinds")
@both_kinds
async def test_a_caller_that_goes_away_cancels_its_tool(tool: str, wait_end: str, face: Face, key: str) -> None:
    async with parked(face, tool, key) as scope:
        scope.cancel()
        await face.noted(key, wait_end.format("cancelled"))


@pytest.mark.promise("cancel:reaches:both-kinds")
@both_kinds
async def test_a_deadline_reaches_the_tool_and_names_tool_and_seconds(tool: str, wait_end: str, face: Face, key: str) -> None:
    for seconds in (0.05, 1, 20):  # until the tool was reached, which on a busy machine takes a while
        error = await face.tool_failure(tool, {"key": key}, timeout=seconds)
        assert isinstance(error, ToolTimeout)
        assert error.message == f'Tool "{tool}" did not finish within {seconds:g} s'
        if await face.tool("journal", {"key": f"{key} began"}):
            break
    await face.noted(key, wait_end.format("timeout"))


@pytest.mark.promise("cancel:reaches:both-kinds")
@both_kinds
@pytest.mark.parametrize("way", WIRES, ids=str)
async def test_a_client_that_waits_no_longer_sends_a_cancel(way: Way, tool: str, wait_end: str, key: str) -> None:
    async with open_house(way) as house, house.connect() as face:
        call = {"subcommand": "tool", "tool": tool, "input": {"key": key}}  # the server is told of no deadline
        for seconds in (0.05, 1, 20):  # until the tool was reached, which on a busy machine takes a while
            with pytest.raises(ToolTimeout):
                await face.client.request("rrext_process", call, timeout=seconds)
            if await face.tool("journal", {"key": f"{key} began"}):
                break
        await face.noted(key, wait_end.format("cancelled"))


@pytest.mark.promise("cancel:reaches:both-kinds")
@both_kinds
async def test_the_deadline_is_kept_by_the_engines_clock(tool: str, wait_end: str, house: LocalHouse, key: str) -> None:
    async with house.connect() as face:
        error = await face.tool_failure(tool, {"key": key}, timeout=60, progress=lambda *_: house.clock.advance(61))
        assert isinstance(error, ToolTimeout)
        await face.noted(key, wait_end.format("timeout"))


@pytest.mark.promise("cancel:reaches:both-kinds")
async def test_the_shorter_of_two_deadlines_wins(house: LocalHouse, key: str) -> None:
    async with house.connect() as face:
        errors: list[RrextError] = []

        async def call(timeout: float | None) -> None:
            errors.append(await face.tool_failure("short_tempered", {"key": key}, timeout=timeout))

        for timeout, seconds in [(None, 30), (10, 10), (3000, 30)]:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, timeout)
                while not (await face.request("rrext_get_task_status"))["threads"]["used"]:
                    await anyio.lowlevel.checkpoint()
                house.clock.advance(seconds - 1)
                assert (await face.request("rrext_get_task_status"))["threads"]["used"] == 1
                house.clock.advance(1)
            assert f"within {seconds} s" in errors[-1].message


@pytest.mark.promise("cancel:reaches:both-kinds")
@both_kinds
async def test_a_caller_that_vanishes_cancels_its_tools(tool: str, wait_end: str, house: LocalHouse, key: str) -> None:
    async with house.connect() as witness, anyio.create_task_group() as tasks:

        async def call() -> None:
            async with house.connect() as face:
                await face.tool_failure(tool, {"key": key}, progress=lambda *_: tasks.start_soon(face.vanish))

        tasks.start_soon(call)
        await witness.noted(key, wait_end.format("disconnected"))


@pytest.mark.promise("cancel:next-call-unharmed")
async def test_two_hundred_cancelled_calls_harm_no_next_one(face: Face, key: str) -> None:
    tools: list[tuple[str, dict[str, Any]]] = [
        ("wait", {"key": key}),
        ("add", {"a": 1}),
        ("park", {"key": key}),
        ("add_async", {"a": 1}),
    ]
    for number in range(200):
        tool, input = tools[number % 4]
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_after, scope, number // 4)
                await face.tool(tool, input)
                tasks.cancel_scope.cancel()
        with anyio.fail_after(10):
            assert await face.tool("add", {"a": number}) == {"sum": number + 1}


async def cancel_after(scope: anyio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


@pytest.mark.promise("cancel:next-call-unharmed")
async def test_a_cancelled_open_either_succeeded_or_left_nothing_behind(line: Line, key: str) -> None:
    outcomes: set[str] = set()
    for number in range(60):
        opening = await line.send("rrext_process", {"subcommand": "open", "object": {"name": key}, "mimeType": "text/plain"})
        for _ in range(number % 20):
            await anyio.lowlevel.checkpoint()
        await line.cancel(opening)
        answer = await line.answer(opening)
        if answer.error is None:
            closed = await line.answer(await line.send("rrext_process", {"subcommand": "close", **answer.body}))
            assert closed.error is None
        outcomes.add("opened" if answer.error is None else answer.error.code)
    assert "cancelled" in outcomes
    await all_places_free(line)
    life = await line.result("journal", {"key": f"{key} life"})
    assert life.count("open") == life.count("close")


async def all_places_free(line: Line) -> None:
    """Return when no pipe is open or borrowed."""
    with anyio.fail_after(10):
        while True:
            status = await line.answer(await line.send("rrext_get_task_status", {"token": "face"}))
            if not status.body["threads"]["used"]:
                return


@pytest.mark.promise("cancel:queued:never-runs")
@pytest.mark.parametrize("holder", ["wait", "park"])
async def test_what_is_cancelled_in_the_line_never_runs_and_has_one_answer(holder: str, line: Line, key: str) -> None:
    await line.answer(await line.send("execute", {"pipeline": narrow(), "token": "narrow", "threads": 1}))
    held = await line.call(holder, {"key": key}, token="narrow", progress=True)
    await line.message(held, 0)
    queued = [await line.call(tool, {"key": f"{key} ran"}, token="narrow") for tool in ("note", "note_async") * 5]
    queued += [
        await line.send("rrext_process", {"subcommand": "open", "object": {"name": key}, "token": "narrow"}) for _ in range(3)
    ]
    for number in queued:
        await line.cancel(number)
    for number in queued:
        assert isinstance((await line.answer(number)).error, Cancelled)
    await line.answer(await line.send("tools", {"token": "narrow"}))  # a process that can answer it has read the cancels
    assert line.answers(held) == []
    last = await line.call("note", {"key": f"{key} ran", "text": "last"}, token="narrow")
    await line.result("open_gate", {"key": key}, token="face")
    assert (await line.answer(held)).body == {"result": "passed"}
    assert (await line.answer(last)).error is None
    assert await line.result("journal", {"key": f"{key} ran"}, token="face") == ["last"]
    assert await line.result("journal", {"key": f"{key} life"}, token="face") == []
    assert [len(line.answers(number)) for number in (held, last, *queued)] == [1] * (2 + len(queued))


@pytest.mark.promise("cancel:queued:never-runs")
async def test_a_deadline_that_passes_in_the_line_has_no_effect_either(house: LocalHouse, key: str) -> None:
    async with house.line() as line:
        await line.answer(await line.send("execute", {"pipeline": narrow(), "token": "narrow", "threads": 1}))
        held = await line.call("park", {"key": key}, token="narrow", progress=True)
        await line.message(held, 0)
        queued = [await line.call(tool, {"key": f"{key} ran"}, token="narrow", timeout=9) for tool in ("note", "note_async")]
        await line.result("nothing", token="face")  # by then the server has read them all
        house.clock.advance(10)
        for number in queued:
            assert isinstance((await line.answer(number)).error, ToolTimeout)
        await line.result("open_gate", {"key": key}, token="face")
        await line.answer(held)
        await line.result("nothing", token="narrow")
        assert await line.result("journal", {"key": f"{key} ran"}, token="face") == []


async def test_the_cancel_of_a_write_fails_its_pipe_and_the_end_says_so(line: Line, key: str) -> None:
    opened = await line.answer(await line.send("rrext_process", {"subcommand": "open", "mimeType": "text/plain"}))
    pipe = {"pipe_id": opened.body["pipe_id"]}
    write = await line.send("rrext_process", {"subcommand": "write", "data": f"park:{key}", **pipe})
    while await line.result("journal", {"key": key}) != ["in"]:
        await anyio.lowlevel.checkpoint()
    await line.cancel(write)
    assert isinstance((await line.answer(write)).error, Cancelled)
    again = await line.answer(await line.send("rrext_process", {"subcommand": "write", "data": "more", **pipe}))
    assert again.error is not None
    assert again.error.code == "pipe_failed"
    body = (await line.answer(await line.send("rrext_process", {"subcommand": "close", **pipe}))).body
    assert body["error"]["code"] == "cancelled"
    await line.result("open_gate", {"key": key})
    await all_places_free(line)


async def test_a_cancel_that_comes_too_late_changes_nothing(line: Line) -> None:
    done = await line.call("add", {"a": 1})
    assert (await line.answer(done)).body == {"result": {"sum": 2}}
    await line.cancel(done)
    assert await line.result("add", {"a": 2}) == {"sum": 3}
    assert len(line.answers(done)) == 1
