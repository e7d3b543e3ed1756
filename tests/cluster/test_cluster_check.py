"""`rrext cluster check`: what it tells of the nodes. `test_ray.py` runs it on a cluster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from rrext.cli.commands.servers.cluster import CALLS, findings
from rrext.cluster.placement import NodeState
from rrext.errors import Unavailable

HAS = {"cpu": 2.0, "gpu": 0.0, "memory": 0.0}


async def test_nodes_are_looked_at_at_once_and_each_is_told_with_its_own_fault() -> None:
    begun: list[str] = []
    all_begun = asyncio.Event()
    calls: list[str] = []

    async def load(pipeline: dict[str, Any], *, token: str) -> Any:
        begun.append(pipeline["resources"]["node"])
        if len(begun) == 3:
            all_begun.set()
        await all_begun.wait()
        if token == "check-2":
            raise Unavailable("it is full", hint="wait")
        return SimpleNamespace(token=token)

    async def ask(operation: Any, caller: Any) -> None:
        calls.append(operation.token)

    engine: Any = SimpleNamespace(
        loader=SimpleNamespace(load=load), ask=ask, versions_of=lambda task: f"versions of {task.token}"
    )
    nodes = [NodeState(f"n{number}", "10.0.0.1", HAS, HAS, number == 4, str(number)) for number in (1, 2, 3, 4)]
    async with asyncio.timeout(10):
        found = await findings(engine, nodes)
    assert [(each.node, each.problem) for each in found] == [
        ("n1", ""),
        ("n2", "it is full (wait)"),
        ("n3", ""),
        ("n4", "it is drained: it gets no tasks"),
    ]
    assert [each.versions for each in found] == ["versions of check-1", "", "versions of check-3", ""]
    assert calls == ["check-1"] * CALLS + ["check-3"] * CALLS
