"""`VectorStoreNode`: the tools and lanes of all vector stores, and the embedding of their chunks and queries into the vector
space of the store.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict, TypeVar

import msgspec

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.base.lanes import empty_question, question_text
from rrext.nodes.base.node import Entry, Node, content_tenant
from rrext.nodes.embeddings.embedder import EMBEDDING_SLOT, Embedder, embedder_of
from rrext.nodes.vectors.checked_input import (
    CHUNK_PLACE,
    MAX_CONTENT,
    MAX_IDS,
    OBJECT_PLACE,
    ChunkDraft,
    SearchFilter,
    cursor_at,
    draft_of,
    drafts_of,
    folder_of,
    place_of,
    require_name,
    require_vector,
    scope_of,
    scope_to_delete,
)
from rrext.nodes.vectors.store import (
    FIRST_OBJECT,
    NOBODYS,
    Chunk,
    Mode,
    Scope,
    Search,
    VectorSpace,
    VectorStore,
    chunk_json,
    document_json,
    hit_json,
    owner_of,
    require_space,
)
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

LIST_MAX: Final = 10_000
LIST_DEFAULT: Final = 1000
GET_MAX: Final = 1000
GET_DEFAULT: Final = 100
"""Chunks are whole texts: a page of the longest default ones is about a hundred kilobytes."""

MAX_TOP_K: Final = 100
"""Hits of one search: more than anybody reads."""

MAX_DOCUMENTS: Final = 100_000
"""Documents in one `upsert`; the bytes of a request have a limit of their own."""

READS = {"readOnlyHint": True}
WRITES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}

Offset = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class VectorSettings:
    """The settings of all vector stores."""

    shared: Annotated[
        bool | Literal["space"],
        "Who reads and changes one content: all users and spaces (true), or all users of a space (`space`; without a space "
        "each user has its own). Else each user in each space has its own.",
    ] = False


class DocumentInput(TypedDict):
    """A chunk to store."""

    content: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CONTENT)]
    object_id: Annotated[str, msgspec.Meta(min_length=1, description="The document that it is a piece of.")]
    metadata: NotRequired[
        Annotated[
            dict[str, Any] | None,
            msgspec.Meta(description="`chunkId` (0 if left out), `parent` (a path), `nodeId`; anything else is kept too."),
        ]
    ]
    embedding: NotRequired[Annotated[list[float] | None, msgspec.Meta(description="Its vector, if there is one already.")]]
    embedding_model: NotRequired[str | None]


class VectorStoreNode(Node):
    """Base of the vector stores: `self.shared` is a `VectorStore`, which the class's own `setup` yields.

    On the documents lane, all chunks of an object that is sent again replace its former ones, also if there are none. They are
    stored when the object's pipe closes, all or nothing. A document with `isDeleted` deletes its object. The hits of a question
    go out as documents, as an answer, and within the question itself, for a language model. `semantic` questions search by
    meaning, `keyword` ones by words, `get` ones read the objects of their filter, and all others do both kinds of search.
    """

    class_types = ("store",)
    lanes = {"documents": (), "questions": ("documents", "answers", "questions")}
    invoke = EMBEDDING_SLOT

    shared: VectorStore
    config: VectorSettings

    def __init__(self) -> None:
        self._sent = PendingChunks()

    def _owner(self, ctx: ToolContext) -> str:
        """Whose chunks a call stores and reads."""
        if self.config.shared == "space":
            return owner_of(*content_tenant(ctx.user_id, ctx.space_id))
        return NOBODYS if self.config.shared else owner_of(ctx.user_id, ctx.space_id)

    @tool_function(group="vectors", annotations=READS)
    def search(
        self,
        query: str | None = None,
        top_k: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOP_K)] = 10,
        mode: Mode | None = None,
        filter: SearchFilter | None = None,
        score_threshold: float | None = None,
        embedding: list[float] | None = None,
        embedding_model: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Find the chunks that fit a query best. Answers `{results: [{content, score, metadata}], total, mode}`.

        `score` is higher for better ones. dense: the cosine similarity, -1 to 1. keyword: the relevance of the words,
        above 0, without an upper end. hybrid: 0 to 1, the mean of the similarity and of the share that the words have.

        Args:
            query: What is looked for, in words.
            top_k: How many are found at most.
            mode: "dense" compares meanings (vectors), "keyword" words, "hybrid" both. If left out: hybrid, or dense for an
                embedding without a query.
            filter: Only chunks of these objects, this node, these parent paths, of paths and all below them (`prefix`), or
                with this `metadata`: `{"kind": "letter", "tag": ["a", "b"], "year": {"gte": 2024}}`.
            score_threshold: Only results with at least this score.
            embedding: The query's vector, if there is one already. Alone it means a dense search.
            embedding_model: The model that made `embedding`, to be sure that it fits.
        """
        text = (query or "").strip()
        if mode is None:
            mode = "dense" if embedding is not None and not text else "hybrid"
        if not text and not (embedding is not None and mode == "dense"):
            raise InvalidArguments.at("/input/query", "expected some text to look for")
        scope = scope_of("/input/filter", filter, owner=self._owner(ctx))
        vector = None if embedding is None else require_vector("/input/embedding", embedding)
        if mode != "keyword":
            vector = query_vector(self.shared, embedder_of(self), text, vector, embedding_model, ctx, self._owner(ctx))
        hits = [] if mode != "keyword" and vector is None else self.shared.search(Search(mode, top_k, text, vector, scope), ctx)
        if score_threshold is not None:
            hits = [hit for hit in hits if hit.score >= score_threshold]
        return {"results": [hit_json(hit) for hit in hits], "total": len(hits), "mode": mode}

    @tool_function(group="vectors", annotations=WRITES)
    def upsert(
        self,
        documents: Annotated[list[DocumentInput], msgspec.Meta(min_length=1, max_length=MAX_DOCUMENTS)],
        replace: bool = False,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Store chunks of documents. Answers `{success, count, skipped, removed, model}`.

        A chunk takes the place of the one with the same object id and `chunkId`. All is stored or nothing, whatever
        happens. `removed` counts the chunks that `replace` removed; `skipped` is always 0.

        Args:
            documents: The chunks. Those without an `embedding` are embedded here.
            replace: Whether these are all chunks of their objects: the ones stored before and not given are removed.
        """
        owner = self._owner(ctx)
        drafts = drafts_of(documents, owner)
        space, removed = store_drafts(self.shared, embedder_of(self), drafts, ctx, replace=replace, owner=owner)
        return {"success": True, "count": len(drafts), "skipped": 0, "removed": removed, "model": space.model}

    @tool_function(group="vectors", annotations=WRITES)
    def delete(
        self,
        object_ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_IDS)] | None = None,
        parent: str | None = None,
        prefix: str | None = None,
        everything: bool = False,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Remove objects with all their chunks, by exactly one of the arguments.

        Answers `{success, deleted_count, objects, missing}`: how many chunks were there and are gone, of how many objects,
        and which of the `object_ids` had none.

        Args:
            object_ids: The objects.
            parent: All chunks of this very path.
            prefix: All chunks of this path and those below it: "/a" means "/a" and "/a/b", not "/ab".
            everything: All that the caller has, and nothing of others.
        """
        scope = scope_to_delete(object_ids, parent, prefix, everything=everything, owner=self._owner(ctx))
        gone = self.shared.delete(scope, ctx)
        missing = [object_id for object_id in scope.object_ids or () if object_id not in gone.object_ids]
        return {"success": True, "deleted_count": gone.chunks, "objects": len(gone.object_ids), "missing": missing}

    @tool_function(group="vectors", annotations=WRITES)
    def move(
        self,
        object_id: Annotated[str, msgspec.Meta(min_length=1)],
        to: Annotated[str, msgspec.Meta(min_length=1)],
        parent: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Give an object another id, as after its file was moved. Answers `{success, count}`.

        Its chunks keep their vectors and their metadata; an object of the new id is replaced. All is done or nothing.
        `count` is the number of chunks; if it is 0, there is no such object, and nothing was changed.

        Args:
            object_id: The object.
            to: Its new id.
            parent: The new path of all its chunks; without it they keep theirs.
        """
        object_id, to = require_name("/input/object_id", object_id), require_name("/input/to", to)
        place = None if parent is None else require_name("/input/parent", parent)
        return {"success": True, "count": self.shared.move(object_id, to, place, ctx, self._owner(ctx))}

    @tool_function(name="list", group="vectors", annotations=READS)
    def list_paths(
        self,
        parent: str | None = None,
        offset: Offset = 0,
        limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = LIST_DEFAULT,
        cursor: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """The objects that are stored, sorted by parent path and id.

        Answers `{success, objects, paths, counts, total, cursor}`. `objects` are `{parent, objectId, chunks}`, and `total`
        counts all of them, not only this page's. Of this page, `paths` has the first object of each path, and `counts` the
        number of chunks. `cursor` is null on the last page.

        Args:
            parent: Only this path and those below it.
            offset: How many objects are left out at the beginning.
            limit: How many objects are listed at most.
            cursor: That of the page before: this page begins where that one ended, whatever was stored or deleted since.
        """
        prefix = None if parent is None else folder_of("/input/parent", parent)
        after = place_of(cursor, OBJECT_PLACE, FIRST_OBJECT)
        found = self.shared.list(prefix, offset, limit + 1, ctx, self._owner(ctx), after)
        page, more = found.objects[:limit], found.objects[limit:]
        paths: dict[str, str] = {}
        counts: dict[str, int] = {}
        for one in page:
            paths.setdefault(one.parent, one.object_id)
            counts[one.parent] = counts.get(one.parent, 0) + one.chunks
        objects = [{"parent": one.parent, "objectId": one.object_id, "chunks": one.chunks} for one in page]
        cursor = cursor_at((page[-1].parent, page[-1].object_id)) if more else None
        return {"success": True, "objects": objects, "paths": paths, "counts": counts, "total": found.total, "cursor": cursor}

    @tool_function(group="vectors", annotations=READS)
    def objdir(
        self,
        parent: str | None = None,
        offset: Offset = 0,
        limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)] = LIST_DEFAULT,
        cursor: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """The same as `list`, by its older name.

        Args:
            parent: Only this path and those below it.
            offset: How many objects are left out at the beginning.
            limit: How many objects are listed at most.
            cursor: That of the page before: this page begins where that one ended, whatever was stored or deleted since.
        """
        return self.list_paths(parent, offset, limit, cursor, ctx=ctx)

    @tool_function(group="vectors", annotations=READS)
    def get(
        self,
        object_id: Annotated[str, msgspec.Meta(min_length=1)],
        offset: Offset = 0,
        limit: Annotated[int, msgspec.Meta(ge=1, le=GET_MAX)] = GET_DEFAULT,
        cursor: str | None = None,
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Read one object, chunk by chunk. Answers `{success, chunks: [{content, chunkId, metadata}], total, cursor}`.

        The chunks are sorted by `chunkId`; `total` counts all that the object has, 0 if there is no such object. `cursor` is
        null on the last page.

        Args:
            object_id: The object.
            offset: How many chunks are left out at the beginning.
            limit: How many chunks are read at most.
            cursor: That of the page before: this page begins where that one ended, whatever was stored or deleted since.
        """
        object_id = require_name("/input/object_id", object_id)
        found = self.shared.get(object_id, offset, limit + 1, ctx, self._owner(ctx), place_of(cursor, CHUNK_PLACE, -1))
        page, more = found.chunks[:limit], found.chunks[limit:]
        cursor = cursor_at(page[-1].chunk_id) if more else None
        return {"success": True, "chunks": [chunk_json(chunk) for chunk in page], "total": found.total, "cursor": cursor}

    @tool_function(group="vectors", annotations=READS)
    def versions(
        self,
        object_ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_IDS)],
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Which versions of objects are stored. Answers `{success, versions: {id: {chunks, signature}}}`.

        Objects without chunks are left out. `signature` is that of all chunks' metadata, null if they have none or several.

        Args:
            object_ids: The objects.
        """
        wanted = [require_name(f"/input/object_ids/{n}", object_id) for n, object_id in enumerate(object_ids)]
        found = {
            version.object_id: {"chunks": version.chunks, "signature": version.signature}
            for version in self.shared.versions(wanted, ctx, self._owner(ctx))
        }
        return {"success": True, "versions": found}

    @tool_function(group="vectors", annotations=READS)
    def stats(self, *, ctx: ToolContext) -> dict[str, Any]:
        """What the caller has. Answers `{success, count, objects, parents, model, vector_size, disk_bytes, keyword, details}`.

        `count` is the number of chunks. `model` and `vector_size` are null while nothing is stored; these and `disk_bytes` are
        of the whole store on PostgreSQL.
        """
        found = self.shared.stats(ctx, self._owner(ctx))
        return {
            "success": True,
            "count": found.chunks,
            "objects": found.objects,
            "parents": found.parents,
            "model": found.space.model if found.space else None,
            "vector_size": found.space.size if found.space else None,
            "disk_bytes": found.disk_bytes,
            "keyword": found.keyword,
            "details": found.details,
        }

    def open(self, entry: Entry) -> None:
        self._entry = entry
        self._asked = False
        self._sent = PendingChunks()

    def write_documents(self, documents: Sequence[dict[str, Any]], ctx: ToolContext) -> None:
        drafts = []
        for n, document in enumerate(documents):
            metadata = document.get("metadata") or {}
            object_id = require_name(f"/documents/{n}/metadata/objectId", metadata.get("objectId"))
            if metadata.get("isDeleted"):
                drafts = [draft for draft in drafts if draft.chunk.object_id != object_id]
                self._sent.delete(object_id)
            else:
                if self._entry.signature is not None and object_id == self._entry.object_id:
                    document = {**document, "metadata": {**metadata, "signature": self._entry.signature}}
                keys = ("page_content", "metadata/objectId")
                content = document.get("page_content")
                drafts.append(draft_of(f"/documents/{n}", keys, document, object_id, content, self._owner(ctx)))
        if drafts:
            stored = self._sent.space or self.shared.space(ctx, self._owner(ctx))
            self._sent.add(drafts, *vectors_of(drafts, embedder_of(self), stored, ctx))
            if self._sent.is_full:
                self._sent.store(self.shared, ctx, self._owner(ctx), is_last=False)

    def closing(self, ctx: ToolContext) -> None:
        sent, self._sent = self._sent, PendingChunks()
        is_kept = not self._asked and self.listens("documents")
        if is_kept:
            sent.end(self._entry.object_id)
        sent.store(self.shared, ctx, self._owner(ctx), is_last=True)
        if is_kept:
            self._entry.stored[self.node_id] = sent.count

    def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        self._asked = True
        documents = documents_for(question, self.shared, embedder_of(self), ctx, self._owner(ctx))
        self.emit("documents", documents)
        self.emit("answers", answer_to(question, documents))
        self.emit("questions", {**question, "documents": [*(question.get("documents") or ()), *documents]})


EMBED_BATCH: Final = 256
"""Texts that are embedded between two checks whether the call has been cancelled."""

KEPT_CHUNKS: Final = 100_000
"""Chunks that are kept before a part is stored, as many as one call of `upsert` takes."""

T = TypeVar("T")


def store_drafts(
    store: VectorStore,
    embedder: Embedder,
    drafts: Sequence[ChunkDraft],
    ctx: ToolContext,
    *,
    owner: str,
    replace: bool = False,
) -> tuple[VectorSpace, int]:
    """Embed drafts without a vector and store all or nothing; return the vectors' space and the number of removed chunks.

    With `replace` the drafts are all chunks of their objects: the others go.
    """
    vectors, space = vectors_of(drafts, embedder, store.space(ctx, owner), ctx)
    kept = chunk_ids_of(drafts) if replace else {}
    return space, store.upsert([draft.chunk for draft in drafts], vectors, space, ctx, kept, owner)


def query_vector(
    store: VectorStore,
    embedder: Embedder,
    text: str,
    given: array[float] | None,
    model: str | None,
    ctx: ToolContext,
    owner: str,
) -> Sequence[float] | None:
    """The vector for a query; None if the owner has nothing, so that nothing can be found.

    `given` is the query's own vector, and `model` its model, if known: otherwise only the size is compared.
    """
    stored = store.space(ctx, owner)
    if given is not None:
        if stored is None:
            return None
        require_space(stored, VectorSpace(model or stored.model, len(given)), doing="This embedding was made")
        return given
    if stored is None:
        return None
    if embedder.model and embedder.size is not None:
        require_space(stored, VectorSpace(embedder.model, embedder.size), doing="This query would be embedded")
    vector = embedder.embed([text], "query", ctx)[0]
    require_space(stored, VectorSpace(embedder.model, len(vector)), doing="This query was embedded")
    return vector


def chunk_ids_of(drafts: Iterable[ChunkDraft]) -> dict[str, set[int]]:
    """Collect object id -> its chunk ids."""
    found: dict[str, set[int]] = {}
    for draft in drafts:
        found.setdefault(draft.chunk.object_id, set()).add(draft.chunk.chunk_id)
    return found


def _brought_space(drafts: Sequence[ChunkDraft], stored: VectorSpace | None) -> VectorSpace | None:
    """The space of the vectors in the documents; None if there are none. Raises if they disagree."""
    space = stored
    found: VectorSpace | None = None
    for draft in drafts:
        if draft.vector is not None:
            found = VectorSpace(draft.model, len(draft.vector))
            require_space(space, found, doing="This document was embedded")
            space = found
    return found


def vectors_of(
    drafts: Sequence[ChunkDraft], embedder: Embedder, stored: VectorSpace | None, ctx: ToolContext
) -> tuple[list[array[float]], VectorSpace]:
    """A vector for every document, all of one space: the document's own, or the embedder's for documents without one.

    Raises `ToolError` (`embedding_model_mismatch`) if the vectors disagree with each other or with the store, before any text
    is embedded if possible.
    """
    brought = _brought_space(drafts, stored)
    expected = brought or stored
    bare = [n for n, draft in enumerate(drafts) if draft.vector is None]
    if bare and expected is not None and embedder.model and embedder.size is not None:
        require_space(expected, VectorSpace(embedder.model, embedder.size), doing="These documents would be embedded")
    vectors = [draft.vector for draft in drafts]
    for positions in _slices(bare, EMBED_BATCH):
        ctx.check()
        made = embedder.embed([drafts[n].chunk.content for n in positions], "document", ctx)
        for n, vector in zip(positions, made, strict=True):
            vectors[n] = array("f", vector)
        expected = _embedded_space(embedder, made, expected)
    if expected is None:
        raise ValueError("no documents: there is no space to name")
    return [vector for vector in vectors if vector is not None], expected


def _embedded_space(embedder: Embedder, made: Sequence[Sequence[float]], expected: VectorSpace | None) -> VectorSpace:
    space = VectorSpace(embedder.model, len(made[0]))
    require_space(expected, space, doing="These documents were embedded")
    if any(len(vector) != space.size for vector in made):
        raise ToolError(f'"{embedder.model}" made vectors of several sizes', code="embedding_size_mismatch")
    return space


def _slices(items: Sequence[T], length: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), length):
        yield items[start : start + length]


class PendingChunks:
    """The chunks of a pipe, with their vectors, and the objects that they belong to."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, int], tuple[Chunk, array[float]]] = {}
        self._objects: dict[str, set[int]] = {}
        self.space: VectorSpace | None = None

    @property
    def count(self) -> int:
        """The number of chunks of the pipe's objects, including those already stored."""
        return sum(map(len, self._objects.values()))

    @property
    def is_full(self) -> bool:
        """Whether a part has to be stored before the next chunks."""
        return len(self._chunks) >= KEPT_CHUNKS

    def add(self, drafts: Sequence[ChunkDraft], vectors: Sequence[array[float]], space: VectorSpace) -> None:
        """Add the chunks of some objects; a repeated chunk replaces the earlier one."""
        self.space = space
        for draft, vector in zip(drafts, vectors, strict=True):
            chunk = draft.chunk
            self._chunks[chunk.object_id, chunk.chunk_id] = chunk, vector
            self._objects.setdefault(chunk.object_id, set()).add(chunk.chunk_id)

    def end(self, object_id: str) -> None:
        """Note that an object was sent whole: without chunks here, it has none in the store either."""
        self._objects.setdefault(object_id, set())

    def delete(self, object_id: str) -> None:
        """Delete an object at the end, and drop its chunks so far."""
        self._objects[object_id] = set()
        self._chunks = {name: kept for name, kept in self._chunks.items() if name[0] != object_id}

    def store(self, store: VectorStore, ctx: ToolContext, owner: str, *, is_last: bool) -> None:
        """Store the chunks, all of one owner; with the last part, delete the objects' surplus chunks."""
        chunks, self._chunks = list(self._chunks.values()), {}
        replace = self._objects if is_last else {}
        if self.space is not None:
            store.upsert([chunk for chunk, _ in chunks], [vector for _, vector in chunks], self.space, ctx, replace, owner)
        elif replace:
            store.delete(Scope(object_ids=tuple(replace), owner=owner), ctx)


MAX_LIMIT: Final = 1000
"""Documents for one question, with those that `offset` leaves out: more than any language model reads."""

MODES: Final[Mapping[str, Mode]] = {"semantic": "dense", "keyword": "keyword"}
"""Type of a question -> its search mode; all other types search in both modes."""

NARROWING: Final = (
    "minChunkId", "maxChunkId", "name", "permissions", "isDeleted", "chunkIds", "isTable", "tableIds",
)  # fmt: skip
"""Filters that these stores cannot apply. Refused, because an answer from more than was asked would leak data."""


def documents_for(
    question: Mapping[str, Any], store: VectorStore, embedder: Embedder, ctx: ToolContext, owner: str
) -> list[dict[str, Any]]:
    """The chunks for a question, as documents: best first, or for `get` in the order of the objects' chunks.

    Raises `InvalidArguments` for a question that asks nothing and for a filter that cannot be kept to.
    """
    filter = {**empty_question()["filter"], **(question.get("filter") or {})}
    scope = _scope(filter, owner)
    offset, limit = _count(filter, "offset", 0), _count(filter, "limit", 1)
    if offset + limit > MAX_LIMIT:
        raise InvalidArguments.at("/filter/limit", f"with the offset it is more than {MAX_LIMIT}")
    if question.get("type") == "get":
        return _read(store, scope, offset, limit, ctx, owner)
    text = question_text(question).strip()
    if not text:
        raise InvalidArguments.at("/questions", "asks nothing: there is no text to look for")
    mode: Mode = MODES.get(str(question.get("type")), "hybrid")
    vector = None
    if mode != "keyword":
        vector = query_vector(store, embedder, text, *_embedding(question), ctx, owner)
        if vector is None:
            return []
    hits = store.search(Search(mode, offset + limit, text, vector, scope), ctx)
    return [document_json(hit.chunk, hit.score) for hit in hits[offset:]]


def answer_to(question: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make an answer from hits: the documents as JSON if `expectJson`, else their texts."""
    if question.get("expectJson"):
        return {"answer": list(documents), "expectJson": True}
    return {"answer": "\n\n".join(document["page_content"] for document in documents), "expectJson": False}


def _scope(filter: Mapping[str, Any], owner: str) -> Scope:
    refused = [key for key in NARROWING if filter.get(key) is not None]
    if refused:
        raise InvalidArguments.of([(f"/filter/{key}", "this store cannot filter by it") for key in refused])
    wanted = {key: filter.get(key) for key in ("objectIds", "nodeId", "parent", "prefix", "metadata")}
    return scope_of("/filter", wanted, ids_key="objectIds", owner=owner)


def _count(filter: Mapping[str, Any], key: str, least: int) -> int:
    value = filter.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArguments.at(f"/filter/{key}", f"expected a whole number, not below {least}")
    return value


def _read(store: VectorStore, scope: Scope, offset: int, limit: int, ctx: ToolContext, owner: str) -> list[dict[str, Any]]:
    """One page of the chunks of all named objects, one object after the other."""
    if not scope.object_ids or scope != Scope(object_ids=scope.object_ids, owner=owner):
        raise InvalidArguments.at("/filter/objectIds", 'a question of type "get" names the objects to read, and nothing else')
    documents: list[dict[str, Any]] = []
    for object_id in scope.object_ids:
        page = store.get(object_id, offset, max(limit - len(documents), 1), ctx, owner)
        documents += [document_json(chunk, None) for chunk in page.chunks[: limit - len(documents)]]
        offset = max(offset - page.total, 0)
        if len(documents) == limit:
            break
    return documents


def _embedding(question: Mapping[str, Any]) -> tuple[array[float] | None, str | None]:
    """The question's own vector, if its only text has one, and the vector's model."""
    asked = [item for item in question.get("questions") or () if isinstance(item, Mapping)]
    if len(asked) != 1 or asked[0].get("embedding") is None:
        return None, None
    return require_vector("/questions/0/embedding", asked[0]["embedding"]), asked[0].get("embedding_model")
