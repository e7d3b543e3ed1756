"""Gates and journals of the nodes: kept as long as the process lives, under keys that a test makes up, so that tests
share a process without meeting each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from concurrent.futures import Future
from typing import Any

__all__ = ["inside", "journals", "opened", "pass_gate", "wait_behind"]

journals: defaultdict[str, list[Any]] = defaultdict(list)
inside: defaultdict[str, list[int]] = defaultdict(list)
_gates: dict[str, Future[None]] = {}
_lock = threading.Lock()


def _gate(key: str) -> Future[None]:
    """The gate of this key: one for all threads, also of those that ask for it first at the same time."""
    return _gates.setdefault(key, Future())


def pass_gate(key: str) -> None:
    """Open a gate, for those who wait and those who come."""
    with _lock:
        gate = _gate(key)
        if not gate.done():
            gate.set_result(None)


async def opened(key: str) -> None:
    """Wait on the loop until a gate is open."""
    await asyncio.shield(asyncio.wrap_future(_gate(key)))


def wait_behind(key: str, stop: threading.Event | None = None) -> None:
    """Wait in a thread until a gate is open, or `stop` is set."""
    if stop is None:
        _gate(key).result()
        return
    _gate(key).add_done_callback(lambda _: stop.set())
    stop.wait()
