"""What a call costs from the SDK: each way takes turns with the one that it is compared with, on servers of their own."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from bare_client import BareClient
from bench_client import ENVIRONMENT
from bench_subject import ADD, Figures, Size, Subject, no_collector, on_one_core, same_core

import rrext
import rrext.blocking

BLOCK = 50
INPUT = {"a": 1, "b": 2}
RESOLVED = 200

Block = Callable[[], Awaitable[list[float]]]
"""Makes BLOCK calls one after another, and says how long each took."""


def sdk_shapes(subject: Subject, size: Size) -> Figures:
    """The async client beside raw frames on one core, then the blocking client beside the async one on free cores."""
    with on_one_core():
        figures = asyncio.run(on_the_same_core(subject, size.calls // BLOCK))
    return figures | asyncio.run(on_free_cores(subject, size.calls // BLOCK))


async def on_the_same_core(subject: Subject, turns: int) -> Figures:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(subject.start(cpus=same_core()))
        bare = stack.enter_context(BareClient(stack.enter_context(subject.start(cpus=same_core()))))
        client = await stack.enter_async_context(spawned(rrext.Client, subject))
        other = await stack.enter_async_context(spawned(rrext.Client, subject, dialect="jsonrpc"))
        pipe = await stack.enter_async_context(client.pipe())
        requests = server.frames(BLOCK, "add", ADD)
        reference = {"type": "node", "node": "bench_1", "tool": "add"}
        references = [{**reference, "name": f"add_{number}"} for number in range(RESOLVED)]
        wrapped = await client.tools_resolve([{**reference, "name": "add_2", "arguments": {"b": 2}}])
        fixed = wrapped["custom"][0]["call_ref"]

        async def resolved() -> list[float]:
            taken = time.perf_counter()
            await client.tools_resolve(references)
            return [time.perf_counter() - taken]

        async def raw() -> list[float]:
            return server.latencies(requests)

        return await take_turns(
            {
                "raw call": raw,
                "bare asyncio client": timed(lambda: bare.tool("add", INPUT)),
                "client.tool()": timed(lambda: client.tool(tool="add", input=INPUT)),
                "client.tool(timeout=)": timed(lambda: client.tool(tool="add", input=INPUT, timeout=30)),
                "client.tool(context=)": timed(lambda: client.tool(tool="add", input=INPUT, context={"userId": "u"})),
                "client.tool(progress=)": timed(lambda: client.tool(tool="add", input=INPUT, progress=unseen)),
                "JSON-RPC client": timed(lambda: other.tool(tool="add", input=INPUT)),
                "client.tools_call()": timed(lambda: client.tools_call("tools.node.bench_1.add.self", INPUT)),
                "client.tools_call(), b fixed": timed(lambda: client.tools_call(fixed, {"a": 1})),
                "resolve of 200 references": resolved,
                "pipe.tool()": timed(lambda: pipe.tool(tool="add", input=INPUT)),
            },
            turns,
        )


async def on_free_cores(subject: Subject, turns: int) -> Figures:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(spawned(rrext.Client, subject))
        blocking = stack.enter_context(spawned(rrext.blocking.Client, subject))

        async def blocked() -> list[float]:
            return [clocked(lambda: blocking.tool(tool="add", input=INPUT)) for _ in range(BLOCK)]

        calls = {"async client": timed(lambda: client.tool(tool="add", input=INPUT)), "blocking client": blocked}
        return await take_turns(calls, turns)


def timed(call: Callable[[], Awaitable[object]]) -> Block:
    async def block() -> list[float]:
        taken, now = [], time.perf_counter
        for _ in range(BLOCK):
            start = now()
            await call()
            taken.append(now() - start)
        return taken

    return block


def clocked(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


async def take_turns(blocks: dict[str, Block], turns: int) -> Figures:
    taken: dict[str, list[float]] = defaultdict(list)
    order = list(blocks)
    for way in order:
        await blocks[way]()
    with no_collector():
        for _ in range(turns):
            random.shuffle(order)
            for way in order:
                taken[way] += await blocks[way]()
    return {f"{way} p50 µs": statistics.median(values) * 1e6 for way, values in taken.items()}


def unseen(*progress: object) -> None:
    """Takes the progress of a tool that makes none."""


def spawned(client: Any, subject: Subject, **options: Any) -> Any:
    """A client of a server of the benchmark, in the environment that all servers have."""
    return client.spawn(command=subject.command, env=ENVIRONMENT, **options)
