"""A call of a tool on a host beside a call of an actor of Ray, each as a program makes it: `python bench_ray.py HEAD CALLS`
prints how many times as long that of Ray takes. Ours go from a client over stdio to a server and on to the host, by a deadline,
by itself and on a pipe; Ray's from the program to the actor, by `ray.get(…, timeout=…)`.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("cluster", "tasks", "faces", "."))]

TURNS = 9
DEADLINE = 30.0
"""Seconds that a call may take: programs give one."""


def ray_ratios(calls: int) -> dict[str, float]:
    """The ratios, on a new cluster of one node."""
    from ray_cluster import ray_head, variables

    given = variables()
    with ray_head(**given) as head:
        command, environment = [sys.executable, __file__, head, str(calls)], {**os.environ, **given}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


class Adder:
    """What an actor of Ray does, as `add` of the bench nodes."""

    def add(self, a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}


async def compared(ray: Any, actor: Any, calls: int) -> dict[str, float]:
    """Way of a call → the median of the ratios of the turns."""
    from bench_subject import SUM, check

    from rrext import Client

    async def timed(call: Callable[[], Awaitable[Any]]) -> float:
        """The median of some calls, in seconds."""
        found: list[float] = []
        for _ in range(calls // TURNS):
            begun = time.perf_counter()
            answer = await call()
            found.append(time.perf_counter() - begun)
            check(answer, SUM)
        return statistics.median(found)

    async def rays() -> Any:
        return ray.get(actor.add.remote(1, 2), timeout=DEADLINE)

    command = [sys.executable, str(HERE.parent / "cluster" / "served_on_hosts.py"), "serve"]
    options: Any = {"command": command, "nodes": [HERE / "bench_nodes.py"], "args": ["--isolation", "process"]}
    ratios: dict[str, list[float]] = defaultdict(list)
    async with Client.spawn(HERE / "bench.pipe", **options) as client, client.pipe() as pipe:
        add: Any = {"tool": "add", "input": {"a": 1, "b": 2}, "timeout": DEADLINE}
        for turn in range(TURNS + 1):
            ours = {"Ray's call": await timed(lambda: client.tool(**add)), "on a pipe": await timed(lambda: pipe.tool(**add))}
            theirs = await timed(rays)
            if turn:  # the first one warms up
                for way, seconds in ours.items():
                    ratios[way].append(theirs / seconds)
    return {way: statistics.median(each) for way, each in ratios.items()}


def main() -> None:
    import ray

    head, calls = sys.argv[1:]
    ray.init(address=head, logging_level="ERROR", log_to_driver=False)
    print(json.dumps(asyncio.run(compared(ray, ray.remote(Adder).remote(), int(calls)))))


if __name__ == "__main__":
    main()
