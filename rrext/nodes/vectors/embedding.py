"""Embedding of chunks and queries into the store's vector space, the chunks that a pipe keeps until it closes, and questions
of a lane as searches.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.base.lanes import empty_question, question_text
from rrext.nodes.embeddings.embedder import Embedder
from rrext.nodes.vectors.checked_input import ChunkDraft, require_vector, scope_of
from rrext.nodes.vectors.store import Chunk, Mode, Scope, Search, VectorSpace, VectorStore, document_json, require_space
from rrext.tools.context import ToolContext

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
    vectors, space = vectors_of(drafts, embedder, store.space(ctx), ctx)
    kept = chunk_ids_of(drafts) if replace else {}
    return space, store.upsert([draft.chunk for draft in drafts], vectors, space, ctx, kept, owner)


def query_vector(
    store: VectorStore, embedder: Embedder, text: str, given: array[float] | None, model: str | None, ctx: ToolContext
) -> Sequence[float] | None:
    """The vector for a query; None if the store is empty, so that nothing can be found.

    `given` is the query's own vector, and `model` its model, if known: otherwise only the size is compared.
    """
    stored = store.space(ctx)
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
        vector = query_vector(store, embedder, text, *_embedding(question), ctx)
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
    wanted = {key: filter.get(key) for key in ("objectIds", "nodeId", "parent")}
    return scope_of("/filter", wanted, ids_key="objectIds", owner=owner)


def _count(filter: Mapping[str, Any], key: str, least: int) -> int:
    value = filter.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArguments.at(f"/filter/{key}", f"expected a whole number, not below {least}")
    return value


def _read(store: VectorStore, scope: Scope, offset: int, limit: int, ctx: ToolContext, owner: str) -> list[dict[str, Any]]:
    """One page of the chunks of all named objects, one object after the other."""
    if not scope.object_ids or scope.node_id is not None or scope.parent is not None:
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
