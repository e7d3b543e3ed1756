"""A process of its own that stores chunks: `python pg_child.py URL TABLE NAME BATCHES`.

It prints the number of each batch of 50 chunks that was answered.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pg_stores import chunk, fill, open_store
from postgres_server import Database

BATCH = 50


def main(url: str, table: str, name: str, batches: int) -> None:
    store = open_store(Database("", 1, "", "", "", Path("/")), {"url": url}, table=table)
    for batch in range(batches):
        fill(store, [chunk(f"{name}-{batch}", n, f"{name} batch {batch} chunk {n}") for n in range(BATCH)])
        print(batch, flush=True)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
