"""Progress, chunks and events: what the server tells while calls run, and unasked."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from scripted_peer import EchoPipes, connected, settle, until

from rrext.client.updates import EventStream, Updates
from rrext.errors import LimitExceeded, ServerExited, ToolError, Unavailable

pytestmark = pytest.mark.anyio


@pytest.mark.promise("progress:ordered:bounded")
async def test_progress_comes_before_the_result_and_only_if_asked_for(dialect: Any) -> None:
    seen: list[Any] = []
    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            seen.append(await client.tool(tool="t", progress=lambda *report: seen.append(report)))
            await client.tool(tool="t")

        tasks.start_soon(call)
        request = await peer.take("tool")
        assert request.arguments["progress"] is True
        await peer.progress(request, 1, total=3)
        await settle()
        await peer.progress(request, 2, total=3, message="half")
        await peer.answer(request, {"result": "done"})
        second = await peer.take("tool")
        assert "progress" not in second.arguments
        await peer.progress(second, 1)
        await peer.answer(second, {"result": None})
    assert seen == [(1, 3, None), (2, 3, "half"), "done"]


@pytest.mark.promise("progress:ordered:bounded")
async def test_of_ten_thousand_reports_a_slow_callback_sees_the_last() -> None:
    seen: list[float] = []
    gate = anyio.Event()

    async def slow(value: float, total: float | None, message: str | None) -> None:
        seen.append(value)
        await gate.wait()

    async with connected() as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            await client.tool(tool="t", progress=slow)

        tasks.start_soon(call)
        request = await peer.take("tool")
        await peer.progress(request, 0)
        await until(lambda: seen)
        for value in range(1, 10_000):
            await peer.progress(request, value)
        await peer.answer(request, {"result": 1})
        await settle()
        gate.set()
    assert seen == [0, 9_999]


async def test_what_a_callback_raises_ends_its_call_alone(dialect: Any) -> None:
    def refuse(*_: Any) -> None:
        raise KeyError("mine")

    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(KeyError, match="mine"):
                await client.tool(tool="t", progress=refuse)

        async def other() -> None:
            assert await client.tool(tool="other") == 2

        tasks.start_soon(call)
        request = await peer.take("tool")
        tasks.start_soon(other)
        second = await peer.take("tool")
        await peer.progress(request, 1)
        assert (await peer.take("cancel")).arguments == {"requestId": request.id}
        await peer.progress(request, 2)  # too late, and dropped
        await peer.answer(second, {"result": 2})


async def test_chunks_arrive_in_order_and_all_before_the_result(dialect: Any) -> None:
    seen: list[Any] = []

    async def take(chunk: Any) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(chunk)

    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            seen.append(await client.tool(tool="t", on_chunk=take))

        tasks.start_soon(call)
        request = await peer.take("tool")
        assert request.arguments["stream"] is True
        for index in range(100):
            await peer.chunk(request, index, {"i": index})
        await peer.event("rrext_chunk", {"request": request.id, "index": 100}, tail=b"\x00raw")
        await peer.answer(request, {"result": "end"})
    assert seen == [*({"i": index} for index in range(100)), b"\x00raw", "end"]


async def test_chunks_before_a_failure_are_delivered_too() -> None:
    seen: list[Any] = []
    async with connected() as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(ToolError, match="broke"):
                await client.tool(tool="t", on_chunk=seen.append)

        tasks.start_soon(call)
        request = await peer.take("tool")
        await peer.chunk(request, 0, "a")
        await peer.fail(request, ToolError("broke"))
    assert seen == ["a"]


MIB = 1024 * 1024


async def test_a_slow_consumer_stops_the_reading_of_a_connection_that_is_all_its_own() -> None:
    """The stream is the only call: the server is slowed down, and memory stays flat."""
    gate = anyio.Event()
    taken = 0

    async def slow(chunk: str) -> None:
        nonlocal taken
        await gate.wait()
        taken += 1

    async with connected() as (client, peer), anyio.create_task_group() as tasks:
        sent = 0

        async def call() -> None:
            await client.tool(tool="t", on_chunk=slow)

        async def produce() -> None:
            nonlocal sent
            for index in range(30):
                await peer.chunk(request, index, "x" * MIB)
                sent += 1
            await peer.answer(request, {"result": None})

        tasks.start_soon(call)
        request = await peer.take("tool")
        tasks.start_soon(produce)
        await settle(3_000)
        assert 8 <= sent <= 11  # the backlog, and what is on its way
        gate.set()
    assert taken == 30


async def test_a_new_call_is_answered_though_reading_had_stopped() -> None:
    gate = anyio.Event()
    taken = 0

    async def slow(chunk: str) -> None:
        nonlocal taken
        await gate.wait()
        taken += 1

    async with connected() as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            await client.tool(tool="t", on_chunk=slow)

        async def produce() -> None:
            for index in range(20):
                await peer.chunk(request, index, "x" * MIB)
            await peer.answer(request, {"result": None})

        tasks.start_soon(call)
        request = await peer.take("tool")
        tasks.start_soon(produce)
        await settle(3_000)  # reading stops
        async with anyio.create_task_group() as others:

            async def other() -> None:
                assert await client.tool(tool="other") == 2

            others.start_soon(other)
            await peer.answer(await peer.take("tool"), {"result": 2})
        assert taken == 0
        gate.set()
    assert taken == 20


async def test_a_slow_consumer_does_not_stop_the_calls_of_others() -> None:
    async with connected() as (client, peer), anyio.create_task_group() as tasks:
        results: list[Any] = []

        async def slow(chunk: str) -> None:
            if not results:
                results.append(await client.tool(tool="inner"))  # from inside of the callback, of all places

        async def call() -> None:
            await client.tool(tool="t", on_chunk=slow)

        async def produce() -> None:
            for index in range(20):
                await peer.chunk(request, index, "x" * MIB)
            await peer.answer(inner, {"result": "inner"})
            await peer.answer(request, {"result": None})

        tasks.start_soon(call)
        request = await peer.take("tool")
        await peer.chunk(request, 0, "first")
        inner = await peer.take("tool")
        tasks.start_soon(produce)
    assert results == ["inner"]


async def test_a_consumer_that_never_catches_up_loses_its_call_and_no_other() -> None:
    async with connected() as (client, peer), anyio.create_task_group() as tasks:
        gate = anyio.Event()

        async def too_slow(chunk: str) -> None:
            await gate.wait()

        async def call() -> None:
            with pytest.raises(LimitExceeded, match="a callback is too slow"):
                await client.tool(tool="t", on_chunk=too_slow)

        async def other() -> None:
            assert await client.tool(tool="other") == 2

        tasks.start_soon(call)
        request = await peer.take("tool")
        tasks.start_soon(other)
        second = await peer.take("tool")
        for index in range(70):
            await peer.chunk(request, index, "x" * MIB)
        assert (await peer.take("cancel")).arguments == {"requestId": request.id}
        await peer.answer(second, {"result": 2})
        gate.set()


def test_updates_count_what_waits() -> None:
    drained: list[int] = []
    updates = Updates(None, lambda chunk: None, lambda: drained.append(1))
    updates.add_chunk({"chunk": 1}, 9 * MIB)
    assert updates.behind
    assert not updates.hopeless
    updates.add_chunk({"chunk": 1}, 60 * MIB)
    assert updates.hopeless
    updates.discard()
    assert not updates.pending
    assert drained == [1]


async def test_events_are_read_in_order(dialect: Any) -> None:
    async with connected(EchoPipes(), dialect=dialect) as (client, peer):
        stream = client.events()
        await peer.event("tools_changed", {"token": "T"})
        await peer.event("apaevt_task", {"action": "begin"})
        await peer.event("rrext_progress", {"request": 99, "progress": 1})  # nobody's, and no event to read
        assert (await anext(stream)).name == "tools_changed"
        event = await anext(stream)
        assert (event.name, event.body, event.missed) == ("apaevt_task", {"action": "begin"}, 0)


async def test_a_slow_reader_of_events_is_told_what_it_missed() -> None:
    async with connected(EchoPipes()) as (client, peer):
        stream = client.events(size=3)
        for number in range(10):
            await peer.event("tick", {"n": number})
        await client.ping()
        assert [(event.body["n"], event.missed) for event in [await anext(stream) for _ in range(3)]] == [
            (7, 7),
            (8, 0),
            (9, 0),
        ]
        assert stream.dropped == 7


async def test_events_end_with_the_client() -> None:
    names: list[str] = []
    async with connected(EchoPipes()) as (client, peer), anyio.create_task_group() as tasks:

        async def read() -> None:
            async for event in client.events():
                names.append(event.name)

        tasks.start_soon(read)
        await settle()
        await peer.event("tick", {})
        await until(lambda: names)
        await client.close()
    assert names == ["tick"]


async def test_events_of_a_lost_server_end_with_the_reason() -> None:
    async with connected(EchoPipes()) as (client, peer):
        stream = client.events()
        await peer.event("last", {})
        await peer.stream.aclose()
        assert (await anext(stream)).name == "last"
        with pytest.raises(ServerExited):
            await anext(stream)


async def test_a_stream_that_nobody_holds_is_forgotten() -> None:
    async with connected(EchoPipes()) as (client, peer):
        client.events()
        await peer.event("tick", {})
        await client.ping()
        assert len(client._session._streams) == 0  # type: ignore[union-attr]


async def test_two_readers_see_the_same_events() -> None:
    async with connected(EchoPipes()) as (client, peer):
        first, second = client.events(), client.events()
        await peer.event("tick", {"n": 1})
        assert (await anext(first)).body == (await anext(second)).body == {"n": 1}


async def test_dropped_events_of_several_rounds_are_added_up() -> None:
    stream = EventStream(2)
    for number in range(5):
        stream.put("tick", {"n": number})
    assert (await anext(stream)).missed == 3
    for number in range(5, 8):
        stream.put("tick", {"n": number})
    event = await anext(stream)
    assert (event.body["n"], event.missed) == (6, 2)
    assert stream.dropped == 5


@pytest.mark.parametrize("request_id", [None, {}, [], 1.5, "1"])
async def test_updates_with_an_unusable_request_are_dropped(request_id: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rrext.client")
    async with connected(EchoPipes()) as (client, peer):
        await peer.event("rrext_progress", {"request": request_id, "progress": 1})
        await client.ping()
    assert any("nobody waits" in record.message for record in caplog.records)


async def test_a_callback_that_never_permits_does_not_outlast_its_call(dialect: Any) -> None:
    asked: list[Any] = []

    async def never(question: dict[str, Any]) -> bool:
        asked.append(question["permission"])
        await anyio.sleep_forever()
        return True

    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(Unavailable, match="no answer"):
                await client.tool(tool="t", on_permission=never)
            asked.append("done")

        tasks.start_soon(call)
        request = await peer.take("tool")
        for number in (1, 2):
            await peer.event("rrext_permission", {"request": request.id, "permission": number, "tool": "t"})
        await until(lambda: asked)
        await peer.fail(request, Unavailable("there was no answer within 60 s"))
    assert asked == [1, "done"], "a question of an answered call asks nobody"
    assert "rrext_permit" not in peer.commands()


async def test_a_question_that_is_withdrawn_asks_nobody_any_more(dialect: Any) -> None:
    asked: list[Any] = []

    async def never(question: dict[str, Any]) -> None:
        asked.append(question["question"])
        await anyio.sleep_forever()

    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            assert await client.tool(tool="t", on_question=never) == "done"
            asked.append("done")

        tasks.start_soon(call)
        request = await peer.take("tool")
        assert request.arguments["questions"] == ["form", "url"]
        for number in (1, 2):
            await peer.event("rrext_question", {"request": request.id, "question": number, "params": {}})
        await until(lambda: asked)
        for number in (2, 1):
            await peer.event("rrext_question", {"request": request.id, "question": number, "withdrawn": True})
        await peer.event("rrext_question", {"request": request.id, "question": 3, "params": {}})
        await until(lambda: len(asked) > 1)
        await peer.answer(request, {"result": "done"})
    assert asked == [1, 3, "done"]
    assert "rrext_answer" not in peer.commands()


async def test_a_callback_that_fails_at_a_question_cancels_its_call(dialect: Any) -> None:
    def fail(question: dict[str, Any]) -> bool:
        raise LookupError("nobody is here to decide")

    async with connected(dialect=dialect) as (client, peer), anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(LookupError, match="nobody is here"):
                await client.tool(tool="t", on_permission=fail)

        tasks.start_soon(call)
        request = await peer.take("tool")
        await peer.event("rrext_permission", {"request": request.id, "permission": 1, "tool": "t"})
        cancel = await peer.take("cancel")
        assert cancel.arguments == {"requestId": request.id}
