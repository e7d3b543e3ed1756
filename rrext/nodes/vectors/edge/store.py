"""`EdgeStore`: the embedded vector store, in the process that has it open. Importing this imports the engine."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec
import qdrant_edge as qe

from rrext.nodes.vectors.edge.folder import BATCH, ENGINE, StoreFolder
from rrext.nodes.vectors.edge.opened import OpenShard, engine_errors
from rrext.nodes.vectors.edge.places import Places
from rrext.nodes.vectors.edge.requests import (
    EXTRA,
    NUMBER,
    OBJECT,
    PARENT,
    chunk_of,
    chunks_request,
    condition,
    point_of,
)
from rrext.nodes.vectors.edge.search import found
from rrext.nodes.vectors.store import (
    Chunk,
    Deleted,
    Hit,
    Listing,
    Page,
    Scope,
    Search,
    Space,
    StoreStats,
    Version,
    require_space,
)
from rrext.tools.context import ToolContext

__all__ = ["EdgeStore"]

PAGE: Final = 1000
"""Points whose names are read in one call of the engine: about 4 ms."""
NUMBER_SIZE: Final = 8
"""Bytes of one number of a vector, about: its four in the log, and its payload's share."""

Point = tuple[Any, dict[str, Any]]
"""A point's id, and what of its payload says where it belongs."""


