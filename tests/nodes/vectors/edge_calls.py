"""Calls in threads of their own, and a look at the processes that they wait for."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from vector_contract import SIZE, SPACE, call, chunk

from rrext.errors import RrextError
from rrext.nodes.child.process import NodeProcess
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.edge import node
from rrext.nodes.vectors.edge.node import ProcessStore
from rrext.nodes.vectors.store import Search
from rrext.tools.context import CancelToken, ToolContext

__all__ = [
    "WORDS", "Call", "WatchedToken", "children_of", "engine_that", "is_running", "process_of", "put_one", "stopped",
    "wait_until",
]  # fmt: skip

WORDS = Search("keyword", 100, "words")


class WatchedToken(CancelToken):
    """Tells when a call begins to listen to it, which is just before it asks the process."""

    __slots__ = ("heard",)

    def __init__(self) -> None:
        super().__init__()
        self.heard = threading.Event()

    def on_cancel(self, listener: Callable[[], object]) -> None:
        super().on_cancel(listener)
        self.heard.set()


class Call(threading.Thread):
    """A call in a thread of its own. `begun()` returns when it is about to ask, `outcome()` is what it returned or raised."""

    def __init__(self, work: Callable[[ToolContext], object]) -> None:
        super().__init__(daemon=True)
        self.token = WatchedToken()
        self._work = work
        self._outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            self._outcome = self._work(call(self.token))
        except RrextError as error:
            self._outcome = error

    def begun(self) -> Call:
        assert self.token.heard.wait(30)
        return self

    def outcome(self) -> object:
        self.join(30)
        assert not self.is_alive()
        return self._outcome


def process_of(store: ProcessStore) -> int:
    assert store.process_id is not None
    return store.process_id


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """The process does nothing at all meanwhile, as one whose engine is busy for ever."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        if is_running(process):
            os.kill(process, signal.SIGCONT)


def is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def children_of(process: int) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == process:
            found.append(int(name))
    return found


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def put_one(store: ProcessStore, name: str, ctx: ToolContext) -> None:
    store.upsert([chunk(name)], [hashed("some words", SIZE)], SPACE, ctx)


def engine_that(code: str, monkeypatch: pytest.MonkeyPatch) -> NodeProcess:
    """A process that does something else; `read` and `write` are its pipes."""
    imports = "import sys; from rrext.nodes.child.worker import *; from rrext.nodes.vectors.edge.messages import *\n"
    imports += "read, write = sys.stdin.buffer, sys.stdout.buffer\nreceive(read)\n"  # the settings
    monkeypatch.setattr(node, "module_command", lambda *_: [sys.executable, "-c", imports + code])
    return node.started("/nowhere", "shown", 0, 0)
