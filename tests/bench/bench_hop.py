"""What a task in a process of its own costs, beside one in the server's process, and what a slow reader costs other clients of
both: over WebSockets, in turns."""

from __future__ import annotations

import itertools
import json
import os
import socket
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench_client import FIRST_ID, Dap
from bench_sockets import IN_8, MASK, WebServer, call, children_of, message, received, together, whole
from bench_subject import ADD, MIB, SUM, WINDOW, Figures, Size, Subject, check, no_collector, on_one_core

PLAIN = ""
PLACES = {"process": "a process", "none": "the server"}
"""Isolation → where its tasks run."""
PAGE_BYTES = 20_000
READERS = {"quick": 2, "slow": 1000}
"""A client → how many calls it has in flight whose results are that long: 20 MB are more than the buffers of both sockets
take. One call in flight would be over before the clock starts."""
BLOCK = 100
PIPES = 4
TURNS = 5
EXECUTES = 10
REST = 0.4
"""Seconds in which the server has a process ready for the next task, or has begun the calls whose answers nobody reads."""


@contextmanager
def both(subject: Subject) -> Iterator[dict[str, tuple[WebServer, socket.socket]]]:
    """A server and a client of it for each place."""
    with ExitStack() as stack:
        found: dict[str, tuple[WebServer, socket.socket]] = {}
        for isolation, place in PLACES.items():
            server = stack.enter_context(WebServer([*subject.command, "--isolation", isolation, "--ws", "127.0.0.1:0"]))
            found[place] = server, stack.enter_context(server.clients(1))[0]
        yield found


