"""A process that is killed at each step of a request: `python edge_steps.py FOLDER REQUEST STRIDE`.

For each STRIDE-th step a child of its own fills a store in FOLDER/0, FOLDER/1, …, begins the request and kills itself at that
step, until one comes to the end. Prints how many there were. It uses no engine itself, so that its children may.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge_process import edge_store
from vector_contract import SPACE, call, chunk, put

from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.store import Chunk, Scope, VectorSpace, VectorStore

__all__ = ["NEW", "OLD", "REQUESTS", "put_version"]

OLD = [chunk("a", n, f"old {n}", parent=f"/{n % 3}") for n in range(100)]
NEW = [chunk("a", n, f"new {n}", parent=f"/{n % 2}") for n in range(30, 180)]
OTHER = VectorSpace("other", 4)
STEPS = frozenset({"write", "update", "retrieve", "scroll", "unlink", "flush", "rename", "replace", "mkdir", "close", "load"})
OWNERS = frozenset({"EdgeShard", "BufferedWriter", "module"})
"""The engine's and the system's functions before which a process is killed, and whose they are."""


def put_version(store: VectorStore, chunks: list[Chunk], space: VectorSpace = SPACE) -> None:
    """Store the chunks as all of their object."""
    vectors = [hashed(one.content, space.size) for one in chunks]
    store.upsert(chunks, vectors, space, call(), {"a": {one.chunk_id for one in chunks}})


REQUESTS: dict[str, Callable[[VectorStore], Any]] = {
    "replace": lambda store: put_version(store, NEW),
    "delete": lambda store: store.delete(Scope(object_ids=("a",)), call()),
    "first": lambda store: put_version(store, NEW),
    "other model": lambda store: put_version(store, NEW, OTHER),
}


BEFORE: dict[str, Callable[[VectorStore], Any]] = {
    "replace": lambda store: put(store, *OLD),
    "delete": lambda store: put(store, *OLD),
    "first": lambda store: store.space(call()),
    "other model": lambda store: (put(store, *OLD), store.delete(Scope(prefix="/"), call())),
}


def killed_at(step: int, folder: Path, request: str) -> bool:
    """Whether the request was killed at that step, as it had so many."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = step

    def count(frame: Any, event: str, function: Any) -> None:
        nonlocal left
        if event == "c_call" and function.__name__ in STEPS and type(function.__self__).__name__ in OWNERS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    store = edge_store(folder)
    BEFORE[request](store)
    sys.setprofile(count)
    REQUESTS[request](store)
    sys.setprofile(None)
    os._exit(0)


def main(folder: str, request: str, stride: int) -> None:
    edge_store(folder)  # the modules are imported once
    count = 0
    while killed_at(count * stride, Path(folder, str(count)), request):
        count += 1
    print(count + 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
