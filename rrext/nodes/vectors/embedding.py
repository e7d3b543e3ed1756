"""Embedding of chunks and queries into the store's vector space, and the chunks that a pipe keeps until it closes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from rrext.errors import ToolError
from rrext.nodes.embeddings.embedder import Embedder
from rrext.nodes.vectors.checked_input import ChunkDraft
from rrext.nodes.vectors.store import Chunk, Scope, VectorSpace, VectorStore, require_space
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
