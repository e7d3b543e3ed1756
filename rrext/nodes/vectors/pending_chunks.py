"""The documents of one pipe, kept until the pipe closes, so that the objects in it are replaced as a whole."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from rrext.nodes.vectors.drafts import ChunkDraft
from rrext.nodes.vectors.limits import KEPT_CHUNKS
from rrext.nodes.vectors.store import Chunk, Scope, VectorSpace, VectorStore
from rrext.tools.context import ToolContext


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

    def delete(self, object_id: str) -> None:
        """Delete an object at the end, and drop its chunks so far."""
        self._objects[object_id] = set()
        self._chunks = {name: kept for name, kept in self._chunks.items() if name[0] != object_id}

    def store(self, store: VectorStore, ctx: ToolContext, *, is_last: bool) -> None:
        """Store the chunks; with the last part, delete the objects' surplus chunks."""
        chunks, self._chunks = list(self._chunks.values()), {}
        replace = self._objects if is_last else {}
        if self.space is not None:
            store.upsert([chunk for chunk, _ in chunks], [vector for _, vector in chunks], self.space, ctx, replace)
        elif replace:
            store.delete(Scope(object_ids=tuple(replace)), ctx)
