"""First steps of async tools are taken inside the batch that asked for them; what they leave behind meets no other."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import anyio

from rrext.engine.host.host import EagerRunner

who: ContextVar[object] = ContextVar("who", default="nobody")
Work = Callable[[], Awaitable[object]]


class Job:
    """One async tool; `task` is the task that ran it."""

    def __init__(self, work: Work, log: list[object]) -> None:
        self.work = work
        self.log = log
        self.seen: object = None
        self.was_cancelled = False
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.log.append("own task")
        self.task = asyncio.get_running_loop().create_task(self.main())

    async def main(self) -> None:
        self.seen = who.get()
        try:
            self.log.append(await self.work())
        except asyncio.CancelledError:
            self.was_cancelled = True
            self.log.append("cancelled")


class Bench:
    """A runner, and batches that are run as the reader's callback would."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.runner = EagerRunner(self.loop)
        self.log: list[object] = []

    async def batch(self, *works: Work) -> list[Job]:
        """Run a batch in a callback; return right after it, before the loop's next turn."""
        jobs = [Job(work, self.log) for work in works]
        done = self.loop.create_future()

        def callback() -> None:
            self.runner.is_collecting = True
            for job in jobs:
                self.runner.add(job)
            self.runner.is_collecting = False
            self.runner.end()
            self.log.append("end of batch")
            done.set_result(None)

        self.loop.call_soon(callback)
        await done
        return jobs

    async def warm(self) -> None:
        """The fiber waits."""
        await self.batch(nothing)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.log.clear()


async def nothing() -> str:
    return "done"


async def test_what_does_not_suspend_is_done_before_the_batch_ends() -> None:
    bench = Bench()
    await bench.warm()
    await bench.batch(nothing, nothing, nothing)
    assert bench.log == ["done", "done", "done", "end of batch"]
    bench.runner.stop()


async def test_the_fiber_is_used_for_one_batch_after_the_other() -> None:
    bench = Bench()
    await bench.warm()
    tasks: list[int] = []

    async def note() -> None:
        tasks.append(id(asyncio.current_task()))

    for _ in range(5):
        await bench.batch(note, note)
    assert len(set(tasks)) == 1
    bench.runner.stop()


async def test_what_suspends_keeps_the_fiber_and_the_others_get_tasks_of_their_own() -> None:
    bench, gate = Bench(), asyncio.Event()
    await bench.warm()

    async def wait() -> str:
        await gate.wait()
        return "waited"

    await bench.batch(nothing, wait, nothing, nothing)
    assert bench.log[:4] == ["done", "own task", "own task", "end of batch"]
    gate.set()
    for _ in range(3):
        await asyncio.sleep(0)
    assert sorted(map(str, bench.log[4:])) == ["done", "done", "waited"]
    await bench.batch(nothing)
    assert bench.log[-2:] == ["done", "end of batch"]  # another fiber waits
    bench.runner.stop()


async def test_outside_of_a_batch_each_job_is_a_task() -> None:
    bench = Bench()
    job = Job(nothing, bench.log)
    bench.runner.add(job)
    await job.task
    assert bench.log == ["own task", "done"]


async def test_a_batch_that_a_task_reads_starts_tasks() -> None:
    """Inside a task the fiber cannot be stepped: two tasks at once are none of asyncio's."""
    bench = Bench()
    await bench.warm()
    job = Job(nothing, bench.log)
    bench.runner.is_collecting = True
    bench.runner.add(job)
    bench.runner.is_collecting = False
    bench.runner.end()
    await job.task
    assert bench.log == ["own task", "done"]
    bench.runner.stop()


async def test_a_variable_that_a_tool_sets_is_unknown_to_the_next() -> None:
    bench = Bench()
    await bench.warm()

    async def set_it() -> None:
        who.set("me")

    jobs = await bench.batch(set_it, nothing)
    await asyncio.sleep(0)
    jobs += await bench.batch(set_it, nothing, nothing)
    await asyncio.sleep(0)
    assert [job.seen for job in jobs] == ["nobody"] * 5
    bench.runner.stop()


