"""A changed file of the operator takes the place of its own task alone, and former versions end with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from routed_engine import NODES, Noted, pipeline, routed, tool_of, until

from rrext.engine import base_engine
from rrext.engine.interface.call import Caller
from rrext.engine.interface.operations import Execute, Restart, Terminate
from rrext.engine.local_engine import LocalEngine
from rrext.errors import Cancelled, TaskAlreadyRunning, TaskNotRegistered
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.catalog.plugins import load_nodes

BOB = Caller(connection_id="bob", user_id="bob", trusted=False)


@asynccontextmanager
async def engine_of(isolation: str) -> AsyncIterator[Any]:
    """An engine, of whose pipelines one is the file `p`."""
    if isolation == "process":
        async with routed() as world:
            yield world.engine
    else:
        engine = LocalEngine(catalog=Catalog(load_nodes(NODES)))
        try:
            yield engine
        finally:
            await engine.aclose()


def text(project: str) -> bytes:
    return json.dumps(pipeline(project)).encode()


def projects(engine: Any) -> list[str]:
    return [task.project_id for task in engine.tasks]


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_changed_file_is_loaded_into_its_own_task_alone(isolation: str, of_this_machine: None) -> None:
    async with engine_of(isolation) as engine:
        await engine.load_file(text("file"), token="p", name="p", folder="", partial=False)
        await engine.ask(Execute(pipeline=pipeline("bob's"), token="p"), BOB)
        await engine.load_again("p", text("changed"))
        assert projects(engine) == ["bob's", "changed"]
        await engine.ask(Restart(token="p"))
        await engine.load_again("p", text("after a restart"))
        await engine.ask(Terminate(token="p"))
        assert projects(engine) == ["bob's"]
        with pytest.raises(TaskNotRegistered):
            await engine.load_again("p", text("after its end"))
        await engine.ask(Execute(pipeline=pipeline("a client's"), token="p"))
        with pytest.raises(TaskAlreadyRunning):
            await engine.load_again("p", text("after its end"))
        assert projects(engine) == ["bob's", "a client's"]


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_calls_of_former_versions_end_with_the_pipeline_and_the_oldest_of_too_many_before(
    isolation: str, of_this_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_engine, "MAX_LEAVING", 2)
    async with engine_of(isolation) as engine:
        await engine.load_file(text("file"), token="p", name="p", folder="", partial=False)
        await engine.ask(Execute(pipeline=pipeline("bob's"), token="p"), BOB)
        calls = []
        for number in range(4):
            calls.append(Noted(engine, tool_of("p", "wait")))
            assert await engine._is_busy(engine.task_of_file("p"))
            await engine.load_again("p", text(f"version {number}"))
        await until(lambda: len(engine.leaving) == 2)
        assert [len(call.answers) for call in calls] == [1, 1, 0, 0]
        await engine.exchange(next(task for task in engine.tasks if task.owner == "bob"))
        await engine.ask(Terminate(token="p"))
        assert [type(answer) for call in calls for answer in call.answers] == [Cancelled] * 4
        assert [task.project_id for task in engine.tasks] == ["bob's"]
        await until(lambda: not engine.leaving)
