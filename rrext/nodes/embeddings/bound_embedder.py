"""The embedder of a node: its bound embedding node, else hashing in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rrext.errors import ToolError
from rrext.nodes.base.node import Node
from rrext.nodes.embeddings.embedder import Embedder, TextKind, require_texts
from rrext.nodes.embeddings.hashing import HashingEmbedder
from rrext.tools.context import ToolContext

BOUND_MAX_TEXTS: Final = 64
"""Texts in one call of the bound node: their vectors, as JSON, stay far below the limit of a result."""
BOUND_MAX_CHARACTERS: Final = 1_000_000
"""Characters in one call of the bound node. A longer text goes alone."""

EMBEDDING_SLOT: Final = {
    "embedding": {"description": "What turns texts into vectors; without one they are hashed.", "min": 0, "max": 1}
}
"""Declares an optional embedding node in `Node.invoke`."""


def embedder_of(node: Node) -> Embedder:
    """The embedding node that is bound to `node`, or `HashingEmbedder` without one. Cheap: make one per call."""
    bound = node.bindings.get("embedding", ())
    return BoundEmbedder(bound[0]) if bound else HashingEmbedder()


class BoundEmbedder:
    """Calls the tool `embed` of an embedding node of the pipeline. `model` and `size` are known after the first call."""

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id
        self.model = ""
        self.size: int | None = None

    def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        """Embed the texts in batches, one vector each. Raises the errors of the node's tool."""
        require_texts(texts)
        vectors: list[list[float]] = []
        for batch in batches(texts, BOUND_MAX_TEXTS, BOUND_MAX_CHARACTERS):
            ctx.check()
            answer = ctx.call_blocking(self._node_id, "embed", {"texts": batch, "kind": kind})
            self._remember(answer, len(batch))
            vectors.extend(answer["vectors"])
        return vectors

    def _remember(self, answer: Any, count: int) -> None:
        model, size, vectors = answer["model"], answer["size"], answer["vectors"]
        if self.size is not None and (model, size) != (self.model, self.size):
            raise ToolError(
                f'Node "{self._node_id}" changed its model within a call, from "{self.model}" to "{model}"',
                code="embedding_model_mismatch",
            )
        if len(vectors) != count or any(len(vector) != size for vector in vectors):
            raise ToolError(
                f'Node "{self._node_id}" answered vectors of another number or size than it was asked for',
                code="embedding_size_mismatch",
            )
        self.model, self.size = model, size


def batches(texts: Sequence[str], max_texts: int, max_characters: int) -> Iterator[list[str]]:
    """Split texts into lists of at most so many texts and characters; a longer text is a list of its own."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == max_texts or characters + len(text) > max_characters):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
