"""`QdrantStore`: a vector store in a collection of a Qdrant server, which any number of processes may use at once."""

from __future__ import annotations

import builtins
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final
from uuid import uuid4

import msgspec
from qdrant_client import QdrantClient, models

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.vectors.points import (
    EXTRA,
    MAX_NUMBER_INDEXES,
    NUMBER,
    OBJECT,
    chunk_of,
    number_fields,
    point_id,
    similarity,
)
from rrext.nodes.vectors.qdrant.requests import (
    BEGUN,
    BETWEEN,
    CHUNK,
    DENSE,
    INDEXES,
    PLACE,
    STAGED,
    WORDS,
    NoCollectionError,
    TakenError,
    bare_point,
    begun,
    behind,
    condition,
    failures,
    left_over,
    of_change,
    point_of,
    size_of,
    space_of,
    vectors_of,
    with_words,
    word_number,
)
from rrext.nodes.vectors.store import (
    FIRST_OBJECT,
    NOBODYS,
    Chunk,
    ChunkPage,
    Deleted,
    Hit,
    Listing,
    ObjectVersion,
    Scope,
    Search,
    StoredObject,
    StoreStats,
    VectorSpace,
    candidates,
    fused_score,
    require_space,
)
from rrext.nodes.vectors.words import asked_words, share_of_words, stored_words
from rrext.tools.context import ToolContext

OPERATION: Final = 8 * 1024 * 1024
"""Bytes of one request that writes: Qdrant takes 32 MiB, and our estimate is rough."""
PREPARED: Final = 256
"""Chunks that are prepared between two looks whether the call was cancelled."""
PAGE: Final = 1000
"""Points without vectors in one answer of the server."""
MOVED: Final = 64
"""Points with contents and vectors in one answer of the server: chunks may be long."""
IDS_AT_ONCE: Final = 10_000
"""Ids in one request: some hundred kilobytes."""
MOST_IDS: Final = 500_000
"""Ids in a request that deletes: 20 MB; more are deleted by their filter."""
EVERY_PLACE: Final = 100_000_000
"""Objects that are counted at most: Qdrant wants a number."""
TRIES: Final = 5
"""Attempts to make a collection that another process makes or deletes at the same time."""
WRITE_AGAIN: Final = 0.05
"""Seconds between two looks of a waiting write whether its call was cancelled."""
ABANDONED: Final = 600.0
"""Seconds after which another machine may complete a change: its own process would have done it."""
ORPHANED: Final = 3600.0
"""Seconds after which what was staged without ever being begun is removed."""

AT_WORK: Final = set[str]()
"""The changes that this process is completing."""

CLOSED: Final = "This vector store is closed: its pipeline ends"


class Begun(msgspec.Struct, frozen=True):
    """A large change that is to be completed, and the process that does it."""

    change: str
    host: str
    process: int
    at: float


