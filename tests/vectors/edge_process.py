"""A process that uses an embedded store, as another one or as one that is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vector_contract import chunk, put

from rrext.nodes.vectors.edge.folder import StoreFolder
from rrext.nodes.vectors.edge.store import EdgeStore

__all__ = ["edge_store", "writer"]


def edge_store(folder: Path | str, *, min_free: int = 0) -> EdgeStore:
    return EdgeStore(lambda: StoreFolder(str(folder), str(folder)), min_free=min_free)


@contextmanager
def writer(folder: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process that stores chunk after chunk of objects `0`, `1`, …, and says the number of each that is answered."""
    tests = Path(__file__).parent
    command = [sys.executable, "-c", "import edge_process, sys; edge_process.write_on(sys.argv[1])", str(folder)]
    with subprocess.Popen(command, cwd=tests, env={"PYTHONPATH": f"{tests}:{tests.parent}"}, stdout=-1, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.kill()


def write_on(folder: str) -> None:
    """What the process does."""
    store = edge_store(folder)
    number = 0
    while True:
        put(store, *(chunk(str(number), n, f"word{number} common", parent=f"/{number % 7}") for n in range(3)))
        print(number, flush=True)
        number += 1
