"""A write that the server stopped fails its object, also if the process had ended the write before the stop came."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from routed_engine import Noted, Routed, routed, until

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Close, Open, Tool, Write
from rrext.errors import Cancelled, ToolTimeout
from rrext.tasks.worker import Worker
from rrext.tasks.worker_engine import PIPE_BITS

ME = Caller("me")


async def opened(world: Routed, caller: Caller = ME) -> int:
    """A pipe."""
    body, _ = await world.engine.ask(Open(token="a", mime_type="text/plain"), caller)
    return json.loads(body)["pipe_id"]


def unread(worker: Worker) -> tuple[list[Any], Callable[[], None]]:
    """The messages of a process that the server has not read yet, and how it reads on."""
    held: list[Any] = []
    messages = worker._messages
    take, messages._on_message = messages._on_message, lambda *message: held.append(message)

    def read_on() -> None:
        messages._on_message = take
        for message in held:
            take(*message)

    return held, read_on


def fate(noted: Noted) -> Any:
    """The code of an answer, and that of the object's error."""
    (answer,) = noted.answers
    return answer.get("error", {}).get("code", "ok") if isinstance(answer, dict) else (answer.code, answer.data.get("cause"))


@pytest.mark.promise("call:own-fate")
@pytest.mark.parametrize("reason", ["cancelled", "timeout"])
async def test_what_was_on_its_way_behind_a_stopped_write_has_the_answers_of_a_failed_object(reason: Any) -> None:
    code = "cancelled" if reason == "cancelled" else "tool_timeout"
    async with routed() as world:
        worker = await world.execute("a")
        pipe, failing, other = [await opened(world) for _ in range(3)]
        behind = [Write(pipe_id=pipe, data="x"), Tool(pipe_id=pipe, tool="pid"), Close(pipe_id=pipe)]
        held, read_on = unread(worker)
        before, stopped, *asked, elsewhere = requests = [
            Noted(world.engine, each, ME)
            for each in (Write(pipe_id=pipe, data="x"), Write(pipe_id=pipe, data="x"), *behind, Close(pipe_id=other))
        ]
        own = [Noted(world.engine, Write(pipe_id=failing, data=data), ME) for data in ("x", "fail")]
        failed = Noted(world.engine, Close(pipe_id=failing), ME)
        await until(lambda: sum(bool(message.request_seq) for message, *_ in held) == len(requests) + 3)
        for each in (stopped, own[0]):
            each.call.cancel(reason, ToolTimeout("late") if reason == "timeout" else Cancelled())
        read_on()
        assert [fate(noted) for noted in (before, *asked)] == ["ok", ("pipe_failed", code), ("pipe_failed", code), code]
        assert (fate(failed), fate(elsewhere)) == ("tool_failed", "ok")
        assert not worker._gaps


async def test_a_write_to_a_pipe_of_another_connection_leaves_no_gap_in_it() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        pipe = await opened(world)
        write = Noted(world.engine, Write(pipe_id=pipe, data="x"), Caller("other"))
        close = Noted(world.engine, Close(pipe_id=pipe), ME)
        write.call.cancel("cancelled", Cancelled())
        await until(lambda: close.answers)
        assert fate(close) == "ok"
        world.engine.disconnect("other")
        assert not worker._gaps


async def test_the_gaps_that_nobody_closes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rrext.tasks.worker.MAX_GAPS", 2)
    async with routed() as world:
        worker = await world.execute("a")
        for pipe in range(5):
            Noted(world.engine, Write(pipe_id=(worker.number << PIPE_BITS) + pipe, data="x"), ME).call.cancel(
                "cancelled", Cancelled()
            )
        assert len(worker._gaps) == 2


@pytest.mark.promise("call:own-fate")
async def test_a_write_that_was_refused_in_the_process_and_stopped_here_is_missing_too() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        pipe = await opened(world)
        held, read_on = unread(worker)
        refused, behind = Noted(world.engine, Write(pipe_id=pipe), ME), Noted(world.engine, Write(pipe_id=pipe, data="x"), ME)
        await until(lambda: len(held) == 2)
        refused.call.cancel("cancelled", Cancelled())
        read_on()
        assert fate(behind) == ("pipe_failed", "cancelled")


@pytest.mark.promise("call:own-fate")
async def test_the_close_that_waits_behind_a_write_that_is_stopped_after_its_end_commits_nothing() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        pipe = await opened(world)
        held, read_on = unread(worker)
        operations = Write(pipe_id=pipe, data="x"), Tool(pipe_id=pipe, tool="wait"), Close(pipe_id=pipe)
        write, waits, close = [Noted(world.engine, each, ME) for each in operations]
        await until(lambda: held)
        write.call.cancel("cancelled", Cancelled())
        read_on()
        waits.call.cancel("cancelled", Cancelled())
        await until(lambda: close.answers)
        assert fate(close) == "cancelled"
        assert await world.tool("a", "commits") == 0


@pytest.mark.promise("call:own-fate")
async def test_a_write_that_runs_when_the_one_before_it_is_missed_has_no_code_of_that_one() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        pipe = await opened(world)
        held, read_on = unread(worker)
        first, runs, waits = [Noted(world.engine, Write(pipe_id=pipe, data=data), ME) for data in ("x", "park", "x")]
        await until(lambda: held)
        first.call.cancel("cancelled", Cancelled())
        read_on()
        await world.tool("a", "open_gate")
        await until(lambda: waits.answers)
        assert fate(runs) == fate(waits) == ("pipe_failed", "cancelled")


@pytest.mark.promise("call:own-fate")
async def test_a_close_that_is_stopped_in_the_line_of_the_process_closes_no_gap_before_it() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        pipe = await opened(world)
        held, read_on = unread(worker)
        operations = (
            Write(pipe_id=pipe, data="x"),
            Tool(pipe_id=pipe, tool="wait"),
            Write(pipe_id=pipe, data="x"),
            Close(pipe_id=pipe),
        )
        first, waits, behind, close = [Noted(world.engine, each, ME) for each in operations]
        await until(lambda: held)
        for each in (close, first, waits):
            each.call.cancel("cancelled", Cancelled())
        read_on()
        await until(lambda: behind.answers)
        assert fate(behind) == ("pipe_failed", "cancelled")


@pytest.mark.promise("call:own-fate")
async def test_a_write_that_both_call_late_stops_none_before_it() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        pipe = await opened(world)
        held, read_on = unread(worker)
        operations = Tool(pipe_id=pipe, tool="wait"), Write(pipe_id=pipe, data="x"), Write(pipe_id=pipe, data="x", timeout=0.01)
        waits, write, late = [Noted(world.engine, each, ME) for each in operations]
        await until(lambda: late.answers and held)
        read_on()
        waits.call.cancel("cancelled", Cancelled())
        await until(lambda: write.answers)
        assert (fate(late)[0], fate(write)) == ("tool_timeout", "ok")