class EdgeStore:
    """A store in a folder, opened by the first call that needs it and by one process only.

    The engine holds up the interpreter while it works, so one call of it is kept to a few milliseconds: chunks are
    written and deleted a few at a time. Writes wait for each other; searches wait for one call of the engine at most.
    What an answered call has written is in the engine's log, in the hands of the operating system: it survives the
    process. A delete that has begun goes on to its end, also if nobody waits for it any more.
    """

    __slots__ = ("_opened", "_places", "batch_size")

    def __init__(self, folder: Callable[[], StoreFolder], *, min_free: int) -> None:
        self.batch_size = BATCH
        self._opened = OpenShard(folder, min_free=min_free)
        self._places: Places | None = None  # made when it is first asked for, and kept up to date from then on

    def space(self, ctx: ToolContext) -> Space | None:
        """See `VectorStore`."""
        self._opened.get(ctx)
        return self._opened.space

    def upsert(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]], space: Space, ctx: ToolContext) -> None:
        """See `VectorStore`."""
        points = [point_of(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]
        with self._opened.lock:
            shard = self._opened.get(ctx) or self._opened.create(space)
            require_space(self._opened.space, space, doing="These documents were embedded")
            self._opened.require_room()
            places, self._places = self._places, None  # if the engine fails, they are counted anew
            with engine_errors():
                replaced = _payloads(shard, [point.id for point in points]) if places is not None else []
                shard.update(qe.UpdateOperation.upsert_points(points))
            if places is not None:
                for payload in replaced:
                    places.remove(payload[PARENT], payload[OBJECT])
                for chunk in chunks:
                    places.add(chunk.parent, chunk.object_id)
            self._places = places
            self._opened.written(sum(len(chunk.content) + NUMBER_SIZE * space.size for chunk in chunks))

    def prune(self, object_id: str, keep: Collection[int], ctx: ToolContext) -> int:
        """See `VectorStore`."""
        with self._opened.lock:
            shard = self._opened.get(ctx)
            if shard is None:
                return 0
            points = _points(shard, condition(Scope(object_ids=(object_id,))), ctx)
            return self._delete(shard, [point for point in points if point[1][NUMBER] not in keep])

    def delete(self, scope: Scope, ctx: ToolContext) -> Deleted:
        """See `VectorStore`."""
        with self._opened.lock:
            shard = self._opened.get(ctx)
            if shard is None:
                return Deleted(0, frozenset())
            points = list(_points(shard, condition(scope), ctx))
            self._delete(shard, points)
            return Deleted(len(points), frozenset(payload[OBJECT] for _, payload in points))

    def _delete(self, shard: qe.EdgeShard, points: Sequence[Point]) -> int:
        places, self._places = self._places, None
        for start in range(0, len(points), BATCH):
            some = points[start : start + BATCH]
            with engine_errors():
                shard.update(qe.UpdateOperation.delete_points([point for point, _ in some]))
            if places is not None:
                for _, payload in some:
                    places.remove(payload[PARENT], payload[OBJECT])
        self._places = places
        return len(points)

    def search(self, search: Search, ctx: ToolContext) -> builtins.list[Hit]:
        """See `VectorStore`."""
        shard = self._opened.get(ctx)
        if shard is None:
            return []
        with engine_errors():
            return found(shard, search)

    def list(self, prefix: str | None, offset: int, limit: int, ctx: ToolContext) -> Listing:
        """See `VectorStore`."""
        with self._opened.lock:
            return self._counted(ctx).listing(prefix, offset, limit)

    def get(self, object_id: str, offset: int, limit: int, ctx: ToolContext) -> Page:
        """See `VectorStore`."""
        shard = self._opened.get(ctx)
        if shard is None:
            return Page([], 0)
        with engine_errors():
            total = shard.count(qe.CountRequest(exact=True, filter=condition(Scope(object_ids=(object_id,)))))
            points = shard.query(chunks_request(object_id, offset, limit)) if offset < total else []
        return Page([chunk_of(point.payload or {}) for point in points], total)

    def versions(self, object_ids: Sequence[str], ctx: ToolContext) -> builtins.list[Version]:
        """See `VectorStore`."""
        with self._opened.lock:
            shard = self._opened.get(ctx)
            if shard is None:
                return []
            found: dict[str, builtins.list[Any]] = {}
            for _, payload in _points(shard, condition(Scope(object_ids=tuple(object_ids))), ctx, (OBJECT, EXTRA)):
                signature = msgspec.json.decode(payload[EXTRA]).get("signature")
                found.setdefault(payload[OBJECT], []).append(signature if isinstance(signature, str) else None)
        return [Version(name, len(of), of[0] if len(set(of)) == 1 else None) for name, of in found.items()]

    def stats(self, ctx: ToolContext) -> StoreStats:
        """See `VectorStore`."""
        with self._opened.lock:
            places = self._counted(ctx)
            folder = self._opened.folder
            return StoreStats(
                chunks=places.chunks(),
                objects=places.objects(),
                parents=places.parents(),
                space=self._opened.space,
                disk_bytes=folder.disk_bytes() if folder is not None else 0,
                keyword="bm25",
                details={"engine": ENGINE, "path": folder.shown if folder is not None else None},
            )

    def close(self) -> None:
        """See `VectorStore`."""
        self._opened.close()

    def _counted(self, ctx: ToolContext) -> Places:
        """The places, counted now if they are not known; the lock is held."""
        shard = self._opened.get(ctx)
        if shard is None:
            return Places()
        if self._places is None:
            self._places = Places((payload[PARENT], payload[OBJECT]) for _, payload in _points(shard, None, ctx))
        return self._places

    def __repr__(self) -> str:
        return f"<EdgeStore {self._opened!r}>"


def _points(
    shard: qe.EdgeShard, filter: qe.Filter | None, ctx: ToolContext, names: Sequence[str] = (OBJECT, PARENT, NUMBER)
) -> Iterator[Point]:
    """Where the points that fit belong, read page by page. The lock is held, so that nothing changes meanwhile."""
    fields = qe.PayloadSelector.Include(list(names))
    offset = None
    while True:
        ctx.check()
        with engine_errors():
            page, offset = shard.scroll(qe.ScrollRequest(offset=offset, limit=PAGE, filter=filter, with_payload=fields))
        for record in page:
            yield record.id, record.payload or {}
        if offset is None:
            return


def _payloads(shard: qe.EdgeShard, ids: Sequence[Any]) -> list[dict[str, Any]]:
    """Where those of the points that are there belong."""
    records = shard.retrieve(list(ids), qe.PayloadSelector.Include([OBJECT, PARENT]), False)
    return [record.payload or {} for record in records]
