"""Clients of a network: what an idle one costs, how many calls a hundred make together, and the MCP SDK's own server beside."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from bench_client import FIRST_ID, Dap
from bench_hop import hop_calls, hop_writes
from bench_many import many_tasks
from bench_peers import SERVERS
from bench_sockets import WebServer, call, message, together
from bench_subject import ADD, SUM, WINDOW, Figures, Size, Subject, check, no_collector, on_one_core, other_cores

import rrext

IDLE = 1000
WARM = 50
CLIENTS = 100
EACH = 16
"""Calls in flight of each of the clients that call together."""
TURNS = 3
INPUT = {"a": 1, "b": 2}


def requests(count: int) -> list[bytes]:
    """Calls with ids of one width."""
    return [message(Dap().request(FIRST_ID + i, "add", ADD)) for i in range(count)]


def network(subject: Subject, size: Size) -> Figures:
    """Client and server have a core each, unless said otherwise."""
    command = [*subject.command, "--ws", "127.0.0.1:0"]
    with on_one_core():
        sdk = asyncio.run(sdk_clients(command, size))
        figures = idle_clients(command) | calling_clients(command, size) | sdk
    return figures | hop_calls(subject, size) | hop_writes(subject, size) | many_tasks(subject, size)


def idle_clients(command: list[str]) -> Figures:
    """KiB of the server for each of many clients that made a call and are silent since."""
    request = requests(1)[0]
    with WebServer(command, cpus=other_cores()) as server:

        def ask(count: int) -> dict[str, float]:
            with server.clients(count) as ends:
                for end in ends:
                    check(call(end, request)["body"]["result"], SUM)
                return server.memory()

        before, after = ask(WARM), ask(WARM + IDLE)
    return {f"idle client, {name} KiB": (after[name] - before[name]) / IDLE for name in after}


def calling_clients(command: list[str], size: Size) -> Figures:
    """Calls per second of one client and of many, in turns, and how long the slowest of them takes."""
    each = size.burst // CLIENTS
    speeds: dict[str, list[float]] = defaultdict(list)
    slowest: list[float] = []
    usual: list[float] = []
    with WebServer(command, cpus=other_cores()) as server, server.clients(1 + CLIENTS) as ends, no_collector():
        for end in ends:
            call(end, requests(1)[0])
        for _ in range(TURNS):
            speeds["one client"].append(together(ends[:1], requests(WINDOW), size.burst)[0])
            speed, taken = together(ends[1:], requests(EACH), each)
            speeds["100 clients"].append(speed)
            speeds["100 clients, a call each,"].append(together(ends[1:], requests(1), each // 2)[0])
            slowest.append(max(taken) * 1e3)
            usual.append(statistics.median(taken) * 1e3)
    figures = {f"{name} calls/s": statistics.median(values) for name, values in speeds.items()}
    return figures | {"slowest client ms": statistics.median(slowest), "median client ms": statistics.median(usual)}


async def sdk_clients(command: list[str], size: Size) -> Figures:
    """Calls per second of our client and our server, and of the SDK's client and its server; and what a call of the SDK's
    client, which is slower than both servers, costs each of them."""
    from mcp import Client

    theirs = [sys.executable, str(SERVERS / "mcp_python_http.py")]
    async with AsyncExitStack() as stack:
        ours, other = (stack.enter_context(WebServer(words, cpus=other_cores())) for words in (command, theirs))
        client = await stack.enter_async_context(rrext.Client.connect(f"ws://127.0.0.1:{ours.port}"))
        clients = [await stack.enter_async_context(Client(f"http://127.0.0.1:{server.port}/mcp")) for server in (ours, other)]
        check(await client.tool(tool="add", input=INPUT), SUM)
        for each in clients:
            check((await each.call_tool("add", INPUT)).structured_content, SUM)
        crossed, alone = clients
        found: dict[str, list[float]] = defaultdict(list)
        few = size.calls // 5
        for _ in range(TURNS):
            found["rrext.Client calls/s"].append(await in_flight(lambda: client.tool(tool="add", input=INPUT), size.calls))
            before = other.processor_seconds()
            found["MCP SDK calls/s"].append(await in_flight(lambda: alone.call_tool("add", INPUT), few))
            found["MCP SDK's server CPU µs"].append((other.processor_seconds() - before) / few * 1e6)
            before = ours.processor_seconds()
            await in_flight(lambda: crossed.call_tool("add", INPUT), few)
            found["for an MCP client CPU µs"].append((ours.processor_seconds() - before) / few * 1e6)
        return {name: statistics.median(values) for name, values in found.items()}


async def in_flight(way: Callable[[], Awaitable[object]], count: int) -> float:
    """Calls per second with a window of them unanswered."""
    left = count

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await way()

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(WINDOW)))
    return count / (time.perf_counter() - begun)
