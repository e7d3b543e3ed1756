"""Gates and journals of the nodes: kept as long as the process lives, under keys that a test makes up, so that tests
share a process without meeting each other.

Where each pipeline has a process of its own, they are files in the folder `FACE_STATE`, which all processes share.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import Any

__all__ = ["inside", "journals", "opened", "pass_gate", "wait_behind"]


class SharedJournal:
    """A journal in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: Any) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(json.dumps(entry).encode() + b"\n")

    def count(self, entry: Any) -> int:
        return list(self).count(entry)

    def __iter__(self) -> Iterator[Any]:
        text = self._path.read_text() if self._path.exists() else ""
        return iter([json.loads(line) for line in text.splitlines()])


class SharedJournals:
    """The journals of all processes."""

    def __getitem__(self, key: str) -> SharedJournal:
        return SharedJournal(_file(key, "journal"))


def _file(key: str, kind: str) -> Path:
    assert _FOLDER is not None
    return Path(_FOLDER) / f"{sha256(key.encode()).hexdigest()}.{kind}"


_FOLDER = os.environ.get("FACE_STATE")
journals: Any = defaultdict(list) if _FOLDER is None else SharedJournals()
inside: defaultdict[str, list[int]] = defaultdict(list)
_gates: dict[str, Future[None]] = {}
_lock = threading.Lock()


def _gate(key: str) -> Future[None]:
    """The gate of this key: one for all threads, also of those that ask for it first at the same time."""
    mine: Future[None] = Future()
    gate = _gates.setdefault(key, mine)
    if _FOLDER is not None and gate is mine:
        threading.Thread(target=_watch, args=(key, gate), daemon=True).start()
    return gate


def _watch(key: str, gate: Future[None]) -> None:
    """Open a gate once another process has."""
    while not _file(key, "gate").exists():
        sleep(0.01)
    _open(gate)


def _open(gate: Future[None]) -> None:
    with _lock:
        if not gate.done():
            gate.set_result(None)


def pass_gate(key: str) -> None:
    """Open a gate, for present and later waiters."""
    if _FOLDER is not None:
        _file(key, "gate").touch()
    _open(_gate(key))


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
