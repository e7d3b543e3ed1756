"""Progress and chunks come in order, before the answer, and never fill memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from face import SHARED, WIRES, Face, Line, Way
from houses import open_house
from wire_faces import WireLine

from rrext.errors import Cancelled
from rrext.wire.messages import Event, Response

slow_ways = pytest.mark.parametrize("slow_way", [way for way in WIRES if way in SHARED], ids=str)
OUTBOX = 20_000


@asynccontextmanager
async def stalled(way: Way) -> AsyncIterator[tuple[WireLine, Face]]:
    """A line whose client does not read yet, and a witness on a connection of his own."""
    async with open_house(way, outbox_bytes=OUTBOX) as house, house.line(reading=False) as line, house.connect() as witness:
        yield line, witness


async def end_of(line: Line, number: Any) -> Response:
    """The answer, when everything that could still come has come."""
    answer = await line.answer(number)
    await line.result("nothing")
    return answer


@pytest.mark.promise("progress:ordered:bounded")
@pytest.mark.parametrize("tool", ["report", "report_async"])
async def test_progress_only_rises_and_all_of_it_comes_before_the_answer(tool: str, line: Line) -> None:
    number = await line.call(tool, {"to": 300}, progress=True)
    await end_of(line, number)
    *events, answer = line.of(number)
    assert isinstance(answer, Response)
    assert answer.body == {"result": "done"}
    values = [event.body["progress"] for event in events if isinstance(event, Event)]
    assert len(values) == len(events)
    assert values == sorted(set(values))
    assert values[-1] == 300
    assert {event["total"] for event in line.events(number)} == {300}


@pytest.mark.promise("progress:ordered:bounded")
async def test_no_progress_comes_after_the_answer_or_unasked(line: Line, key: str) -> None:
    number = await line.call("report_late", {"key": key}, progress=True)
    unasked = await line.call("report", {"to": 10})
    await end_of(line, number)
    await line.result("open_gate", {"key": key})
    while await line.result("journal", {"key": key}) != ["reported"]:
        await anyio.lowlevel.checkpoint()
    await end_of(line, unasked)
    assert [event["progress"] for event in line.events(number)] == [1]
    assert isinstance(line.of(number)[-1], Response)
    assert line.events(unasked) == []


@pytest.mark.promise("progress:ordered:bounded")
async def test_nothing_comes_after_a_cancel_was_answered(line: Line, key: str) -> None:
    number = await line.call("report_async", {"to": 10**9}, progress=True)
    await line.message(number, 5)
    await line.cancel(number)
    assert isinstance((await end_of(line, number)).error, Cancelled)
    assert isinstance(line.of(number)[-1], Response)


@slow_ways
@pytest.mark.promise("progress:ordered:bounded")
async def test_a_reader_that_stalls_gets_little_of_much_progress_but_the_last_of_it(slow_way: Way, key: str) -> None:
    async with stalled(slow_way) as (line, witness), anyio.create_task_group() as tasks:
        number = await line.call("report", {"to": 50_000, "key": key}, progress=True)
        await witness.noted(key, "reported")
        tasks.start_soon(line.read)
        answer = await line.answer(number)
        assert answer.body == {"result": "done"}
        values = [event["progress"] for event in line.events(number)]
        assert values == sorted(set(values))
        assert values[-1] == 50_000
        assert len(values) < 3000  # what fits into two pipes' buffers and the outbox
        assert line.of(number)[-1] is answer
        tasks.cancel_scope.cancel()


@slow_ways
@pytest.mark.promise("progress:ordered:bounded")
@pytest.mark.parametrize("tool", ["slabs", "slabs_async"])
async def test_a_producer_of_chunks_waits_for_a_reader_that_stalls_and_loses_none(tool: str, slow_way: Way, key: str) -> None:
    async with stalled(slow_way) as (line, witness), anyio.create_task_group() as tasks:
        number = await line.call(tool, {"number": 400, "size": 10_000, "key": key}, stream=True)
        while len(await witness.tool("journal", {"key": key})) < 5:
            await anyio.lowlevel.checkpoint()
        for _ in range(100):
            await witness.tool("nothing")
        made = len(await witness.tool("journal", {"key": key}))
        assert made < 100
        tasks.start_soon(line.read)
        await line.answer(number)
        assert [event["index"] for event in line.events(number)] == list(range(400))
        tasks.cancel_scope.cancel()


@slow_ways
@pytest.mark.parametrize("tool", ["slabs", "slabs_async"])
async def test_a_producer_that_waits_ends_with_its_client(tool: str, slow_way: Way, key: str) -> None:
    async with open_house(slow_way, outbox_bytes=OUTBOX) as house, house.connect() as witness:
        async with house.line(reading=False) as line:
            await line.call(tool, {"number": 10**6, "size": 10_000, "key": key}, stream=True)
            while len(await witness.tool("journal", {"key": key})) < 5:
                await anyio.lowlevel.checkpoint()
            await line.vanish()
        with anyio.fail_after(10):
            while (await witness.request("rrext_get_task_status"))["threads"]["used"]:
                await anyio.lowlevel.checkpoint()


@slow_ways
async def test_while_a_reader_stalls_no_new_call_starts_and_a_cancelled_one_never_does(slow_way: Way, key: str) -> None:
    async with stalled(slow_way) as (line, witness), anyio.create_task_group() as tasks:
        blocker = await line.call("slabs_async", {"number": 400, "size": 10_000, "key": f"{key} made"}, stream=True)
        while len(await witness.tool("journal", {"key": f"{key} made"})) < 5:
            await anyio.lowlevel.checkpoint()
        await line.cancel(blocker)
        held = [await line.call("note", {"key": key, "text": str(number)}) for number in range(4)]
        await line.cancel(held[1])
        for _ in range(100):
            await witness.tool("nothing")
        assert await witness.tool("journal", {"key": key}) == []
        tasks.start_soon(line.read)
        answers = [await line.answer(number) for number in held]
        assert [answer.error is None for answer in answers] == [True, False, True, True]
        assert isinstance((await line.answer(blocker)).error, Cancelled)
        assert sorted(await witness.tool("journal", {"key": key})) == ["0", "2", "3"]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("tool", "streamed", "collected"),
    [("count", None, [0, 1, 2]), ("count_async", None, [0, 1, 2]), ("count_and_sum", 3, {"chunks": [0, 1, 2], "value": 3})],
)
async def test_chunks_are_streamed_if_asked_for_and_else_collected(
    tool: str, streamed: Any, collected: Any, face: Face
) -> None:
    chunks: list[Any] = []
    assert await face.tool(tool, {"to": 3}, on_chunk=chunks.append) == streamed
    assert chunks == [0, 1, 2]
    assert await face.tool(tool, {"to": 3}) == collected


async def test_the_chunks_of_a_call_come_in_order_with_their_index_before_the_answer(line: Line) -> None:
    numbers = [await line.call("count", {"to": 500}, stream=True) for _ in range(5)]
    for number in numbers:
        await line.answer(number)
        *events, answer = line.of(number)
        assert isinstance(answer, Response)
        assert [(event.body["index"], event.body["chunk"]) for event in events] == [(n, n) for n in range(500)]


async def test_a_failure_after_chunks_comes_after_them(face: Face) -> None:
    chunks: list[Any] = []
    error = await face.tool_failure("count_and_fail", {"to": 3}, on_chunk=chunks.append)
    assert (error.code, chunks) == ("no_more", [0, 1, 2])


async def test_stream_and_progress_of_a_tool_that_has_neither_change_nothing(face: Face) -> None:
    chunks: list[Any] = []
    assert await face.tool("add", {"a": 1}, on_chunk=chunks.append, progress=lambda *_: chunks.append("p")) == {"sum": 2}
    assert chunks == []
