"""The status of a task: numbers of what it has processed, and its last status after its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_world import Park, until, world

from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Execute, Open, TaskStatus, Terminate
from rrext.engine.tasks.registry import FINISHED_TASK_TIME
from rrext.engine.tasks.task import MAX_SLOW_OBJECTS
from rrext.errors import ToolError
from rrext.nodes.base.node import Node
from rrext.tools.decorator import tool_function

SIZES = ("totalSize", "completedSize", "failedSize", "wordsSize", "totalCount", "completedCount", "failedCount", "wordsCount")
PIPELINE: dict[str, Any] = {"components": [{"id": "source", "provider": "source", "config": {}}], "project_id": "p"}


class Reader(Node):
    """Takes any text but "bad"."""

    provider = "reader"
    lanes = {"text": (), "tags": ()}

    def write_text(self, text: str) -> None:
        if text == "bad":
            raise ToolError("no such text", code="bad_text")

    @tool_function
    def add(self, number: int) -> int:
        return number + 1


def sizes(status: dict[str, Any]) -> dict[str, int]:
    return {name: status[name] for name in SIZES if status[name]}


async def test_objects_bytes_and_words_are_counted_when_they_arrive_and_when_they_end() -> None:
    async with world(Reader) as w:

        async def status() -> dict[str, Any]:
            return await w.ask(TaskStatus()).answer()

        assert sizes(await status()) == {}
        pipe = (await w.ask(Open(object={"name": "a.txt", "size": 20}, mime_type="text/plain")).answer())["pipe_id"]
        assert sizes(await status()) == {"totalSize": 20, "totalCount": 1}
        await w.write(pipe, "two wo").answer()
        await w.write(pipe, "rds\nänd ").answer()
        assert sizes(await status()) == {"totalSize": 20, "totalCount": 1, "wordsSize": 15, "wordsCount": 3}
        await w.close(pipe).answer()
        done = await status()
        assert sizes(done) == {
            "totalSize": 15, "totalCount": 1, "completedSize": 15, "completedCount": 1, "wordsSize": 15, "wordsCount": 3
        }  # fmt: skip

        failing = await w.open()
        assert (await w.write(failing, "bad").error()).code == "bad_text"
        await w.close(failing).answer()
        raw = await w.open(mime_type="application/octet-stream")
        await w.write(raw, "no words are counted").answer()
        w.engine.disconnect("local")  # an object that is never closed has failed
        await w.at_rest()
        last = await status()
        assert (last["failedSize"], last["failedCount"], last["completedCount"], last["wordsCount"]) == (23, 2, 1, 4)
        assert last["errors"] == ["no such text"]


async def test_a_call_that_cannot_begin_is_among_the_errors_under_the_name_of_its_node() -> None:
    async with world(Reader) as w:
        for refused in (w.tool("add", {}), w.tool("add", {"number": "x"}, node="reader"), w.tool("missing", {})):
            await refused.error()
        labels = [error.partition(":")[0] for error in (await w.ask(TaskStatus()).answer())["errors"]]
        assert labels == ["reader.add", "reader.add", "missing"]


async def test_rates_are_those_of_the_last_seconds() -> None:
    async with world(Reader) as w:
        for _ in range(10):
            pipe = await w.open()
            await w.write(pipe, "0123456789").answer()
            await w.close(pipe).answer()
        status = await w.ask(TaskStatus()).answer()
        assert (status["rateCount"], status["rateSize"]) == (2, 20)
        w.clock.advance(5)
        status = await w.ask(TaskStatus()).answer()
        assert (status["rateCount"], status["rateSize"]) == (0, 0)


async def test_the_slowest_objects_and_the_idle_times_are_told() -> None:
    async with world(Reader) as w:
        for seconds in range(MAX_SLOW_OBJECTS + 2):
            pipe = (await w.ask(Open(object={"name": f"{seconds} s"}, mime_type="text/plain")).answer())["pipe_id"]
            w.clock.advance(seconds)
            await w.close(pipe).answer()
            w.clock.advance(3 if seconds == 4 else 1)
        status = await w.ask(TaskStatus()).answer()
        assert [slow["name"] for slow in status["slowestDocs"]] == [f"{n} s" for n in range(MAX_SLOW_OBJECTS + 1, 1, -1)]
        assert status["slowestDocs"][0]["elapsed"] == 11
        assert status["completionSeconds"] == sum(range(12))
        assert (status["idleSeconds"], status["idleLongestSeconds"]) == (13, 3)
        assert status["idleLongestAt"] > 0


async def test_the_metrics_are_those_of_the_process() -> None:
    async with world(Reader) as w:
        metrics = (await w.ask(TaskStatus()).answer())["metrics"]
        assert metrics["cpu_memory_mb"] > 1
        assert metrics["peak_cpu_memory_mb"] >= metrics["avg_cpu_memory_mb"] > 0
        assert 0 <= metrics["avg_cpu_percent"] <= metrics["peak_cpu_percent"] <= 100 or metrics["avg_cpu_percent"] <= 100
        assert len(metrics) == 9


@pytest.mark.parametrize("reason", ["terminated", "idle"])
async def test_a_task_that_ended_tells_its_last_status_for_five_minutes(reason: str) -> None:
    async with world(Reader) as w:
        await w.ask(Execute(pipeline=PIPELINE, token="short", ttl=10)).answer()
        pipe = (await w.ask(Open(token="short", mime_type="text/plain", object={"name": "x"})).answer())["pipe_id"]
        await w.close(pipe).answer()
        if reason == "idle":
            w.clock.advance(10)
        else:
            await w.ask(Terminate(token="short")).answer()
        while (status := await w.ask(TaskStatus(token="short")).answer())["state"] == 4:
            await asyncio.sleep(0)
        assert (status["state"], status["status"]) == ((5, "Completed") if reason == "idle" else (6, "Cancelled"))
        assert (status["completed"], status["serviceUp"], status["exitCode"], status["completedCount"]) == (True, False, 0, 1)
        assert status["endTime"] >= status["startTime"] > 0
        assert reason in status["exitMessage"]
        assert (await w.ask(Open(token="short")).error()).code == "TASK_NOT_REGISTERED"
        assert await w.ask(Terminate(token="short")).answer() == {}
        w.clock.advance(FINISHED_TASK_TIME)
        assert (await w.ask(TaskStatus(token="short")).error()).code == "TASK_NOT_REGISTERED"
        assert (await w.ask(Terminate(token="short")).error()).code == "TASK_NOT_REGISTERED"


async def test_a_task_that_is_ending_says_so() -> None:
    park = Park()

    class Slow(Reader):
        provider = "slow"

        def write_text(self, text: str) -> None:
            park.stay()

    async with world(Slow) as w:
        pipe = await w.open()
        w.write(pipe, "x")
        await until(lambda: park.inside)
        end = w.ask(Terminate(token="t"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        status = await w.ask(TaskStatus(token="t")).answer()
        assert (status["state"], status["completed"], status["serviceUp"]) == (4, False, False)
        park.let_go()
        await end.answer()
        assert (await w.ask(TaskStatus(token="t")).answer())["state"] == 6


async def test_a_new_task_takes_the_place_of_one_that_ended() -> None:
    async with world(Reader) as w:
        for _ in range(2):
            await w.ask(Execute(pipeline=PIPELINE, token="again")).answer()
            assert (await w.ask(TaskStatus(token="again")).answer())["state"] == 3
            await w.ask(Terminate(token="again")).answer()
        await w.ask(Execute(pipeline=PIPELINE, token="again")).answer()
        await w.ask(Terminate(token="again")).answer()
        assert (await w.ask(TaskStatus(token="again")).answer())["state"] == 6


async def test_another_user_is_not_told_of_a_task_that_ended() -> None:
    ada, bob = (Caller(connection_id=name, user_id=name, trusted=False) for name in ("ada", "bob"))
    async with world(Reader) as w:
        await w.ask(Execute(pipeline=PIPELINE, token="hers"), caller=ada).answer()
        await w.ask(Terminate(token="hers"), caller=ada).answer()
        assert (await w.ask(TaskStatus(token="hers"), caller=ada).answer())["state"] == 6
        assert (await w.ask(TaskStatus(token="hers"), caller=bob).error()).code == "TASK_NOT_REGISTERED"
        assert (await w.ask(Terminate(token="hers"), caller=bob).error()).code == "TASK_NOT_REGISTERED"
