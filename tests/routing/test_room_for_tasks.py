"""The limit of tasks of a user: no process starts for a pipeline that is beyond it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from routed_engine import pipeline, routed

from rrext.engine.tasks import registry
from rrext.errors import TooManyRequests


async def test_pipelines_beyond_the_limit_of_a_user_start_no_process_though_others_are_loaded_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "MAX_REMOTE_TASKS", 2)
    async with routed() as world:
        take, taken = world.engine.pool.take, list[Any]()

        async def noted(*given: Any, **more: Any) -> Any:
            taken.append(given)
            return await take(*given, **more)

        monkeypatch.setattr(world.engine.pool, "take", noted)
        names = [f"p{number}" for number in range(5)]
        loads = [world.engine.loader.load(pipeline(name), token=name, remote=True, owner="ann") for name in names]
        told = await asyncio.gather(*loads, return_exceptions=True)
        assert [isinstance(each, TooManyRequests) for each in told] == [False, False, True, True, True]
        assert len(taken) == 2
        with pytest.raises(TooManyRequests):
            await world.engine.loader.load(pipeline("p5"), remote=True, owner="ann", use_existing=True)
        assert (await world.engine.loader.load(pipeline("p0"), remote=True, owner="ann", use_existing=True)).token == "p0"
        await world.engine.loader.load(pipeline("p6"), token="p6", remote=True, owner="bob")
        first = next(task for task in world.engine.tasks if task.token == "p1")
        await world.engine.unload(first, patience=0.1)
        await world.engine.loader.load(pipeline("p7"), token="p7", remote=True, owner="ann")
