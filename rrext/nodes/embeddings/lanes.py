"""Documents and questions of the lanes: their texts, and copies of them with vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

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
