"""A process that reads nothing: what waits for it stays in bounds, and is freed with the calls that it belongs to."""

from __future__ import annotations

import os
import signal
from typing import Any

import msgspec
from routed_engine import Noted, routed, tool_of, until

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Open, TaskStatus, Write
from rrext.errors import Cancelled, TaskLost
from rrext.limits import MIB


async def test_cancelled_writes_to_a_stopped_process_leave_no_bytes_behind() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        caller = Caller("c")
        opened = [await world.engine.ask(Open(token="a", mime_type="text/plain"), caller) for _ in range(2)]
        pipe, other = (msgspec.json.decode(body)["pipe_id"] for body, _ in opened)
        os.kill(worker.link.pid, signal.SIGSTOP)
        for _ in range(60):
            noted = Noted(world.engine, Write(pipe_id=pipe), caller, b"x" * MIB)
            noted.call.cancel("cancelled", Cancelled())
        assert worker.outbox.size < 20 * MIB
        later = [Noted(world.engine, Write(pipe_id=other), caller, b"x" * MIB) for _ in range(30)]
        small = Noted(world.engine, tool_of("a", "echo", data="y"), caller)
        os.kill(worker.link.pid, signal.SIGCONT)
        await until(lambda: small.answers and all(noted.answers for noted in later))
        assert small.answers == [{"result": "y"}]
        assert all(not isinstance(noted.answers[0], Exception) for noted in later)


async def test_the_status_of_one_task_waits_for_no_other() -> None:
    async with routed() as world:
        await world.execute("a")
        other = await world.execute("b")
        asked: list[str] = []

        async def note(command: str, *given: Any) -> Any:
            asked.append(command)
            raise TaskLost("stuck")

        ask, other.ask = other.ask, note  # type: ignore[method-assign]
        body, _ = await world.engine.ask(TaskStatus(token="a"))
        assert msgspec.json.decode(body)["project_id"] == "a"
        assert not asked
        other.ask = ask  # type: ignore[method-assign]
