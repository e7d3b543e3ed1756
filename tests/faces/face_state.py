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
_gates: defaultdict[str, Future[None]] = defaultdict(Future)
_lock = threading.Lock()


def pass_gate(key: str) -> None:
    """Open a gate, for those who wait and those who come."""
    with _lock:
        if not _gates[key].done():
            _gates[key].set_result(None)


async def opened(key: str) -> None:
    """Wait on the loop until a gate is open."""
    await asyncio.shield(asyncio.wrap_future(_gates[key]))


def wait_behind(key: str, stop: threading.Event | None = None) -> None:
    """Wait in a thread until a gate is open, or `stop` is set."""
    if stop is None:
        _gates[key].result()
        return
    _gates[key].add_done_callback(lambda _: stop.set())
    stop.wait()
