"""The looks for what dead workers left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from rrext.tasks.families import Sweeps


async def test_one_look_serves_all_workers_that_died_meanwhile_and_those_of_other_machines_need_none() -> None:
    looks, go = list[list[int]](), asyncio.Event()

    async def look(marks: list[int]) -> None:
        looks.append(marks)
        await go.wait()
        if len(looks) == 1:
            raise OSError("as asked")  # the next one goes on

    def begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    sweeps = Sweeps(begin, look)
    await sweeps.done()
    sweeps.add(0)
    await sweeps.done()
    assert not looks
    for mark in (1, 2):
        sweeps.add(mark)
    await sweeps.done(0.01)
    for mark in (3, 4, 0, 5):
        sweeps.add(mark)
    go.set()
    await sweeps.done()
    assert looks == [[1, 2], [3, 4, 5]]
