"""A call of a tool on a host beside a call of an actor of Ray, both from one process: `python bench_ray.py HEAD CALLS` prints
how many times as long the second one takes."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("cluster", "tasks", "faces", "."))]

TURNS = 9


def ray_ratio(calls: int) -> float:
    """The ratio, on a new cluster of one node."""
    from ray_cluster import ray_head, variables

    given = variables()
    with ray_head(**given) as head:
        command, environment = [sys.executable, __file__, head, str(calls)], {**os.environ, **given}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    return float(done.stdout.splitlines()[-1])


class Adder:
    """What an actor of Ray does, as `add` of the bench nodes."""

    def add(self, a: int, b: int) -> dict[str, int]:
        """Add two numbers."""
        return {"sum": a + b}


async def compared(ray: Any, actor: Any, calls: int) -> float:
    """The median of the ratios of the turns."""
    from bench_subject import SUM, check
    from plain_hosts import plain_links

    from rrext.engine.interface.operations import Execute, Tool
    from rrext.limits import DEFAULTS
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.catalog.plugins import load_nodes
    from rrext.pipefile.environment import Environment
    from rrext.tasks.settings import WorkerSettings
    from rrext.tasks.task_engine import TaskEngine

    nodes = str(HERE / "bench_nodes.py")
    settings = WorkerSettings(number=0, limits=DEFAULTS, nodes=[nodes])
    catalog, environment = Catalog(load_nodes(nodes)), Environment({})
    engine = TaskEngine(catalog=catalog, environment=environment, settings=settings, links=plain_links(settings))
    try:
        await engine.ask(Execute(pipeline=(HERE / "bench.pipe").read_text(), token="bench"))
        add = Tool(token="bench", tool="add", input={"a": 1, "b": 2})
        ratios: list[float] = []
        for turn in range(TURNS + 1):
            ours, theirs = list[float](), list[float]()
            for _ in range(calls // TURNS):
                begun = time.perf_counter()
                await engine.ask(add)
                ours.append(time.perf_counter() - begun)
            for _ in range(calls // TURNS):
                begun = time.perf_counter()
                found = ray.get(actor.add.remote(1, 2))
                theirs.append(time.perf_counter() - begun)
            check(found, SUM)
            if turn:  # the first one warms up
                ratios.append(statistics.median(theirs) / statistics.median(ours))
        return statistics.median(ratios)
    finally:
        await engine.aclose()


def main() -> None:
    import ray

    head, calls = sys.argv[1:]
    ray.init(address=head, logging_level="ERROR", log_to_driver=False)
    print(asyncio.run(compared(ray, ray.remote(Adder).remote(), int(calls))))


if __name__ == "__main__":
    main()