async def test_a_variable_whose_value_cannot_be_compared_is_no_trouble() -> None:
    bench = Bench()
    await bench.warm()

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = object.__hash__

    async def set_it() -> None:
        who.set(Odd())

    await bench.batch(set_it, nothing)
    await asyncio.sleep(0)
    (job,) = await bench.batch(nothing)
    await asyncio.sleep(0)
    assert job.seen == "nobody"
    bench.runner.stop()


async def test_a_tool_that_cancels_its_own_task_cancels_nobody_else() -> None:
    bench = Bench()
    await bench.warm()

    async def cancel_me() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "not awaited again"

    async def suspends() -> str:
        await asyncio.sleep(0)
        return "lived"

    jobs = await bench.batch(cancel_me, suspends)
    jobs += await bench.batch(suspends)
    for _ in range(4):
        await asyncio.sleep(0)
    assert bench.log.count("lived") == 2
    assert not any(job.was_cancelled for job in jobs)
    bench.runner.stop()


async def test_a_task_that_a_tool_kept_and_cancels_later_runs_nobody_else() -> None:
    bench, kept, gate = Bench(), [], asyncio.Event()
    await bench.warm()

    async def keep() -> None:
        kept.append(asyncio.current_task())

    async def wait() -> str:
        await gate.wait()
        return "waited"

    await bench.batch(keep)
    await asyncio.sleep(0)
    jobs = await bench.batch(wait, wait)
    kept[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    for _ in range(3):
        await asyncio.sleep(0)
    assert bench.log.count("waited") == 2
    assert not any(job.was_cancelled for job in jobs)
    bench.runner.stop()


async def test_a_fiber_that_is_cancelled_while_it_waits_is_replaced() -> None:
    bench = Bench()
    await bench.warm()
    fiber = bench.runner._fiber
    assert fiber is not None
    fiber.task.cancel()
    fiber.task.cancel()
    await bench.batch(nothing)
    for _ in range(3):
        await asyncio.sleep(0)
    await bench.batch(nothing)
    for _ in range(3):
        await asyncio.sleep(0)
    bench.log.clear()
    await bench.batch(nothing)
    assert bench.log == ["done", "end of batch"]
    bench.runner.stop()


async def test_a_cancel_reaches_a_tool_that_suspended_in_its_first_step() -> None:
    bench = Bench()
    await bench.warm()
    tasks = []

    async def wait() -> None:
        tasks.append(asyncio.current_task())
        await asyncio.Event().wait()

    (job,) = await bench.batch(wait)
    tasks[0].cancel()
    for _ in range(2):
        await asyncio.sleep(0)
    assert job.was_cancelled
    bench.runner.stop()


async def test_timeouts_task_groups_and_cancel_scopes_work_inside_the_batch() -> None:
    bench = Bench()
    await bench.warm()

    async def times_out() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "?"

    async def groups() -> str:
        async with asyncio.TaskGroup() as tasks:
            one, two = tasks.create_task(nothing()), tasks.create_task(nothing())
        return one.result() + two.result()

    async def scopes() -> str:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep(10)
        return f"scope {scope.cancelled_caught}"

    async def failing_group() -> str:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(asyncio.Event().wait())
                raise ValueError
        except* ValueError:
            pass
        return "group failed"

    for work in (times_out, groups, scopes, failing_group):
        await bench.batch(work, nothing)
        for _ in range(8):
            await asyncio.sleep(0)
    assert {"timed out", "donedone", "scope True", "group failed"} <= set(bench.log)
    assert bench.log.count("done") == 4
    bench.runner.stop()


async def test_a_tool_that_finishes_at_once_leaves_no_garbage() -> None:
    bench = Bench()
    await bench.warm()
    for _ in range(3):
        await bench.batch(nothing)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            await bench.batch(*[nothing] * 50)
            bench.log.clear()
        assert gc.collect() < 50  # a thousand jobs were run
    finally:
        gc.enable()
    bench.runner.stop()


async def test_after_the_end_a_batch_still_runs() -> None:
    bench = Bench()
    await bench.warm()
    bench.runner.stop()
    for _ in range(3):
        await asyncio.sleep(0)
    jobs = await bench.batch(nothing)
    for _ in range(2):
        await asyncio.sleep(0)
    assert "done" in bench.log
    assert jobs
    bench.runner.stop()
