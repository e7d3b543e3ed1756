"""`EmbeddingNode`, the base of all embedding nodes, with the texts of its lanes, and `embedding_hashing`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Protocol

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.base.node import Node
from rrext.nodes.base.setup import SetupContext
from rrext.nodes.embeddings.embedder import HASHED_SIZE, Embedder, HashingEmbedder, TextKind, require_texts
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function

MAX_TEXTS: Final = 2048
"""Texts in one call of `embed`: as many as model servers take. Their vectors have to fit into one result as well."""
MAX_CHARACTERS: Final = 4_000_000
"""Characters in one call of `embed`; thousands of pages, which no caller waits for."""


class EmbeddingVectors(Protocol):
    """The vectors of a node's model, for the event loop."""

    @property
    def model(self) -> str:
        """The name that documents and stores remember."""
        ...

    async def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        """One vector for each text, in their order; all of one size."""
        ...


class ThreadedVectors:
    """The vectors of a local embedder, computed on a thread so that the event loop stays free."""

    def __init__(self, embedder: Embedder, setup: SetupContext) -> None:
        self._embedder = embedder
        self._setup = setup

    @property
    def model(self) -> str:
        return self._embedder.model

    async def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        return await self._setup.in_thread(self._embedder.embed, texts, kind, ctx)


class EmbeddingNode(Node):
    """Gives documents and questions the vectors of their texts, and embeds for the nodes that are bound to it.

    A document or question that has a vector of this model already keeps it; one of another model is replaced. Documents and
    questions without text pass unchanged.
    """

    class_types = ("embedding",)
    lanes = {"documents": ("documents",), "questions": ("questions",)}
    shared: EmbeddingVectors

    async def write_documents(self, documents: list[dict[str, Any]], ctx: ToolContext) -> None:
        await self._send("documents", await self._filled(pending_documents(documents, self.shared.model), "document", ctx))

    async def write_questions(self, question: dict[str, Any], ctx: ToolContext) -> None:
        texts = await self._filled(pending_question(question, self.shared.model), "query", ctx)
        await self._send("questions", {**question, "questions": texts})

    @tool_function(group="embedding", annotations={"readOnlyHint": True})
    async def embed(
        self,
        texts: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_TEXTS)],
        kind: TextKind = "document",
        *,
        ctx: ToolContext,
    ) -> dict[str, Any]:
        """Turn texts into vectors. Answers `{model, size, vectors}`, one vector of `size` numbers for each text.

        Vectors can be compared with those of the same model alone.

        Args:
            texts: The texts; none of them blank.
            kind: Whether they are looked through or looked for; some models embed the two differently.
        """
        require_texts(texts)
        characters = sum(map(len, texts))
        if characters > MAX_CHARACTERS:
            raise InvalidArguments.at("/input/texts", f"hold {characters:,} characters; one call takes {MAX_CHARACTERS:,}")
        vectors = await self.shared.embed(texts, kind, ctx)
        return {"model": self.shared.model, "size": len(vectors[0]), "vectors": vectors}

    async def _filled(self, pending: Pending, kind: TextKind, ctx: ToolContext) -> list[Any]:
        vectors = await self.shared.embed(pending.texts, kind, ctx) if pending.texts else []
        return pending.filled(self.shared.model, vectors)

    async def _send(self, lane: str, value: Any) -> None:
        sent = self.emit(lane, value)
        if sent is not None:
            await sent


class HashingNode(EmbeddingNode):
    """Embeds by hashing words and letters: no model, no network, the same everywhere.

    It is lexical: texts are near each other if they share words or their spelling, not if they mean the same.
    """

    provider = "embedding_hashing"
    title = "Embedding (hashing)"

    class Config:
        size: Annotated[int, msgspec.Meta(ge=16, le=4096), "Numbers in a vector; fewer make more words collide."] = HASHED_SIZE

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[EmbeddingVectors]:
        """Prepares nothing: the embedder is code alone."""
        yield ThreadedVectors(HashingEmbedder(config.size), ctx)


Vector = list[float]


class Pending(msgspec.Struct, frozen=True):
    """Items, and which of them get a vector: `places` are their indexes, `texts` their texts.

    `items` are documents, or the texts of a question. They are never changed: others hear the same lane.
    """

    items: tuple[Any, ...]
    places: tuple[int, ...]
    texts: tuple[str, ...]

    def filled(self, model: str, vectors: Sequence[Vector]) -> list[Any]:
        """The items, with vectors where they were missing; all else is unchanged."""
        filled = list(self.items)
        for place, vector in zip(self.places, vectors, strict=True):
            filled[place] = {**filled[place], "embedding": vector, "embedding_model": model}
        return filled


def pending_documents(documents: Iterable[Any], model: str) -> Pending:
    """Documents with a text and without a vector of this model. Documents without a text, as of a picture, stay as they are."""
    return _pending(documents, "page_content", model)


def pending_question(question: Mapping[str, Any], model: str) -> Pending:
    """The texts of a question that have no vector of this model yet."""
    return _pending(question.get("questions") or (), "text", model)


def _pending(items: Iterable[Any], key: str, model: str) -> Pending:
    items = tuple(items)
    places, texts = [], []
    for place, item in enumerate(items):
        text = item.get(key) if isinstance(item, Mapping) else None
        if isinstance(text, str) and text.strip() and not _has_vector(item, model):
            places.append(place)
            texts.append(text)
    return Pending(items, tuple(places), tuple(texts))


def _has_vector(item: Mapping[str, Any], model: str) -> bool:
    return bool(item.get("embedding")) and item.get("embedding_model") == model
