"""Ends of processes at the worst moments: no call hangs, no process stays, no bytes of theirs hold up the server."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from routed_engine import Noted, routed, tool_of, until

from rrext.engine.events.records import Filter
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.engine import AwaitedAnswer
from rrext.engine.interface.operations import TaskStatus
from rrext.errors import InternalError, TaskLost, TaskNotRegistered, Unavailable
from rrext.tasks import fork_server, remote_tasks
from rrext.tasks.worker_process import STDERR_KEPT, STDERR_TAIL

pytestmark = [pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="looks at processes of Linux")]


async def test_a_process_that_dies_as_soon_as_its_pipeline_is_loaded_fails_the_execute() -> None:
    async with routed() as world:
        worker = await world.engine.pool.take()
        ask = worker.ask

        async def dies(command: str, *given: Any) -> object:
            body = await ask(command, *given)
            os.kill(worker.link.pid, signal.SIGKILL)
            await worker.ended
            return body

        worker.ask = dies  # type: ignore[method-assign]

        async def take(*_: object, **__: object) -> object:
            return worker

        world.engine.pool.take = take  # type: ignore[method-assign, assignment]
        with pytest.raises(TaskLost):
            await world.execute("a")
        with pytest.raises(TaskNotRegistered):
            await world.tool("a", "pid")


async def test_a_process_that_never_ends_its_import_is_ended_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_this_machine: None
) -> None:
    nodes = tmp_path / "hanging_nodes.py"
    nodes.write_text("import time\nwhile True:\n    time.sleep(0.01)\n")
    monkeypatch.setattr(remote_tasks, "START_TIME", 1.0)
    async with routed() as world:
        pool = world.engine.pool
        pool._settings = msgspec.structs.replace(pool._settings, nodes=[str(nodes)])
        with pytest.raises(Unavailable, match="did not import the code of the nodes within 1 seconds"):
            await world.execute("a")
        await until(lambda: 1 not in pool.workers)


async def test_a_task_is_busy_until_its_process_has_ended_though_it_can_tell_no_status(of_this_machine: None) -> None:
    async with routed() as world:
        worker = await world.execute("a")

        async def status(*_: object) -> object:
            raise InternalError("no status")

        worker.status = status  # type: ignore[method-assign]
        (task,) = world.engine.tasks
        assert await world.engine._is_busy(task)
        worker.kill()
        await worker.ended
        assert not await world.engine._is_busy(task)


async def test_a_process_that_dies_as_soon_as_a_new_version_is_loaded_leaves_the_former_one_its_place() -> None:
    async with routed() as world:
        former = await world.execute("a")
        worker = await world.engine.pool.take()
        ask = worker.ask

        async def dies(command: str, *given: Any) -> object:
            body = await ask(command, *given)
            worker.kill()
            await worker.ended
            return body

        worker.ask = dies  # type: ignore[method-assign]

        async def take(*_: object, **__: object) -> object:
            return worker

        world.engine.pool.take = take  # type: ignore[method-assign, assignment]
        assert former.task is not None
        with pytest.raises(TaskLost):
            await world.engine.exchange(former.task)
        assert await world.tool("a", "pid") == former.link.pid


async def test_a_call_of_a_process_that_has_ended_is_answered() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        os.kill(worker.link.pid, signal.SIGKILL)
        await worker.ended
        answer = AwaitedAnswer(asyncio.get_running_loop())
        worker.run(Call(tool_of("a", "pid"), answer))
        with pytest.raises(TaskLost):
            await answer.future


@pytest.mark.usefixtures("of_this_machine")
@pytest.mark.parametrize("is_forked", [True, False])
async def test_the_end_of_a_process_is_told_without_a_descriptor_to_watch_it(
    monkeypatch: pytest.MonkeyPatch, is_forked: bool
) -> None:
    async with routed() as world:
        if not is_forked:
            monkeypatch.setattr(fork_server, "_tells_ends", lambda pid: False)
        await world.engine.pool.take()
        assert (world.engine.pool.links.parent != os.getpid()) is is_forked

        def refuse(pid: int) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        monkeypatch.setattr(os, "pidfd_open", refuse)
        worker = await world.execute("a")
        os.kill(worker.link.pid, signal.SIGKILL)
        await worker.ended
        assert worker.link.exit_code == -signal.SIGKILL


@pytest.mark.usefixtures("of_this_machine")
async def test_an_end_that_nobody_saw_is_told_as_such() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        assert fork_server._exit_code(2**22 + 1) is None  # of no process
        os.kill(worker.link.pid, signal.SIGKILL)
        worker.link._popen.wait = lambda: None  # type: ignore[attr-defined]
        await worker.ended
        assert "ended before it answered: nobody saw how" in worker.error().message
        assert "exitCode" not in worker.error().data


@pytest.mark.promise("tasks:sent-told")
async def test_calls_of_a_lost_process_tell_whether_they_may_have_reached_it() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        os.kill(worker.link.pid, signal.SIGSTOP)
        large = {"data": "x" * (worker.outbox._limit // 4)}
        calls = [Noted(world.engine, tool_of("a", "echo", **large)) for _ in range(12)]
        assert worker.outbox.is_full
        os.kill(worker.link.pid, signal.SIGKILL)
        await worker.ended
        answer = AwaitedAnswer(asyncio.get_running_loop())
        worker.run(Call(tool_of("a", "pid"), answer))
        with pytest.raises(TaskLost) as late:
            await answer.future
        assert late.value.data["sent"] is False
        sent = [noted.answers[0].data["sent"] for noted in calls]
        assert sent == sorted(sent, reverse=True)
        assert (sent[0], sent[-1]) == (True, False)
        assert [len(noted.answers) for noted in calls] == [1] * 12


async def test_cancelled_executes_leave_one_warm_process_at_most() -> None:
    async with routed() as world:
        for moment in range(12):
            loading = asyncio.ensure_future(world.execute(f"t{moment}"))
            for _ in range(moment * 3):
                await asyncio.sleep(0.004)
            loading.cancel()
            with suppress(asyncio.CancelledError):
                await loading
        pool = world.engine.pool
        await until(lambda: not pool.starting and len(pool.workers) <= len(world.engine.tasks) + 1)


async def test_a_process_that_a_tool_left_behind_and_that_writes_for_ever_does_not_hold_up_the_server(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with routed() as world:
        worker = await world.execute("a")
        child = await world.tool("a", "flood")
        try:
            os.kill(worker.link.pid, signal.SIGKILL)
            async with asyncio.timeout(20):  # a deadline
                await worker.ended
        finally:
            os.kill(child, signal.SIGKILL)


async def test_last_words_of_a_process_reach_only_who_is_trusted_or_loaded_the_pipeline() -> None:
    stranger = Caller("b", user_id="b", trusted=False)
    async with routed() as world:
        told: list[object] = []
        subscription = world.engine.subscribe(Filter(kinds=frozenset(["call_ended"])), told.append)
        await world.execute("a")
        with pytest.raises(TaskLost) as caught:
            await world.tool("a", "say", stranger, text="the words\n")
        assert "the words" not in f"{caught.value} {caught.value.data}"
        await until(lambda: told)
        assert "the words" not in str(told)
        body, _ = await world.engine.ask(TaskStatus(token="a"), stranger)
        assert b"the words" not in body
        body, _ = await world.engine.ask(TaskStatus(token="a"))
        assert b"the words" in body
        subscription.cancel()


@pytest.mark.parametrize(("after", "cut"), [("y", 2), ("y\n", 6), ("y", 10), ("y\n", 14), ("y", 18)])
async def test_last_words_hold_no_part_of_a_secret_wherever_they_are_cut(after: str, cut: int) -> None:
    secret = "s3cr3t-Value-0123456789-abcdefghij"
    async with routed(SECRET=secret) as world:
        await world.execute("a")
        for size in (STDERR_TAIL, STDERR_KEPT):
            rest = (after * size)[: size - cut] if after == "y" else after * ((size - cut) // 2)
            with pytest.raises(TaskLost) as caught:
                await world.tool("a", "say", text="x" * 100 + secret + rest)
            assert secret[-cut + 1 :] not in caught.value.data["stderr"]
            assert 0 < len(caught.value.data["stderr"]) <= STDERR_TAIL
            await world.execute("a")


async def test_a_call_that_its_worker_refuses_is_answered_while_somebody_watches_calls() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        ended: list[Any] = []
        world.engine.subscribe(Filter(kinds=frozenset(["call_ended"])), ended.append)

        def refuse(call: Call, **_: object) -> None:
            raise worker.error()

        worker.run = refuse  # type: ignore[method-assign]
        with pytest.raises(TaskLost):
            await world.tool("a", "pid")
        assert [event.code for event in ended] == ["task_lost"]


async def test_a_call_on_a_former_version_has_its_time_and_is_cancelled_then() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        call = Noted(world.engine, tool_of("a", "wait"))
        assert worker.task is not None
        await world.engine.exchange(worker.task, patience=0.01)
        assert await world.tool("a", "pid") != worker.link.pid
        await worker.ended
        await until(lambda: not world.engine.leaving)
        assert [answer.code for answer in call.answers] == ["cancelled"]


async def test_the_end_of_the_engine_ends_former_versions() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        call = Noted(world.engine, tool_of("a", "wait"))
        assert worker.task is not None
        await world.engine.exchange(worker.task)
        assert [each.worker for each in world.engine.leaving] == [worker]
    assert ([answer.code for answer in call.answers], worker.is_over) == (["cancelled"], True)


async def test_a_former_version_whose_process_dies_leaves_the_new_one_alone() -> None:
    async with routed() as world:
        worker = await world.execute("a")
        call = Noted(world.engine, tool_of("a", "wait"))
        assert worker.task is not None
        await world.engine.exchange(worker.task)
        worker.kill()
        await until(lambda: not world.engine.leaving)
        assert [answer.code for answer in call.answers] == ["task_lost"]
        assert await world.tool("a", "pid") != worker.link.pid


async def test_a_pipeline_that_is_loaded_while_code_changes_is_loaded_with_the_new_code() -> None:
    async with routed() as world:
        pool, taken = world.engine.pool, list[int]()
        take = pool.take

        async def takes(*given: Any, **more: Any) -> object:
            worker = await take(*given, **more)
            taken.append(worker.number)
            if len(taken) == 1:
                await pool.renew()
            return worker

        pool.take = takes  # type: ignore[method-assign, assignment]
        worker = await world.execute("a")
        assert (len(taken), worker.number) == (2, taken[1])
        assert taken[0] < pool.first_current <= taken[1]
