"""`EdgeStore`: the embedded vector store, in the process that has it open, and its searches. Importing this imports Qdrant."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Final
from uuid import UUID

import msgspec
import qdrant_edge as qe

from rrext.errors import ToolError
from rrext.nodes.vectors.edge.folder import ENGINE, StoreFolder
from rrext.nodes.vectors.edge.messages import StagedPiece, StoreChange, pieces_of
from rrext.nodes.vectors.edge.open_shard import (
    CHUNK,
    WORDS,
    OpenShard,
    PathCounts,
    chunks_request,
    condition,
    distances,
    near,
    qdrant_errors,
    records,
    terms,
    vector_of,
    worded,
)
from rrext.nodes.vectors.edge.partitions import Partitions
from rrext.nodes.vectors.points import EXTRA, NUMBER, OBJECT, PARENT, chunk_of, number_fields, point_id, similarity
from rrext.nodes.vectors.store import (
    FIRST_OBJECT,
    NOBODYS,
    SIMPLE,
    Chunk,
    ChunkPage,
    Deleted,
    Hit,
    Listing,
    ObjectVersion,
    Scope,
    Search,
    StoreStats,
    VectorSpace,
    candidates,
    fused_score,
)
from rrext.nodes.vectors.words import asked_words, share_of_words
from rrext.tools.context import ToolContext

MAKE_TRIES: Final = 5
"""Attempts to create a store that another process creates with other properties at the same time."""

Point = tuple[Any, dict[str, Any]]
"""A point's id, and the part of its payload with its path and object."""


