"""Embedding of chunks and queries into the store's vector space."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from rrext.errors import ToolError
from rrext.nodes.embeddings.embedder import Embedder
from rrext.nodes.vectors.drafts import ChunkDraft
from rrext.nodes.vectors.limits import EMBED_BATCH
from rrext.nodes.vectors.store import VectorSpace, VectorStore, require_space
from rrext.tools.context import ToolContext

T = TypeVar("T")


def store_drafts(
    store: VectorStore, embedder: Embedder, drafts: Sequence[ChunkDraft], ctx: ToolContext, *, replace: bool = False
) -> tuple[VectorSpace, int]:
    """Embed drafts without a vector and store all or nothing; return the vectors' space and the number of removed chunks.

    With `replace` the drafts are all chunks of their objects: the others go.
    """
    vectors, space = vectors_of(drafts, embedder, store.space(ctx), ctx)
    kept = chunk_ids_of(drafts) if replace else {}
    return space, store.upsert([draft.chunk for draft in drafts], vectors, space, ctx, kept)


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
