"""What a call costs in the shapes that people use: all shapes and the floor take turns, on one server each and on one core."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict

from bench_client import Dap, Server, write_all
from bench_peers import python_floor
from bench_subject import ADD, SUM, WINDOW, Figures, Size, Subject, check, no_collector, on_one_core, same_core

BLOCK = 50
"""Calls of one shape before the next shape has its turn: short beside whatever disturbs the machine."""
BATCH = 256
SLOW_MS = 5
FIRST_BATCH = 5_000_000

TOOLS = {"def": "add", "async def": "add_async"}
SHAPES: dict[str, dict[str, object]] = {
    "plain": {},
    "with nodeId": {"nodeId": "bench_1"},
    "with timeout": {"timeout": 30},
    "with context": {"context": {"userId": "u"}},
    "with progress": {"progress": True},
    "on a pipe": {"pipe_id": 0},
}
CONTEXT = "with a ToolContext"


def server_shapes(subject: Subject, size: Size) -> Figures:
    """The median of each shape, what a batch costs behind a slow call, and calls per second with 64 of them unanswered."""
    floor = Subject("Python floor", python_floor(), Dap())
    core = same_core()
    with (
        on_one_core(),
        subject.start(cpus=core) as server,
        floor.start(cpus=core) as least,
        subject.over_mcp().start(cpus=core) as mcp,
    ):
        requests = {f"{shape} {kind}": (server, made) for kind in TOOLS for shape, made in frames_of(server, kind).items()}
        requests["Python floor"] = (least, least.frames(BLOCK, "add", ADD))
        requests["over MCP"] = (mcp, mcp.frames(BLOCK, "add", ADD))
        for to, made in requests.values():
            write_all(to.to, made[:1])
            check(next(to.results(1)), SUM)
            to.latencies(made)
        with no_collector():
            figures = take_turns(requests, size.calls // BLOCK) | batches(server, size.calls // 100)
            for kind, tool in TOOLS.items():
                figures[f"{kind} calls/s"] = throughput(server, tool, size)
            figures["over MCP calls/s"] = throughput(mcp, "add", size)
        return figures


def frames_of(server: Server, kind: str) -> dict[str, list[bytes]]:
    """A block of ready requests for each shape of the tool."""
    made = {}
    for shape, arguments in SHAPES.items():
        given = {**arguments, "pipe_id": server.open_pipes(1)[0]} if "pipe_id" in arguments else arguments
        made[shape] = server.frames(BLOCK, TOOLS[kind], ADD, **given)
    return {**made, CONTEXT: server.frames(BLOCK, f"{TOOLS[kind]}_context", ADD)}


def take_turns(requests: dict[str, tuple[Server, list[bytes]]], turns: int) -> Figures:
    taken: dict[str, list[float]] = defaultdict(list)
    order = list(requests)
    for _ in range(turns):
        random.shuffle(order)
        for shape in order:
            server, made = requests[shape]
            taken[shape] += server.latencies(made)
    return {f"{shape} p50 µs": statistics.median(values) * 1e6 for shape, values in taken.items()}


def batches(server: Server, turns: int) -> Figures:
    """Processor time of the server for a `def` call of a batch, with and without a slow call at the start of that batch.

    The slow call delays nothing that it must not, so a clock on the wall would measure how long the server watches it.
    """
    calls = server.frames(BATCH, "add", ADD)
    plain = b"".join(calls)
    slow = server.frame(server.dialect.request(FIRST_BATCH, "sleep", b'{"ms":%d}' % SLOW_MS)) + plain
    taken: dict[str, list[float]] = {"def batch": [], "def batch behind a slow call": []}
    for _ in range(turns):
        for name, batch in zip(taken, (plain, slow), strict=True):
            server.latencies(calls[:BLOCK])  # what the batch before left behind is over
            before = server.processor_seconds()
            write_all(server.to, [batch])
            for _ in server.results(BATCH + (batch is slow)):
                pass
            taken[name].append((server.processor_seconds() - before) / BATCH)
    return {f"{name} CPU µs": statistics.median(values) * 1e6 for name, values in taken.items()}


def throughput(server: Server, tool: str, size: Size) -> float:
    server.burst(server.frames(2000, tool, ADD), WINDOW, 5)  # a compiler that learns has had its time
    return server.burst(server.frames(size.burst, tool, ADD), WINDOW, size.burst_seconds)


def many_calls(subject: Subject, size: Size) -> Figures:
    """Calls per second of a server that has one kind of tool."""
    with on_one_core(), subject.start(cpus=same_core()) as server:
        check(server.call("add", ADD), SUM)
        with no_collector():
            return {"calls/s": throughput(server, "add", size)}
