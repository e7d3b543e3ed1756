"""The documents of one pipe, kept until it closes, so that the objects in it are replaced as a whole."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from rrext.nodes.vectors.incoming import ChunkDraft
from rrext.nodes.vectors.limits import KEPT_CHUNKS
from rrext.nodes.vectors.store import Chunk, Scope, Space, VectorStore
from rrext.tools.context import ToolContext


class Sent:
    """The chunks that a pipe sent, with their vectors, and the objects that they are all chunks of."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, int], tuple[Chunk, array[float]]] = {}
        self._objects: dict[str, set[int]] = {}
        self.space: Space | None = None

    @property
    def count(self) -> int:
        """How many chunks its objects have, with those that were stored already."""
        return sum(map(len, self._objects.values()))

    @property
    def is_full(self) -> bool:
        """Whether some have to be stored before the others come."""
        return len(self._chunks) >= KEPT_CHUNKS

    def add(self, drafts: Sequence[ChunkDraft], vectors: Sequence[array[float]], space: Space) -> None:
        """Chunks of some objects; one that came before is replaced."""
        self.space = space
        for draft, vector in zip(drafts, vectors, strict=True):
            chunk = draft.chunk
            self._chunks[chunk.object_id, chunk.chunk_id] = chunk, vector
            self._objects.setdefault(chunk.object_id, set()).add(chunk.chunk_id)

    def delete(self, object_id: str) -> None:
        """The object is to be deleted, with what came of it so far."""
        self._objects[object_id] = set()
        self._chunks = {name: kept for name, kept in self._chunks.items() if name[0] != object_id}

    def store(self, store: VectorStore, ctx: ToolContext, *, is_last: bool) -> None:
        """Store the chunks; with the last ones, what the objects do not have any more goes."""
        chunks, self._chunks = list(self._chunks.values()), {}
        replace = self._objects if is_last else {}
        if self.space is not None:
            store.upsert([chunk for chunk, _ in chunks], [vector for _, vector in chunks], self.space, ctx, replace)
        elif replace:
            store.delete(Scope(object_ids=tuple(replace)), ctx)