class EdgeStore:
    """A store in a folder, whose partitions are opened by the first call that needs them, in turns with other processes.

    Qdrant holds up the interpreter while it works, so one call of it is kept to a few milliseconds: chunks are
    written and deleted a few at a time. Writes wait for each other; a search waits for at most one call of Qdrant.
    The chunks of an answered call are in Qdrant's log, in the hands of the operating system: they survive the
    process. A change that has begun is completed even if its call is cancelled, and even if the process
    is killed: then by the process that opens the store next.
    """

    def __init__(self, folder: Callable[[], StoreFolder], *, min_free: int, wait: float, language: str = SIMPLE) -> None:
        self._partitions = Partitions(folder, min_free=min_free, wait=wait, language=language)
        self._staged: dict[int, list[StagedPiece]] = {}

    def space(self, ctx: ToolContext, owner: str = NOBODYS) -> VectorSpace | None:
        with self._use(owner, ctx) as opened:
            return None if opened is None else opened.space

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: Sequence[Sequence[float]],
        space: VectorSpace,
        ctx: ToolContext,
        replace: Mapping[str, Collection[int]] | None = None,
        owner: str = NOBODYS,
    ) -> int:
        return self._upsert(list(pieces_of(chunks, vectors)), space, replace or {}, ctx, owner)

    def stage(self, request: int, piece: StagedPiece, ctx: ToolContext) -> None:
        """Keep a piece of a request until `upsert_staged` stores it or `unstage` discards it."""
        self._staged.setdefault(request, []).append(piece)

    def unstage(self, request: int, ctx: ToolContext) -> None:
        """Discard the pieces of a request."""
        self._staged.pop(request, None)

    def upsert_staged(
        self, request: int, space: VectorSpace, replace: Mapping[str, Collection[int]], owner: str, ctx: ToolContext
    ) -> int:
        """See `upsert`; stores the staged pieces."""
        return self._upsert(self._staged.pop(request, []), space, replace, ctx, owner)

    def _upsert(
        self,
        pieces: Sequence[StagedPiece],
        space: VectorSpace,
        replace: Mapping[str, Collection[int]],
        ctx: ToolContext,
        owner: str,
    ) -> int:
        with self._partitions.of(owner, ctx) as turns:
            for _ in range(MAKE_TRIES):
                with turns.writing(ctx) as opened:
                    if opened is not None and opened.fits(space, turns.language):
                        gone = [
                            point
                            for object_id, kept in replace.items()
                            for point, payload in _points(opened.shard, _object(object_id), ctx)
                            if payload[NUMBER] not in kept
                        ]
                        opened.do(StoreChange(pieces, gone))
                        return len(gone)
                turns.make(space, ctx)
        raise ToolError("The store is emptied as fast as it is filled", code="store_conflict", hint="Call again.")

    def move(self, object_id: str, to: str, parent: str | None, ctx: ToolContext, owner: str = NOBODYS) -> int:
        with self._alone(owner, ctx) as opened:
            if opened is None:
                return 0
            chunks: builtins.list[Chunk] = []
            vectors: builtins.list[Sequence[float]] = []
            old: builtins.list[Any] = []
            for record in records(opened.shard, _object(object_id), ctx.check, CHUNK, vectors=True):
                one = chunk_of(record.payload or {})
                chunks.append(msgspec.structs.replace(one, object_id=to, parent=parent or one.parent))
                vectors.append(vector_of(record))
                old.append(record.id)
            if chunks:
                replaced = _points(opened.shard, _object(to), ctx)
                new = {point_id(one.owner, one.object_id, one.chunk_id) for one in chunks}
                gone = {*old, *(point for point, _ in replaced)} - new
                opened.do(StoreChange(list(pieces_of(chunks, vectors)), list(gone)))
            return len(chunks)

    def delete(self, scope: Scope, ctx: ToolContext) -> Deleted:
        with self._alone(scope.owner, ctx) as opened:
            if opened is None:
                return Deleted(0, frozenset())
            points = list(_points(opened.shard, condition(scope), ctx))
            if points:
                opened.do(StoreChange(gone=[point for point, _ in points]))
            return Deleted(len(points), frozenset(payload[OBJECT] for _, payload in points))

    def search(self, search: Search, ctx: ToolContext) -> builtins.list[Hit]:
        numbers = number_fields(search.scope.metadata)
        if numbers:
            self._index(numbers, search.scope.owner, ctx)
        with self._use(search.scope.owner, ctx) as opened:
            if opened is None:
                return []
            with qdrant_errors():
                return found(opened.shard, search, opened.manifest.language)

    def _index(self, fields: Collection[str], owner: str, ctx: ToolContext) -> None:
        with self._use(owner, ctx) as opened:
            is_indexed = opened is None or not opened.lacks_index(fields)
        if not is_indexed:
            with self._alone(owner, ctx) as opened:
                if opened is not None:
                    opened.index(fields)

    def list(
        self,
        prefix: str | None,
        offset: int,
        limit: int,
        ctx: ToolContext,
        owner: str = NOBODYS,
        after: tuple[str, str] = FIRST_OBJECT,
    ) -> Listing:
        with self._alone(owner, ctx) as opened:
            return _counted(opened, ctx).listing(prefix, offset, limit, after)

    def get(
        self, object_id: str, offset: int, limit: int, ctx: ToolContext, owner: str = NOBODYS, after: int = -1
    ) -> ChunkPage:
        scope = Scope(object_ids=(object_id,))
        with self._use(owner, ctx) as opened:
            if opened is None:
                return ChunkPage([], 0)
            with qdrant_errors():
                total = opened.shard.count(qe.CountRequest(exact=True, filter=condition(scope)))
                points = opened.shard.query(chunks_request(scope, offset, limit, after)) if offset < total else []
            return ChunkPage([chunk_of(point.payload or {}) for point in points], total)

    def versions(self, object_ids: Sequence[str], ctx: ToolContext, owner: str = NOBODYS) -> builtins.list[ObjectVersion]:
        scope = Scope(object_ids=tuple(object_ids))
        with self._alone(owner, ctx) as opened:
            if opened is None:
                return []
            signed: dict[str, builtins.list[Any]] = {}
            for _, payload in _points(opened.shard, condition(scope), ctx, (OBJECT, EXTRA)):
                signature = msgspec.json.decode(payload[EXTRA]).get("signature")
                signed.setdefault(payload[OBJECT], []).append(signature if isinstance(signature, str) else None)
        return [ObjectVersion(name, len(of), of[0] if len(set(of)) == 1 else None) for name, of in signed.items()]

    def stats(self, ctx: ToolContext, owner: str = NOBODYS) -> StoreStats:
        with self._alone(owner, ctx) as opened:
            places = _counted(opened, ctx)
            return StoreStats(
                chunks=places.chunks(),
                objects=places.objects(),
                parents=places.parents(),
                space=None if opened is None else opened.space,
                disk_bytes=0 if opened is None else opened.folder.disk_bytes(),
                keyword="bm25",
                details={"engine": ENGINE, "path": None if opened is None else opened.folder.shown},
            )

    def close(self) -> None:
        self._partitions.close()

    @contextmanager
    def _use(self, owner: str, ctx: ToolContext) -> Iterator[OpenShard | None]:
        """The shard of an owner; None if nothing was stored there."""
        with self._partitions.of(owner, ctx) as turns, turns.use(ctx) as opened:
            yield opened

    @contextmanager
    def _alone(self, owner: str, ctx: ToolContext) -> Iterator[OpenShard | None]:
        """The same, in which nobody else writes."""
        with self._partitions.of(owner, ctx) as turns, turns.writing(ctx) as opened:
            yield opened


def _object(object_id: str) -> qe.Filter | None:
    """The filter for the chunks of an object."""
    return condition(Scope(object_ids=(object_id,)))


