"""A write that the server stopped is missing in its object, also if its process had ended it before it heard of that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from routed_engine import Noted, Routed, routed, until

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Close, Open, Tool, Write
from rrext.errors import Cancelled, ToolTimeout

ME = Caller("me")


async def opened(world: Routed, caller: Caller = ME) -> int:
    """A pipe."""
    body, _ = await world.engine.ask(Open(token="a", mime_type="text/plain"), caller)
    return json.loads(body)["pipe_id"]


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
        held: list[Any] = []
        take, worker._messages._on_message = worker._messages._on_message, lambda *message: held.append(message)
        before, stopped, *asked, elsewhere = requests = [
            Noted(world.engine, each, ME)
            for each in (Write(pipe_id=pipe, data="x"), Write(pipe_id=pipe, data="x"), *behind, Close(pipe_id=other))
        ]
        own = [Noted(world.engine, Write(pipe_id=failing, data=data), ME) for data in ("x", "fail")]
        failed = Noted(world.engine, Close(pipe_id=failing), ME)
        await until(lambda: sum(bool(message.request_seq) for message, *_ in held) == len(requests) + 3)
        for each in (stopped, own[0]):
            each.call.cancel(reason, ToolTimeout("late") if reason == "timeout" else Cancelled())
        worker._messages._on_message = take
        for message in held:
            take(*message)
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
        await until(lambda: not worker._cancelled)
        assert not worker._gaps


@pytest.mark.promise("call:own-fate")
async def test_a_close_that_is_stopped_in_the_line_of_the_process_closes_no_gap_before_it() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        pipe = await opened(world)
        held: list[Any] = []
        take, worker._messages._on_message = worker._messages._on_message, lambda *message: held.append(message)
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
        worker._messages._on_message = take
        for message in held:
            take(*message)
        await until(lambda: behind.answers)
        assert fate(behind) == ("pipe_failed", "cancelled")
