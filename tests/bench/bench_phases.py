"""What is measured: each phase starts a server of its own, measures, and returns named figures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench_client import Server, write_all
from bench_http import http_calls
from bench_network import network
from bench_outside import outside_calls
from bench_sdk import sdk_shapes
from bench_shapes import many_calls, server_shapes
from bench_subject import ADD, MIB, SUM, WINDOW, Figures, Size, Subject, check, on_one_core, other_cores

PIPES = 4


def start(subject: Subject, size: Size) -> Figures:
    """From spawn to the first tool result, as a client sees it."""
    with subject.start() as server:
        check(server.call("add", ADD), SUM)
        return {"start ms": (time.perf_counter() - server.spawned) * 1e3}


def starts(subject: Subject, size: Size) -> Figures:
    """The same, and for the server over MCP."""
    return start(subject, size) | {f"MCP {figure}": value for figure, value in start(subject.over_mcp(), size).items()}


def sleeps(subject: Subject, size: Size) -> Figures:
    """200 calls at once of a tool that blocks its thread for 50 ms; wall time until all are answered."""
    with subject.start() as server:
        check(server.call("sleep", b'{"ms":1}'), {"slept": 1})
        requests = server.frames(200, "sleep", b'{"ms":50}')
        begun = time.perf_counter()
        write_all(server.to, [b"".join(requests)])
        for result in server.results(len(requests)):
            check(result, {"slept": 50})
        return {"sleep ms": (time.perf_counter() - begun) * 1e3}


def raw_writes(subject: Subject, size: Size) -> Figures:
    """1 MiB pieces as raw bytes, one in flight on each of four pipes; the client has a core of its own."""
    with on_one_core(), subject.start(cpus=other_cores()) as server:
        flood(server, 16 * MIB)
        return {"write MB/s": flood(server, size.raw)}


def base64_writes(subject: Subject, size: Size) -> Figures:
    """1 MiB pieces as base64 in JSON, four in flight: what a server does that has no raw bytes."""
    data = os.urandom(MIB)
    with on_one_core(), subject.start(cpus=other_cores()) as server:
        ready = [server.base64_write(i, data) for i in range(PIPES)]
        begun = time.perf_counter()
        count = size.base64 // MIB
        for i in range(count):
            write_all(server.to, ready[i % PIPES])
            if i >= PIPES - 1:
                check(server.dialect.answer(server.receive())[1], {"bytes": MIB})
        for _ in range(PIPES - 1):
            check(server.dialect.answer(server.receive())[1], {"bytes": MIB})
        return {"write MB/s": count * MIB / (time.perf_counter() - begun) / 1e6}


def soak(subject: Subject, size: Size) -> Figures:
    """Growth of memory over many calls, after the first 2,000."""
    with subject.start() as server:
        requests = server.frames(1000, "add", ADD) + server.frames(1000, "add_async", ADD)
        server.burst(requests, WINDOW, 30)
        before = server.memory()
        for _ in range(size.soak // len(requests)):
            server.burst(requests, WINDOW, 30)
        return {"soak MiB": server.memory() - before}


def flood_memory(subject: Subject, size: Size) -> Figures:
    """Growth of memory over a long write, between its first tenth and its end."""
    with subject.start(seconds=120) as server:
        flood(server, size.flood // 10)
        before = server.memory()
        flood(server, size.flood - size.flood // 10)
        return {"flood MiB": server.memory() - before}


def flood(server: Server, total: int) -> float:
    """Write `total` bytes over four pipes and close them; MB per second. What arrived is counted, by rrext's own node."""
    data, pipes = os.urandom(MIB), server.open_pipes(PIPES)
    count, sent, done = total // MIB, 0, 0
    owner: dict[int, int] = {}

    def write(pipe: int) -> None:
        nonlocal sent
        owner[sent] = pipe
        write_all(server.to, server.raw_write(sent + 1, pipe, data))
        sent += 1

    begun = time.perf_counter()
    for pipe in pipes:
        write(pipe)
    while done < count:
        number, _ = server.dialect.answer(server.receive())
        assert number is not None
        done += 1
        if sent < count:
            write(owner.pop(number - 1))
    speed = done * MIB / (time.perf_counter() - begun) / 1e6
    seen = close_pipes(server, pipes)
    if seen and seen != done * MIB:
        raise RuntimeError(f"{done * MIB} bytes were written, {seen} arrived")
    return speed


def close_pipes(server: Server, pipes: list[int]) -> int:
    """Close the pipes; how many bytes arrived on them, or 0 of a server that does not count."""
    seen = 0
    for i, pipe in enumerate(pipes):
        counted = server.process_request(
            10_000_000 + 2 * i, subcommand="tool", nodeId="sink_1", tool="total_bytes", input={}, pipe_id=pipe
        )
        seen += counted["result"] if isinstance(counted["result"], int) else 0
        server.process_request(10_000_001 + 2 * i, subcommand="close", pipe_id=pipe)
    return seen


def shapes(subject: Subject, size: Size) -> Figures:
    return server_shapes(subject, size) | sdk_shapes(subject, size)


def memory(subject: Subject, size: Size) -> Figures:
    return soak(subject, size) | flood_memory(subject, size)


@dataclass(frozen=True)
class Phase:
    """One kind of measurement: how often, and what is done with each server that takes part."""

    rounds: int
    quick_rounds: int
    subjects: dict[str, Callable[[Subject, Size], Figures]]


PHASES: dict[str, Phase] = {
    "shapes": Phase(5, 3, {"rrext": shapes, "mcp": many_calls, "node": many_calls}),
    "http": Phase(5, 3, {"rrext": http_calls}),
    "outside": Phase(5, 3, {"rrext": outside_calls}),
    "start": Phase(11, 5, {"rrext": starts, "mcp": start, "mcp-ts": start}),
    "sleep": Phase(3, 1, {"rrext": sleeps}),
    "write": Phase(5, 3, {"rrext": raw_writes, "floor": raw_writes, "node": base64_writes}),
    "network": Phase(5, 3, {"rrext": network}),
    "memory": Phase(1, 1, {"rrext": memory}),
}
