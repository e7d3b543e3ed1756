"""What does a task on a host of a cluster cost, beside one in a process of the server's machine?

    python tests/bench/run_cluster.py [--least] [--ray]

Both servers are `rrext serve --ws`; the host is a plain process of this machine, without what places hosts on others: what
counts is the way of a call, over TLS and TCP. Both sides take turns, and only ratios of one run mean something. `--ray` starts
a cluster of Ray, and compares a call of an actor with ours, as programs make both: by a client, with a deadline, and on a pipe.
Exit code 1: a limit was missed.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

from bench_client import ENVIRONMENT  # noqa: E402
from bench_hop import PLAIN, asked, calls, executed, flood, page, proportional, shapes_of  # noqa: E402
from bench_ray import ray_ratios  # noqa: E402
from bench_sockets import WebServer, together  # noqa: E402
from bench_subject import LEAST, WINDOW, Size, no_collector  # noqa: E402

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

LIMITS = {
    "call": (1.6, 1),
    "calls together": (0.8, -1),
    "raw writes": (0.7, -1),
    "execute": (1.5, 1),
    "MiB a task": (20, 1),
    "server KiB a task": (30, 1),
    "Ray's call": (1, -1),
}
"""Figure → its limit on a host to that in a process, and 1 if it must not be above, -1 if not below. Memory: of each of 16
tasks, with the host; and that of the server for each further one that is idle. A call of Ray's: its time to that of ours, which
goes through a server."""

TURNS = 27
"""Of each side, short ones: neighbours on the machine pass within a second or two, so a ratio of neighbours scatters, and the
median of many holds."""

TASKS = 16
FURTHER = 48
REST = 0.4
"""Seconds in which a process is ready for the next task."""

SERVE = ["serve", str(HERE / "bench.pipe"), "--nodes", str(HERE / "bench_nodes.py"), "--ws", "127.0.0.1:0", "--trust-clients"]
COMMANDS = {
    "process": [sys.executable, "-m", "rrext", *SERVE, "--isolation", "process"],
    "host": [sys.executable, str(HERE.parent / "cluster" / "served_on_hosts.py"), *SERVE, "--isolation", "process"],
}


@contextmanager
def both() -> Iterator[dict[str, tuple[WebServer, socket.socket]]]:
    """Both servers, with a client of each."""
    with ExitStack() as stack:
        found: dict[str, tuple[WebServer, socket.socket]] = {}
        for place, command in COMMANDS.items():
            server = stack.enter_context(WebServer(command, seconds=600))
            found[place] = server, stack.enter_context(server.clients(1))[0]
        yield found


def measured(size: Size) -> dict[str, float]:
    """The ratios, and the memory of a task."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with both() as servers, no_collector():
        requests = {place: shapes_of(end)[PLAIN] for place, (_, end) in servers.items()}
        for place, (_, end) in servers.items():
            calls(end, requests[place], 200)
            flood(end, 8)
        for turn in range(TURNS):
            for place in sorted(servers, reverse=bool(turn % 2)):
                end = servers[place][1]
                found["call"][place].append(statistics.median(calls(end, requests[place], size.calls // TURNS)))
                same, pages = [requests[place]] * WINDOW, list(map(page, range(WINDOW)))
                found["calls together"][place].append(together([end], same, max(2 * WINDOW, size.burst // TURNS))[0])
                found["20 KB together"][place].append(together([end], pages, size.calls // TURNS + WINDOW)[0])
                found["raw writes"][place].append(flood(end, max(8, size.raw // TURNS >> 20)))
        for _ in range(-(-10 // size.fewer)):
            for place, (_, end) in servers.items():
                time.sleep(REST)
                found["execute"][place].append(executed(end, str(HERE / "bench.pipe")))
    ratios = {name: ratio(each["process"], each["host"]) for name, each in found.items()}
    return ratios | memory_of_tasks(TASKS // size.fewer or 1, FURTHER // size.fewer)


def ratio(before: list[float], after: list[float]) -> float:
    """The median of the ratios of the turns."""
    return statistics.median(b / a for a, b in zip(before, after, strict=True))


def memory_of_tasks(count: int, further: int) -> dict[str, float]:
    """MiB of each of some tasks on one host, with the host and its fork server; and KiB of the server for each further task."""
    with WebServer(COMMANDS["host"], seconds=600) as server, server.clients(1) as (end,):
        pipeline: dict[str, Any] = {
            "source": "webhook_1",
            "components": [{"id": "webhook_1", "provider": "webhook", "config": {}}],
        }

        def loaded(numbers: range) -> float:
            """KiB of the server when it has these tasks."""
            for number in numbers:
                asked(end, "execute", pipeline=pipeline | {"project_id": f"p{number}"}, token=f"t{number}")
            time.sleep(2 * REST)
            return proportional(server.process.pid, "Private_Dirty")

        before = loaded(range(count - 1))  # beside that of the file
        task = sum(map(proportional, descendants(server.process.pid))) / 1024 / count
        return {"MiB a task": task, "server KiB a task": (loaded(range(count, count + further)) - before) / further}


def descendants(pid: int) -> set[int]:
    """The processes below one."""
    parents = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--least", action="store_true", help="so little that only the way is tried")
    parser.add_argument("--ray", action="store_true", help="compare with a cluster of Ray too")
    given = parser.parse_args()
    size = LEAST if given.least else Size()
    os.environ.update(ENVIRONMENT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    found = measured(size)
    if given.ray:
        found |= ray_ratios(size.calls)
    missed = False
    for name, value in found.items():
        limit, sign = LIMITS.get(name, (0, 0))
        is_missed = bool(sign) and sign * value > sign * limit
        missed |= is_missed
        told = f"   limit {'<=' if sign > 0 else '>='} {limit:g}" if sign else ""
        print(f"{name:20}{value:8.2f}{told}{'   missed' if is_missed else ''}")
    return int(missed and not given.least)


if __name__ == "__main__":
    sys.exit(main())