def hop_calls(subject: Subject, size: Size) -> Figures:
    """Calls, and the loading of pipelines. All on one core: what counts is all the work that a call needs."""
    found: dict[str, list[float]] = defaultdict(list)
    with on_one_core(), both(subject) as servers:
        requests = {place: shapes_of(end) for place, (_, end) in servers.items()}
        for place, (_, end) in servers.items():
            calls(end, requests[place][PLAIN], BLOCK)
        workers = children_of(servers["a process"][0].process.pid)
        found["process MiB"] += (proportional(pid) / 1024 for pid in workers)
        with no_collector():
            for _ in range(TURNS):
                for place, (_, end) in servers.items():
                    for shape, request in requests[place].items():
                        found[f"{shape}in {place} µs"] += calls(end, request, size.calls // TURNS)
                    found[f"20 KB, in {place} calls/s"].append(together([end], list(map(page, range(WINDOW))), size.calls)[0])
            for place, (server, end) in servers.items():
                for reader, behind in READERS.items():
                    with server.clients(1) as (other,):
                        taken = beside(other, behind, end, requests[place][PLAIN], size.calls // 2)
                    found[f"beside a {reader} reader, in {place} µs"] += taken
        for _ in range(-(-EXECUTES // size.fewer)):
            for place, (_, end) in servers.items():
                time.sleep(REST)
                found[f"execute in {place} ms"].append(executed(end, subject.command[-1]))
    return {name: statistics.median(values) for name, values in found.items()}


def hop_writes(subject: Subject, size: Size) -> Figures:
    """Raw bytes, which both processes work at, on all cores."""
    found: dict[str, list[float]] = defaultdict(list)
    with both(subject) as servers:
        for _, end in servers.values():
            flood(end, 8)
        for _ in range(TURNS):
            for place, (_, end) in servers.items():
                found[f"in {place} MB/s"].append(flood(end, size.base64 // TURNS // MIB))
    return {name: statistics.median(values) for name, values in found.items()}


def shapes_of(end: socket.socket) -> dict[str, bytes]:
    """A call in each of the shapes that the two processes share work of."""
    pipe = process_request(end, subcommand="open", object={"name": "bench"})["pipe_id"]
    shapes: dict[str, dict[str, Any]] = {PLAIN: {}, "with timeout, ": {"timeout": 30}, "on a pipe, ": {"pipe_id": pipe}}
    return {shape: message(Dap().request(FIRST_ID, "add", ADD, token="bench", **given)) for shape, given in shapes.items()}


def page(number: int) -> bytes:
    """A call with a result of 20 KB."""
    return message(Dap().request(FIRST_ID + number, "page", b"{}", token="bench"))


def calls(end: socket.socket, request: bytes, count: int) -> list[float]:
    """µs of calls one after another."""
    taken: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        answer = call(end, request)
        taken.append((time.perf_counter() - begun) * 1e6)
        check(answer["body"]["result"], SUM)
    return taken


def beside(other: socket.socket, behind: int, end: socket.socket, request: bytes, count: int) -> list[float]:
    """µs of calls, before each of which another client reads about one of the answers that it asked for, and asks for more."""
    taken: list[float] = []
    left = b""
    pages = map(page, itertools.count())
    other.sendall(b"".join(itertools.islice(pages, behind)))
    time.sleep(REST)
    for _ in range(count):
        answers, left = whole(left + received(other, PAGE_BYTES))
        other.sendall(b"".join(itertools.islice(pages, answers)))
        taken += calls(end, request, 1)
    return taken


def flood(end: socket.socket, count: int) -> float:
    """MB per second of raw bytes in pieces of 1 MiB, one in flight on each of some pipes."""
    data = os.urandom(MIB)
    pipes = [process_request(end, subcommand="open", object={"name": "bench"})["pipe_id"] for _ in range(PIPES)]
    heads = [raw_head(number, pipes[number % PIPES]) for number in range(count)]
    done, held = 0, b""
    begun = time.perf_counter()
    for sent in range(count + PIPES):
        while done < sent + 1 - PIPES:
            answers, held = whole(held + received(end))
            done += answers
        if sent < count:
            end.sendall(heads[sent])
            end.sendall(data)
    speed = count * MIB / (time.perf_counter() - begun) / 1e6
    arrived = 0
    for pipe in pipes:
        arrived += process_request(end, subcommand="tool", tool="total_bytes", nodeId="sink_1", input={}, pipe_id=pipe)[
            "result"
        ]
        process_request(end, subcommand="close", pipe_id=pipe)
    check(arrived, count * MIB)
    return speed


def raw_head(number: int, pipe: int) -> bytes:
    """What stands before the bytes of a `write`, in its message."""
    head = {"type": "request", "seq": FIRST_ID + 1 + number, "command": "rrext_process"}
    line = json.dumps({**head, "arguments": {"subcommand": "write", "pipe_id": pipe, "token": "bench"}}).encode() + b"\n"
    return bytes((0x82, 0x80 | IN_8)) + (len(line) + MIB).to_bytes(8, "big") + MASK + line


def process_request(end: socket.socket, **arguments: Any) -> dict[str, Any]:
    """The body of the answer to a request about a pipe or a tool."""
    return asked(end, "rrext_process", token="bench", **arguments)


def asked(end: socket.socket, command: str, **arguments: Any) -> dict[str, Any]:
    """The body of the answer to a request."""
    request = {"type": "request", "seq": FIRST_ID, "command": command, "arguments": arguments}
    answer = call(end, message(json.dumps(request).encode()))
    if not answer["success"]:
        raise RuntimeError(answer["message"])
    return answer["body"]


def executed(end: socket.socket, path: str) -> float:
    """Milliseconds from `execute` to the first result of a tool of the new task."""
    pipeline = json.loads(Path(path).read_text()) | {"project_id": "executed"}
    begun = time.perf_counter()
    asked(end, "execute", pipeline=pipeline, token="executed")
    body = asked(end, "rrext_process", token="executed", subcommand="tool", tool="add", input={"a": 1, "b": 2})
    taken = (time.perf_counter() - begun) * 1e3
    check(body["result"], SUM)
    asked(end, "terminate", token="executed")
    return taken


def proportional(pid: int, kind: str = "Pss") -> float:
    """KiB of a process: its share of what it has in common with others, or memory of another kind."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))
