"""Embedded stores, and a server that uses one and is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vector_contract import SPACE, call, chunk, put

from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.edge.folder import StoreFolder
from rrext.nodes.vectors.edge.node import ProcessStore
from rrext.nodes.vectors.store import VectorStore

__all__ = ["edge_store", "process_store", "writer"]


def process_store(folder: Path | str, *, wait: float = 20, patience: float = 20) -> ProcessStore:
    """A store as the node has it: in a process of its own."""
    return ProcessStore(lambda: (str(folder), str(folder)), min_free=0, wait=wait, patience=patience)


def edge_store(folder: Path | str, *, min_free: int = 0, wait: float = 20, language: str = "simple") -> VectorStore:
    """A store as that process has it, in this one."""
    from rrext.nodes.vectors.edge.store import EdgeStore

    return EdgeStore(lambda: StoreFolder(str(folder), str(folder)), min_free=min_free, wait=wait, language=language)


@contextmanager
def writer(
    folder: Path, kind: str = "process_store", work: str = "write_on"
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process that stores chunk after chunk of objects `0`, `1`, …, and says the number of each that is answered.

    With the kind `edge_store`, the engine works in that very process. With the work `version_on`, it stores version after
    version of one object.
    """
    tests = Path(__file__).parent
    code = f"import edge_process, sys; edge_process.{work}(edge_process.{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(
        command, cwd=tests, env={"PYTHONPATH": f"{tests}:{tests.parents[1]}"}, stdout=-1, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()


def write_on(store: VectorStore) -> None:
    """What the process does."""
    number = 0
    while True:
        put(store, *(chunk(str(number), n, f"word{number} common", parent=f"/{number % 7}") for n in range(3)))
        print(number, flush=True)
        number += 1


def version_on(store: VectorStore) -> None:
    """What the process does instead."""
    put(store, chunk("kept"))
    number = 0
    while True:
        chunks = [chunk("a", n, f"version {number} chunk {n}") for n in range(150 - number % 3 * 40)]
        vectors = [hashed(one.content, SPACE.size) for one in chunks]
        store.upsert(chunks, vectors, SPACE, call(), {"a": set(range(len(chunks)))})
        print(number, flush=True)
        number += 1
