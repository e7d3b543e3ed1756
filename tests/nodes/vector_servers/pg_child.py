"""A process of its own that stores chunks: `python pg_child.py URL TABLE NAME BATCHES`.

It prints the number of each batch of 50 chunks that was answered. With the name `versions`, each batch takes the place of the
one before, in statements of 7 chunks.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pg_stores import SPACE, call, chunk, fill, open_store, vectors_of
from postgres_server import Database

from rrext.nodes.vectors.postgres import store as store_module

BATCH = 50


def main(url: str, table: str, name: str, batches: int) -> None:
    store = open_store(Database("", 1, "", "", "", Path("/")), {"url": url}, table=table)
    if name == "versions":
        store_module.ROWS_AT_ONCE = 7  # pyright: ignore[reportConstantRedefinition]
    for batch in range(batches):
        if name == "versions":
            chunks = [chunk("a", n, f"version {batch} chunk {n}") for n in range(BATCH - batch % 3 * 10)]
            store.upsert(chunks, vectors_of(chunks), SPACE, call(), {"a": range(len(chunks))})
            print(batch, flush=True)
            continue
        fill(store, [chunk(f"{name}-{batch}", n, f"{name} batch {batch} chunk {n}") for n in range(BATCH)])
        print(batch, flush=True)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
