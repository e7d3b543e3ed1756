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

import msgspec
from edge_process import edge_store
from vector_contract import SPACE, call, chunk, put

from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.edge.folder import Manifest, StoreFolder
from rrext.nodes.vectors.store import Chunk, Scope, VectorSpace, VectorStore, owner_of

__all__ = ["ADA", "NEW", "OLD", "REQUESTS", "put_version", "store_together"]

OLD = [chunk("a", n, f"old {n}", parent=f"/{n % 3}") for n in range(100)]
NEW = [chunk("a", n, f"new {n}", parent=f"/{n % 2}") for n in range(30, 180)]
OTHER = VectorSpace("other", 4)
ADA = owner_of("ada", None)
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
    "apart": lambda store: store.get("a", 0, 1, call(), ADA),
}


BEFORE: dict[str, Callable[[VectorStore, Path], Any]] = {
    "replace": lambda store, _: put(store, *OLD),
    "delete": lambda store, _: put(store, *OLD),
    "first": lambda store, _: store.space(call()),
    "other model": lambda store, _: (put(store, *OLD), store.delete(Scope(prefix="/"), call())),
    "apart": lambda _, folder: store_together(folder),
}


def store_together(folder: Path) -> None:
    """Make a store of format 4, which has the old chunks for nobody and for Ada, together."""
    import qdrant_edge as qe

    from rrext.nodes.vectors.edge.open_shard import point_of
    from rrext.nodes.vectors.points import OWNER

    store = edge_store(folder)
    put(store, *OLD)
    store.close()
    files = StoreFolder(str(folder), "store")
    shard = qe.EdgeShard.load(files.shard)
    shard.update(qe.UpdateOperation.create_field_index(OWNER, qe.UuidIndexParams()))
    hers = [msgspec.structs.replace(one, owner=ADA) for one in OLD]
    shard.update(qe.UpdateOperation.upsert_points([point_of(one, hashed(one.content, SPACE.size)) for one in hers]))
    shard.flush()
    shard.close()
    manifest = msgspec.json.decode((folder / "data" / "store.json").read_bytes(), type=Manifest)
    files.save(msgspec.structs.replace(manifest, format=4, chunks=2 * len(OLD), files=files.files()))


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
    BEFORE[request](store, folder)
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
