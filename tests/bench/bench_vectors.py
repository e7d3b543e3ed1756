"""What the tools of the embedded vector store cost: filling it beside the engine's own loop, searching, listing."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bench_client import Server
from bench_sql import serving
from vector_data import documents, queries, vectors

BATCH = 500
FILLED = 20_000
SEARCHED = 100_000
PARENTS = 10_000
SIZE = 384

UPSERT_RATIO = 1.5
HYBRID_MS = 5.0
FILTERED_MS = 8.0
LIST_MS = 50.0

FILTERS: dict[str, dict[str, Any] | None] = {
    "": None,
    " of a source of ten": {"source": "source-3"},
    " of a tenth by date": {"modified": {"gte": 2000, "lt": 3000}},
}

Line = tuple[str, str, str, str, str, str]


def figures(command: list[str], quick: bool) -> Iterator[Line]:
    """The lines of the table."""
    scale = 10 if quick else 1
    with tempfile.TemporaryDirectory() as name:
        yield filling(command, Path(name), FILLED // scale)
        yield from searching(command, Path(name), SEARCHED // scale, 60 if quick else 300)


def filling(command: list[str], folder: Path, count: int) -> Line:
    """`upsert` in batches of 500 texts that the hashing embedder embeds; and the same without rrext."""
    batches = list(batched(documents(count), BATCH))
    requests = [json.dumps({"documents": batch}).encode() for batch in batches]
    with serving(command, folder, "store_qdrant_edge", {"path": "filled"}, 600) as server:
        server.call("stats", b"{}")
        start = time.perf_counter()
        for request in requests:
            server.call("upsert", request)
        ours = time.perf_counter() - start
        stored = server.call("stats", b"{}")["count"]
        if stored != count:
            raise RuntimeError(f"{stored} of {count} chunks were stored")
    theirs = store_alone(folder / "alone", batches)
    ratio = ours / theirs
    verdict = "required" if ratio <= UPSERT_RATIO else "MISSED"
    what = f"upsert of {count:,} chunks, {BATCH} at a time, embedded by hashing"
    return (what, f"{ours:.1f} s", f"{theirs:.1f} s", f"{ratio:.2f}×", f"≤ {UPSERT_RATIO}×", verdict)


def store_alone(folder: Path, batches: list[list[dict[str, Any]]]) -> float:
    """Seconds of a loop over the same batches with the engine and the embedder alone."""
    import qdrant_edge as qe

    from rrext.nodes.embeddings.embedder import hashed
    from rrext.nodes.vectors.checked_input import drafts_of
    from rrext.nodes.vectors.edge.open_shard import create_shard, point_of
    from rrext.nodes.vectors.store import NOBODYS

    folder.mkdir()
    create_shard(str(folder), SIZE)
    shard = qe.EdgeShard.load(str(folder))
    start = time.perf_counter()
    for batch in batches:
        points = [point_of(draft.chunk, hashed(draft.chunk.content, SIZE)) for draft in drafts_of(batch, NOBODYS)]
        shard.update(qe.UpdateOperation.upsert_points(points))
    shard.flush()
    taken = time.perf_counter() - start
    shard.close()
    return taken


def searching(command: list[str], folder: Path, count: int, calls: int) -> Iterator[Line]:
    """Hybrid search for words among many chunks, whose vectors were given, also with filters; then a page of all parents."""
    with serving(command, folder, "store_qdrant_edge", {"path": "searched"}, 900) as server:
        fill(server, count)
        taken: dict[str, list[float]] = {name: [] for name in FILTERS}
        for n, text in enumerate(queries(calls + 20)):
            for name, metadata in FILTERS.items():
                query = json.dumps({"query": text, "filter": {"metadata": metadata}}).encode()
                seconds = timed(server, "search", query)
                if n >= 20:
                    taken[name].append(seconds)
        for name, each in taken.items():
            most = FILTERED_MS if FILTERS[name] else HYBRID_MS
            p50, p99 = statistics.median(each) * 1e3, sorted(each)[int(len(each) * 0.99)] * 1e3
            verdict = "required" if p50 <= most else "MISSED"
            what = f"hybrid search{name} among {count:,} chunks, p50 (p99)"
            yield (what, f"{p50:.2f} ms ({p99:.1f})", "–", "–", f"≤ {most:g} ms", verdict)
        page = json.dumps({"limit": PARENTS}).encode()
        first = timed(server, "list", page) * 1e3
        again = statistics.median(timed(server, "list", page) for _ in range(21)) * 1e3
        total = server.call("list", page)["total"]
        verdict = "required" if again <= LIST_MS else "MISSED"
        what = f"list of {total:,} parents, p50 (the first time)"
        yield (what, f"{again:.1f} ms ({first:.0f})", "–", "–", f"≤ {LIST_MS:g} ms", verdict)


def fill(server: Server, count: int) -> None:
    """Chunks with vectors that are not worked out from their texts: that would take minutes and measure nothing."""
    given = zip(documents(count), vectors(count, SIZE), strict=True)
    for batch in batched(given, BATCH):
        chunks = [{**document, "embedding": list(vector), "embedding_model": f"hashing-{SIZE}"} for document, vector in batch]
        server.call("upsert", json.dumps({"documents": chunks}).encode())


def batched(items: Any, size: int) -> Iterator[list[Any]]:
    """Lists of at most so many items."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def timed(server: Server, tool: str, arguments: bytes) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    server.call(tool, arguments)
    return time.perf_counter() - start
