"""What a phase measures: a server that can be started, how much of it, and the conditions of a fair figure."""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass

from bench_client import Dap, JsonRpc, Mcp, Server

ADD, SUM = b'{"a":1,"b":2}', {"sum": 3}
WINDOW = 64
MIB = 1 << 20
CLIENT_CORE = {0}

Figures = dict[str, float]


@dataclass(frozen=True)
class Subject:
    """A server that is ready to be started."""

    name: str
    command: list[str]
    dialect: Dap | JsonRpc

    def over_mcp(self) -> Subject:
        """The same tools of rrext, over the Model Context Protocol."""
        return Subject(f"{self.name} mcp", ["mcp" if word == "serve" else word for word in self.command], Mcp())

    def start(self, *, seconds: float = 60, cpus: set[int] | None = None) -> Server:
        return Server(self.command, self.dialect, seconds=seconds, cpus=cpus)


@dataclass(frozen=True)
class Size:
    """How much is measured; `--quick` divides it."""

    calls: int = 3000
    burst: int = 20_000
    burst_seconds: float = 2.0
    raw: int = 512 * MIB
    base64: int = 128 * MIB
    soak: int = 100_000
    flood: int = 1024 * MIB
    fewer: int = 1
    """Divides the loaded pipelines."""


QUICK = Size(calls=1000, burst=10_000, burst_seconds=1.0, raw=128 * MIB, base64=32 * MIB)
"""Memory is measured in full also when the rest is quick: less of it would prove nothing."""
LEAST = Size(calls=200, burst=4000, burst_seconds=0.2, raw=64 * MIB, base64=8 * MIB, soak=3000, flood=64 * MIB, fewer=10)
"""Enough to see that everything is measured; the figures prove nothing."""


def check(result: object, wanted: object) -> None:
    if result != wanted:
        raise RuntimeError(f"the server answered {result!r} instead of {wanted!r}")


def same_core() -> set[int] | None:
    """The client's core, where the system lets us choose; None leaves it to the system."""
    return CLIENT_CORE if hasattr(os, "sched_setaffinity") else None


def other_cores() -> set[int] | None:
    """The cores that the client leaves free. Left to itself, a kernel moves both ends together or apart as it
    likes, and one of both is four times as fast: such figures cannot be compared."""
    return set(range(os.cpu_count() or 1)) - CLIENT_CORE or None if same_core() else None


class on_one_core:
    """Keep this process on one core for a while, where the system can."""

    def __enter__(self) -> None:
        self.before = os.sched_getaffinity(0) if same_core() else None
        if self.before:
            os.sched_setaffinity(0, CLIENT_CORE)

    def __exit__(self, *_: object) -> None:
        if self.before:
            os.sched_setaffinity(0, self.before)


class no_collector:
    """No garbage collection of ours while the clock runs."""

    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