class QdrantStore:
    """A `VectorStore` in one collection. `connect` makes the client at the first call; `shown` names server and collection.

    A change that fits in one request is one operation of the server: what goes is overwritten with empty points in the same
    request, and these are removed after it. A larger one writes its points beside the others, where no search sees them; a
    record of the change then makes it final, and they are put in their places. If the process ends before the record, nothing
    was changed; if it ends after it, the next process that changes something completes it: at once on the same machine, else
    after ten minutes. While the points of a large change move, a search may find some old and some new ones.

    `least` drops hits of a search by vectors whose similarity, -1 to 1, is less; it leaves those that have words of the query.
    """

    def __init__(self, connect: Callable[[], QdrantClient], *, collection: str, shown: str, least: float = -1.0) -> None:
        self._connect = connect
        self._collection = collection
        self._shown = shown
        self._least = least
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._client: QdrantClient | None = None
        self._is_closed = False
        self._is_resumed = False
        self._indexed: set[str] | None = None

    def space(self, ctx: ToolContext, owner: str = NOBODYS) -> VectorSpace | None:
        ctx.check()
        try:
            return None if self._is_empty() else self._stored_space()
        except NoCollectionError:
            return None

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: Sequence[Sequence[float]],
        space: VectorSpace,
        ctx: ToolContext,
        replace: Mapping[str, Collection[int]] | None = None,
        owner: str = NOBODYS,
    ) -> int:
        with self._alone(ctx):
            if not self._fits(space, makes=bool(chunks)):
                return 0
            gone: list[str] = []
            for names in _portions([*(replace or ())], PAGE):
                for record in self._records(condition(Scope(object_ids=names, owner=owner)), [OBJECT, NUMBER], ctx):
                    payload = record.payload or {}
                    if payload[NUMBER] not in (replace or {})[payload[OBJECT]]:
                        gone.append(str(record.id))
            self._change(zip(chunks, vectors, strict=True), len(chunks), gone, ctx)
            return len(gone)

    def move(self, object_id: str, to: str, parent: str | None, ctx: ToolContext, owner: str = NOBODYS) -> int:
        with self._alone(ctx):
            try:
                new: list[tuple[Chunk, Sequence[float]]] = []
                old: set[str] = set()
                for record in self._records(condition(Scope(object_ids=(object_id,), owner=owner)), CHUNK, ctx, vectors=True):
                    one = chunk_of(record.payload or {})
                    found: Any = record.vector
                    new.append((msgspec.structs.replace(one, object_id=to, parent=parent or one.parent), found[DENSE]))
                    old.add(str(record.id))
                if new:
                    old |= {str(each.id) for each in self._records(condition(Scope(object_ids=(to,), owner=owner)), [], ctx)}
                    old -= {str(point_id(one.owner, one.object_id, one.chunk_id)) for one, _ in new}
                    self._change(new, len(new), sorted(old), ctx)
                return len(new)
            except NoCollectionError:
                return 0

    def delete(self, scope: Scope, ctx: ToolContext) -> Deleted:
        with self._alone(ctx):
            try:
                found = {str(each.id): (each.payload or {})[OBJECT] for each in self._records(condition(scope), [OBJECT], ctx)}
                if len(found) > MOST_IDS:
                    self._ask("delete", points_selector=models.FilterSelector(filter=condition(scope)))
                elif found:
                    self._ask("delete", points_selector=models.PointIdsList(points=list(found)))
            except NoCollectionError:
                return Deleted(0, frozenset())
            return Deleted(len(found), frozenset(found.values()))

    def search(self, search: Search, ctx: ToolContext) -> builtins.list[Hit]:
        ctx.check()
        try:
            space = self._stored_space()
            self._index(number_fields(search.scope.metadata))
            if search.mode == "keyword":
                words = asked_words(search.text)
                return [Hit(_chunk(point), score) for point, score in self._ranked(search, words, search.top_k, CHUNK)]
            if space.size != len(search.vector or ()):
                return []  # nothing is stored: the node compares spaces first
            if search.mode == "dense":
                return [hit for hit in self._near(search, search.top_k) if hit.score >= self._least]
            return self._hybrid(search, ctx)
        except NoCollectionError:
            return []

    def list(
        self,
        prefix: str | None,
        offset: int,
        limit: int,
        ctx: ToolContext,
        owner: str = NOBODYS,
        after: tuple[str, str] = FIRST_OBJECT,
    ) -> Listing:
        ctx.check()
        places = sorted(self._places(Scope(prefix=prefix, owner=owner)).items())
        behind = [(place, count) for place, count in places if place > after]
        page = [StoredObject(parent, name, count) for (parent, name), count in behind[offset : offset + limit]]
        return Listing(page, len(places))

    def get(
        self, object_id: str, offset: int, limit: int, ctx: ToolContext, owner: str = NOBODYS, after: int = -1
    ) -> ChunkPage:
        ctx.check()
        scope = Scope(object_ids=(object_id,), owner=owner)
        try:
            total = self._ask("count", count_filter=condition(scope), exact=True).count
            if offset >= total:
                return ChunkPage([], total)
            records, _ = self._ask(
                "scroll",
                scroll_filter=condition(scope, behind(after)),
                order_by=models.OrderBy(key=NUMBER, direction=models.Direction.ASC),
                limit=min(offset + limit, total),
                with_payload=CHUNK,
            )
        except NoCollectionError:
            return ChunkPage([], 0)
        return ChunkPage([_chunk(record) for record in records[offset : offset + limit]], total)

    def versions(self, object_ids: Sequence[str], ctx: ToolContext, owner: str = NOBODYS) -> builtins.list[ObjectVersion]:
        signed: dict[str, builtins.list[Any]] = {}
        try:
            for names in _portions(object_ids, PAGE):
                for record in self._records(condition(Scope(object_ids=names, owner=owner)), [OBJECT, EXTRA], ctx):
                    payload = record.payload or {}
                    signature = msgspec.json.decode(payload[EXTRA]).get("signature")
                    signed.setdefault(payload[OBJECT], []).append(signature if isinstance(signature, str) else None)
        except NoCollectionError:
            return []
        return [ObjectVersion(name, len(of), of[0] if len(set(of)) == 1 else None) for name, of in signed.items()]

    def stats(self, ctx: ToolContext, owner: str = NOBODYS) -> StoreStats:
        places = self._places(Scope(owner=owner))
        return StoreStats(
            chunks=sum(places.values()),
            objects=len({name for _, name in places}),
            parents=len({parent for parent, _ in places}),
            space=self.space(ctx, owner),
            disk_bytes=None,
            keyword="bm25",
            details={"engine": "qdrant", "collection": self._collection},
        )

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # the server

    def _ask(self, method: str, **arguments: Any) -> Any:
        """Call a method of the client for the collection. Raises as `failures`, and `Unavailable` after `close`."""
        with self._lock:
            if self._is_closed:
                raise Unavailable(CLOSED)
            with failures(self._shown):
                client = self._client = self._client or self._connect()
        with failures(self._shown):
            return getattr(client, method)(collection_name=self._collection, **arguments)

    def _records(
        self, filter: models.Filter, fields: Any, ctx: ToolContext, *, vectors: bool = False
    ) -> Iterator[models.Record]:
        """The points of a filter, page by page. No change of their ids may run meanwhile."""
        offset: Any = None
        limit = MOVED if vectors else PAGE
        given: dict[str, Any] = {"scroll_filter": filter, "limit": limit, "with_payload": fields, "with_vectors": vectors}
        while True:
            ctx.check()
            page, offset = self._ask("scroll", offset=offset, **given)
            yield from page
            if offset is None:
                return

    def _places(self, scope: Scope) -> dict[tuple[str, str], int]:
        """The paths and objects of a scope, with the numbers of their chunks."""
        try:
            found = self._ask("facet", key=PLACE, facet_filter=condition(scope), limit=EVERY_PLACE, exact=True)
        except NoCollectionError:
            return {}
        places: dict[tuple[str, str], int] = {}
        for hit in found.hits:
            parent, _, name = str(hit.value).partition(BETWEEN)
            places[parent, name] = hit.count
        return places

    def _stored_space(self) -> VectorSpace:
        """The vector space of the collection. Makes indexes that are missing, as after a process that ended."""
        info = self._ask("get_collection")
        space = space_of(info, self._shown)
        if self._indexed is None:
            self._indexed = set(info.payload_schema)
            self._make_indexes({field: kind for field, kind in INDEXES.items() if field not in self._indexed})
        return space

    def _make_indexes(self, indexes: Mapping[str, Any]) -> None:
        indexed = self._indexed = self._indexed if self._indexed is not None else set()
        for field, kind in indexes.items():
            self._ask("create_payload_index", field_name=field, field_schema=kind)
            indexed.add(field)

    def _index(self, fields: Collection[str]) -> None:
        """Make the indexes of numbers that are compared, of the first `MAX_NUMBER_INDEXES` keys."""
        indexed = self._indexed or set()
        room = MAX_NUMBER_INDEXES - len(indexed - INDEXES.keys())
        missing = sorted(field for field in fields if field not in indexed)
        self._make_indexes(dict.fromkeys(missing[:room], models.PayloadSchemaType.FLOAT))

    def _is_empty(self) -> bool:
        """Whether the collection has no point at all."""
        return not self._ask("scroll", limit=1, with_payload=False)[0]

    # changes

    @contextmanager
    def _alone(self, ctx: ToolContext) -> Iterator[None]:
        """The turn of this process's only writer, after the changes that ended processes have left are completed."""
        ctx.check()
        while not self._writing.acquire(timeout=WRITE_AGAIN):
            ctx.check()
        try:
            if not self._is_resumed:
                with contextlib.suppress(NoCollectionError):
                    self._stored_space()  # what another program keeps is not touched
                    self._resume()
                self._is_resumed = True
            yield
        finally:
            self._writing.release()

    def _fits(self, space: VectorSpace, *, makes: bool) -> bool:
        """Whether there is a collection of this space. One that is missing, or empty and of another space, is made if that is
        wanted. Raises as `require_space`.
        """
        for _ in range(TRIES):
            try:
                stored = self._stored_space()
                if stored == space:
                    return True
                if not self._is_empty():
                    require_space(stored, space, doing="These documents were embedded")
                if not makes:
                    return False
                self._ask("delete_collection")
            except NoCollectionError:
                if not makes:
                    return False
            self._indexed = None
            try:
                self._ask("create_collection", **vectors_of(space))
                self._make_indexes(INDEXES)
            except (TakenError, NoCollectionError):
                continue
        raise ToolError("The store is emptied as fast as it is filled", code="store_conflict", hint="Call again.")

    def _change(
        self, chunks: Iterable[tuple[Chunk, Sequence[float]]], total: int, gone: Sequence[str], ctx: ToolContext
    ) -> None:
        """Store the chunks and delete the points `gone`, all or nothing."""
        pieces = self._pieces(chunks, total, ctx)
        first, second = next(pieces, []), next(pieces, None)
        ctx.check()
        if second is None and len(gone) <= IDS_AT_ONCE:
            if first:
                self._ask("upsert", points=[*first, *(bare_point(point) for point in gone)])
            if gone:
                self._ask("delete", points_selector=models.PointIdsList(points=list(gone)))
            return
        self._change_in_steps(chain(filter(None, (first, second)), pieces), gone, ctx)

    def _pieces(
        self, chunks: Iterable[tuple[Chunk, Sequence[float]]], total: int, ctx: ToolContext
    ) -> Iterator[list[models.PointStruct]]:
        """The points of chunks, in pieces that each fit in a request."""

        def points() -> Iterator[models.PointStruct]:
            for number, (chunk, vector) in enumerate(chunks):
                if number % PREPARED == 0:
                    ctx.check()
                    ctx.progress(number, total, "chunks sent to the store")
                yield point_of(chunk, vector)

        return _in_requests(points())

    def _change_in_steps(self, pieces: Iterable[Sequence[models.PointStruct]], gone: Sequence[str], ctx: ToolContext) -> None:
        change = uuid4().hex
        own = {"change": change, "at": time.time()}
        try:
            for piece in pieces:
                ctx.check()
                self._ask("upsert", points=[_staged(point, own) for point in piece])
            for ids in _portions(gone, IDS_AT_ONCE):
                self._ask("upsert", points=[bare_point(str(uuid4()), **{STAGED: {**own, "gone": [*ids]}})])
            ctx.check()
        except BaseException:
            with contextlib.suppress(RrextError, NoCollectionError):
                self._ask("delete", points_selector=models.FilterSelector(filter=of_change(change)))
            raise
        record, begun = str(uuid4()), Begun(change, socket.gethostname(), os.getpid(), time.time())
        AT_WORK.add(change)
        try:
            self._ask("upsert", points=[bare_point(record, **{BEGUN: msgspec.to_builtins(begun)})])
            self._complete(change, record)
        except BaseException:
            self._is_resumed = False  # the next change begins with the rest of this one
            raise
        finally:
            AT_WORK.discard(change)

    def _complete(self, change: str, record: str) -> None:
        """Put the points of a change in their places. Done twice, it does the same."""
        while True:
            given: dict[str, Any] = {"scroll_filter": of_change(change), "limit": MOVED, "with_vectors": True}
            found, _ = self._ask("scroll", with_payload=True, **given)
            if not found:
                break
            staged = [(each, (each.payload or {})[STAGED]) for each in found]
            points = [
                models.PointStruct(id=of["id"], vector=each.vector, payload=of["payload"]) for each, of in staged if "id" in of
            ]
            for piece in _in_requests(iter(points)):
                self._ask("upsert", points=piece)
            for _, of in staged:
                if "gone" in of:
                    self._ask("delete", points_selector=models.PointIdsList(points=of["gone"]))
            self._ask("delete", points_selector=models.PointIdsList(points=[each.id for each in found]))
        self._ask("delete", points_selector=models.PointIdsList(points=[record]))

    def _resume(self) -> None:
        """Complete the changes that ended processes have begun, and remove what no change needs."""
        records, _ = self._ask("scroll", scroll_filter=begun(), limit=PAGE, with_payload=True)
        kept: list[str] = []
        for record in records:
            change = msgspec.convert((record.payload or {})[BEGUN], Begun)
            kept.append(change.change)
            if _is_over(change):
                self._complete(change.change, str(record.id))
        self._ask("delete", points_selector=models.FilterSelector(filter=left_over(time.time() - ORPHANED, kept)))

    # searches

    def _near(self, search: Search, limit: int) -> builtins.list[Hit]:
        found = self._ask(
            "query_points",
            query=list(search.vector or ()),
            using=DENSE,
            query_filter=condition(search.scope),
            limit=limit,
            with_payload=CHUNK,
        )
        return [Hit(_chunk(point), similarity(point.score)) for point in found.points]

    def _ranked(
        self, search: Search, words: Sequence[str], limit: int, fields: Any
    ) -> builtins.list[tuple[models.ScoredPoint, float]]:
        """At most `limit` points with any of the words, and their scores. Those with all of the words come first."""
        if not words:
            return []
        query = models.SparseVector(indices=[word_number(word) for word in words], values=[1.0] * len(words))

        def found(*more: Any) -> builtins.list[models.ScoredPoint]:
            filter = condition(search.scope, *more)
            given: dict[str, Any] = {"query": query, "using": WORDS, "query_filter": filter, "with_payload": fields}
            return [point for point in self._ask("query_points", limit=limit, **given).points if point.score > 0]

        points = found()
        whole = found(*with_words(words)) if len(words) > 1 and points else []
        ids = {point.id for point in whole}
        rest = [point for point in points if point.id not in ids][: limit - len(whole)]
        more = max(0.0, rest[0].score - whole[-1].score) if whole and rest else 0.0
        return [*((point, point.score + more) for point in whole), *((point, point.score) for point in rest)]

    def _hybrid(self, search: Search, ctx: ToolContext) -> builtins.list[Hit]:
        words, limit = asked_words(search.text), candidates(search.top_k)
        scores: dict[str, float] = {}
        chunks: dict[str, Chunk] = {}
        ranked = self._ranked(search, words, limit, CHUNK)
        if ranked:
            first, most = ranked[0]
            share = share_of_words(words, stored_words(_chunk(first).content)) / most
            relevances = {str(point.id): score * share for point, score in ranked}
            chunks = {str(point.id): _chunk(point) for point, _ in ranked}
            ctx.check()
            near = self._ask(
                "query_points",
                query=list(search.vector or ()),
                using=DENSE,
                query_filter=models.Filter(must=[models.HasIdCondition(has_id=list(relevances))]),
                search_params=models.SearchParams(exact=True),
                limit=len(relevances),
                with_payload=False,
            )
            scores = {str(point.id): fused_score(similarity(point.score), relevances[str(point.id)]) for point in near.points}
        ctx.check()
        for hit in self._near(search, limit):
            one = hit.chunk
            name = str(point_id(one.owner, one.object_id, one.chunk_id))
            if name not in scores and hit.score >= self._least:
                scores[name], chunks[name] = fused_score(hit.score, 0.0), one
        best = sorted(scores, key=lambda name: (-round(scores[name], 6), name))[: search.top_k]
        return [Hit(chunks[name], round(scores[name], 6)) for name in best]


def _chunk(point: models.ScoredPoint | models.Record) -> Chunk:
    return chunk_of(point.payload or {})


def _staged(point: models.PointStruct, own: Mapping[str, Any]) -> models.PointStruct:
    payload = {STAGED: {**own, "id": point.id, "payload": point.payload}}
    return models.PointStruct(id=str(uuid4()), vector=point.vector, payload=payload)


def _in_requests(points: Iterator[models.PointStruct]) -> Iterator[list[models.PointStruct]]:
    """The points in pieces that each fit in a request; one that is too large for any is alone."""
    piece: list[models.PointStruct] = []
    size = 0
    for point in points:
        own = size_of(point)
        if piece and size + own > OPERATION:
            yield piece
            piece, size = [], 0
        piece.append(point)
        size += own
    if piece:
        yield piece


def _is_over(change: Begun) -> bool:
    """Whether the process of a change has ended, as far as this one can know."""
    if change.host != socket.gethostname():
        return change.at < time.time() - ABANDONED
    if change.process == os.getpid():
        return change.change not in AT_WORK
    try:
        os.kill(change.process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs as another user
        pass
    return change.at < time.time() - ABANDONED


def _portions(names: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    return (tuple(names[start : start + most]) for start in range(0, len(names), most))