def _counted(opened: OpenShard | None, ctx: ToolContext) -> PathCounts:
    """The path counts of a shard, computed now if unknown. No change may run meanwhile."""
    if opened is None:
        return PathCounts()
    if opened.places is None:
        places = PathCounts()
        for _, payload in _points(opened.shard, None, ctx, (OBJECT, PARENT)):
            places.add(payload[PARENT], payload[OBJECT])
        opened.places = places
    return opened.places


def _points(
    shard: qe.EdgeShard, filter: qe.Filter | None, ctx: ToolContext, names: Sequence[str] = (OBJECT, PARENT, NUMBER)
) -> Iterator[Point]:
    """The paths and objects of the points of a scope, read page by page. No change may run meanwhile."""
    for record in records(shard, filter, ctx.check, qe.PayloadSelector.Include(list(names))):
        yield record.id, record.payload or {}


def found(shard: qe.EdgeShard, search: Search, language: str = SIMPLE) -> list[Hit]:
    """At most `top_k` hits, best first. Raises Qdrant's errors."""
    if search.mode == "dense":
        points = shard.query(near(search, search.top_k, with_payload=CHUNK))
        return [Hit(chunk_of(point.payload or {}), similarity(point.score)) for point in points]
    words = asked_words(search.text)
    if search.mode == "keyword":
        return [Hit(chunk_of(point.payload or {}), score) for point, score in _ranked(shard, search, words, CHUNK)]
    return _hybrid(shard, search, words, language)


def _ranked(
    shard: qe.EdgeShard, search: Search, words: Sequence[str], fields: qe.PayloadSelector | None = None
) -> list[tuple[qe.ScoredPoint, float]]:
    """At most `top_k` points with any of the words, and their scores. Those with all of the words come first: Qdrant alone
    would prefer one that repeats a rare one."""
    limit = search.top_k
    if not words:
        return []
    points = shard.query(worded(search, words, limit, whole=False, with_payload=fields))
    whole = shard.query(worded(search, words, limit, whole=True, with_payload=fields)) if len(words) > 1 else []
    ids = {point.id for point in whole}
    rest = [point for point in points if point.id not in ids][: limit - len(whole)]
    more = max(0.0, rest[0].score - whole[-1].score) if whole and rest else 0.0
    return [*((point, point.score + more) for point in whole), *((point, point.score) for point in rest)]


def _hybrid(shard: qe.EdgeShard, search: Search, words: Sequence[str], language: str) -> list[Hit]:
    limit = candidates(search.top_k)
    nearest = shard.query(near(search, limit))
    ids: dict[int, UUID] = {}  # numbers stand for ids: many of these are compared, and Python hashes UUIDs slowly
    ranked = _ranked(shard, msgspec.structs.replace(search, top_k=limit), words)
    relevances = _relevances(shard, words, language, ranked, ids)
    scores: dict[int, float] = {}
    if relevances:
        for point in shard.query(distances(search, ids.values())):
            number = _number(point, ids)
            scores[number] = _score(point, relevances[number])
    for point in _best(nearest, search.top_k):
        scores.setdefault(_number(point, ids), _score(point, 0.0))
    best = sorted(scores, key=lambda one: (-scores[one], one))[: search.top_k]
    kept = shard.retrieve([ids[one] for one in best], CHUNK, False)
    chunks = {_number(record, ids): chunk_of(record.payload or {}) for record in kept}
    return [Hit(chunks[one], scores[one]) for one in best if one in chunks]  # a point may have been deleted meanwhile


def _best(nearest: Sequence[qe.ScoredPoint], top_k: int) -> list[qe.ScoredPoint]:
    """The first `top_k` points and the next ones with the same score: no other can become one of the best by its words."""
    least = _score(nearest[top_k - 1], 0.0) if len(nearest) > top_k else 0.0
    return [*nearest[:top_k], *takewhile(lambda point: _score(point, 0.0) == least, nearest[top_k:])]


def _score(point: qe.ScoredPoint, relevance: float) -> float:
    return round(fused_score(similarity(point.score), relevance), 6)


def _relevances(
    shard: qe.EdgeShard,
    words: Sequence[str],
    language: str,
    ranked: Sequence[tuple[qe.ScoredPoint, float]],
    ids: dict[int, UUID],
) -> Mapping[int, float]:
    """The relevance of each point, for `fused_score`."""
    if not ranked:
        return {}
    first, most = ranked[0]
    found = shard.retrieve([first.id], qe.PayloadSelector.Include([WORDS]), False)
    held = (found[0].payload or {}).get(WORDS, "").split() if found else []
    share = share_of_words(terms(words, language), terms(held, language)) / most
    return {_number(point, ids): score * share for point, score in ranked}


def _number(point: qe.ScoredPoint | qe.Record, ids: dict[int, UUID]) -> int:
    """The number of a point's id, which `ids` records."""
    one: Any = point.id  # Qdrant makes a new object at each access
    number: int = one.int
    ids[number] = one
    return number
