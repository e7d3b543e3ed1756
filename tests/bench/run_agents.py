"""What does an agent of rrext cost, beside pydantic-ai alone with the same model server and the same tools?

    python tests/bench/run_agents.py [--least]

A run has two turns; the first calls two tools at once. The model server is a process of its own. Both sides take turns;
figures are medians of processor time, and only ratios of one run mean something. Exit code 1: a limit was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "nodes" / "agent")]

from agent_world import Events, Tools, pipeline  # noqa: E402
from engine_world import Asked, AsyncPark, until  # noqa: E402
from model_server import Call, Gate, Say, serving  # noqa: E402

from rrext.engine.interface.call import Call as EngineCall  # noqa: E402
from rrext.engine.interface.operations import Tool  # noqa: E402
from rrext.engine.local_engine import LocalEngine  # noqa: E402
from rrext.nodes.base.node import Node  # noqa: E402
from rrext.pipefile.catalog.catalog import Catalog  # noqa: E402
from rrext.tools.decorator import tool_function  # noqa: E402

LIMITS = {"run": 1.2, "events": 1.06, "stalled": 0.010, "tool": 0.002, "late": 0.050}
"""CPU of a run to that of pydantic-ai alone, with events to without; seconds until a stalled model's connection and an async
tool are closed; seconds by which the engine's loop is late at p99 while a hundred agents run."""

SERVER = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from model_server import Call, Say, serving
def play(asked):
    if asked.results: return Say("It is 3, and you are somebody.")
    return Say("I look.", calls=[Call("add", {"a": 1, "b": 2}), Call("whoami")])
with serving() as server:
    server.plays(play)
    print(server.address, flush=True)
    sys.stdin.read()
"""


class Pair(Node):
    """The two tools of both sides."""

    provider = "toys"
    lot: AsyncPark

    @tool_function
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tool_function
    async def whoami(self) -> str:
        """The name of the user."""
        return "somebody"


class Source(Node):
    """Begins the pipeline."""

    provider = "source"
    lanes = {"_source": ("questions",)}
    class_types = ("source",)


class Subject:
    """An engine with one agent."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    def start(self, feed: Any = None) -> Asked:
        """Start a run."""
        asked = Asked()
        operation = Tool(tool="run_agent", node_id="agent_1", input={"query": "?"}, events=feed is not None)
        asked.call = EngineCall(operation, asked, request_id=1, feed=feed)
        self.engine.start(asked.call)
        return asked

    async def run(self, feed: Any = None) -> None:
        """One run."""
        answer = await self.start(feed).result()
        assert answer["content"].startswith("It is 3"), answer


@asynccontextmanager
async def subject(address: str, tools: type[Node] = Pair) -> AsyncIterator[Subject]:
    """The engine, ready."""
    engine = LocalEngine(catalog=Catalog([Source, tools]))
    server: Any = msgspec.defstruct("Server", ["address"])(address)
    engine.load(json.dumps(pipeline(server)), token="t")
    try:
        yield Subject(engine)
    finally:
        await engine.aclose()


def alone(address: str) -> Callable[[], Awaitable[None]]:
    """A run of pydantic-ai alone."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("test", provider=OpenAIProvider(base_url=address, api_key="k")))

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @agent.tool_plain
    async def whoami() -> str:
        """The name of the user."""
        return "somebody"

    async def run() -> None:
        async with agent.iter("?") as found:
            async for node in found:
                if Agent.is_model_request_node(node) or Agent.is_call_tools_node(node):
                    async with node.stream(found.ctx) as events:
                        async for _ in events:
                            pass
        assert found.result is not None
        assert found.result.output.startswith("It is 3")

    return run


async def cpu_of(run: Callable[[], Awaitable[None]], count: int) -> float:
    """Processor seconds of a run."""
    began = time.process_time()
    for _ in range(count):
        await run()
    return (time.process_time() - began) / count


async def lateness(run: Callable[[], Awaitable[None]], count: int) -> float:
    """By how many seconds this loop is late at p99 while `count` runs go at once."""
    late: list[float] = []

    async def watch() -> None:
        while True:
            due = time.monotonic() + 0.002
            await asyncio.sleep(0.002)
            late.append(time.monotonic() - due)

    watching = asyncio.ensure_future(watch())
    await asyncio.gather(*(run() for _ in range(count)))
    watching.cancel()
    return statistics.quantiles(late, n=100)[98] if len(late) > 2 else max(late)


async def cancels(count: int) -> tuple[float, float]:
    """Seconds from a cancel to the end of a stalled model's connection, and to that of an async tool: medians."""
    stalled: list[float] = []
    tool: list[float] = []
    with serving() as server:
        async with subject(server.address, Tools) as rrext:
            for _ in range(count):
                gate = Gate()
                server.next(Say(pieces=["It ", gate]))
                asked = rrext.start()
                await asyncio.to_thread(gate.reached.acquire)
                began = time.perf_counter()
                asked.call.cancel("cancelled", await _cancelled())
                await asyncio.to_thread(server.lost.acquire)
                stalled.append(time.perf_counter() - began)
                server.next(Say(calls=[Call("stay")]))
                Tools.lot = AsyncPark()
                asked = rrext.start()
                await until(lambda: Tools.lot.inside)
                began = time.perf_counter()
                asked.call.cancel("cancelled", await _cancelled())
                while Tools.lot.inside:
                    await asyncio.sleep(0)
                tool.append(time.perf_counter() - began)
    return statistics.median(stalled), statistics.median(tool)


async def _cancelled() -> Any:
    from rrext.errors import Cancelled

    return Cancelled()


async def measure(address: str, rounds: int, count: int, crowd: int) -> dict[str, float]:
    """The figures of a run of the benchmark."""
    bare = alone(address)
    samples: dict[str, list[float]] = {"alone": [], "rrext": [], "events": []}
    async with subject(address) as rrext:
        for run in (bare, rrext.run):
            await run()
        for _ in range(rounds):
            samples["alone"].append(await cpu_of(bare, count))
            samples["rrext"].append(await cpu_of(rrext.run, count))
            samples["events"].append(await cpu_of(lambda: rrext.run(Events()), count))
        late, bare_late = await lateness(rrext.run, crowd), await lateness(bare, crowd)
    stalled, tool = await cancels(rounds)
    medians = {name: statistics.median(found) for name, found in samples.items()}
    return {
        "alone": medians["alone"],
        "run": medians["rrext"] / medians["alone"],
        "events": medians["events"] / medians["rrext"],
        "stalled": stalled,
        "tool": tool,
        "late": late,
        "bare late": bare_late,
    }


def main() -> int:
    """Measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--least", action="store_true", help="the fewest runs, to see that all is measured")
    given = parser.parse_args()
    command = [sys.executable, "-c", SERVER, str(TESTS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        address = server.stdout.readline().strip()
        figures = asyncio.run(measure(address, *((1, 2, 3) if given.least else (9, 20, 100))))
        server.stdin.close()
    missed = [name for name, most in LIMITS.items() if figures[name] > most]
    for name, figure in figures.items():
        limit = f"  (limit {LIMITS[name]:g}{', missed' if name in missed else ''})" if name in LIMITS else ""
        print(f"{name:10} {figure:.4f}{limit}")
    return 1 if missed and not given.least else 0


if __name__ == "__main__":
    sys.exit(main())
