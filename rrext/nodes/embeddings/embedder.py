"""`Embedder`: the interface of models that turn texts into vectors; `HashingEmbedder`, which needs no model; and the
embedder of a node: its bound embedding node, else hashing in this process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isqrt, sqrt
from typing import Any, Final, Literal, Protocol
from unicodedata import normalize
from zlib import crc32

from rrext.errors import InvalidArguments, ToolError
from rrext.nodes.base.node import Node
from rrext.tools.context import ToolContext

TextKind = Literal["document", "query"]
"""The role of a text: a stored passage or a query. Some models embed them differently."""


class Embedder(Protocol):
    """Turns texts into vectors of one size. Only vectors of the same model can be compared."""

    model: str
    """The name that stores keep with the vectors; "" if it is known only after the first call."""
    size: int | None
    """Numbers in a vector; None if it is known only after the first call."""

    def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        """One vector for each text, in their order. Blocks.

        Raises `InvalidArguments` at `/input/texts/<n>` for a blank text, which has no vector, and `ToolError` or
        `Unavailable` for failures of the model.
        """
        ...


def require_texts(texts: Sequence[str]) -> None:
    """Raise `InvalidArguments` at the first blank text: its vector would have no meaning."""
    for n, text in enumerate(texts):
        if not text.strip():
            raise InvalidArguments.at(f"/input/texts/{n}", "is blank: only a text that says something has a vector")


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


HASHED_SIZE: Final = 384
"""Numbers in a vector: as many as in small sentence models, so that a database column fits both."""

WORD: Final = re.compile(r"\w+")
WORD_WEIGHT, PAIR_WEIGHT, TRIGRAM_WEIGHT = 4, 2, 1
"""Weights of a word, of two neighbouring words and of a trigram: a word has about five trigrams of its own."""


class HashingEmbedder:
    """Hashes words, pairs of words and trigrams of letters into a vector of length 1.

    The same text has the same vector in every process and on every machine; no model is loaded and nothing leaves the
    process. Its limits: it is lexical. Texts are near each other if they share words, or words that are spelt alike;
    synonyms, translations and paraphrases in other words are strangers to it, and the order of words beyond pairs is
    lost. Take it for tests, for search by wording, and until a real model is bound.
    """

    def __init__(self, size: int = HASHED_SIZE) -> None:
        self.size: int | None = size
        self.model = f"hashing-{size}"

    def embed(self, texts: Sequence[str], kind: TextKind, ctx: ToolContext) -> list[list[float]]:
        """One vector for each text; both kinds are embedded alike. Raises `InvalidArguments` for a blank text."""
        require_texts(texts)
        size = self.size or HASHED_SIZE
        vectors = []
        for text in texts:
            ctx.check()
            vectors.append(hashed(text, size))
        return vectors


def hashed(text: str, size: int = HASHED_SIZE) -> list[float]:
    """The vector of one text: `size` numbers, of length 1. Case, width and composition of letters do not count.

    All is counted in whole numbers, and each number is rounded once: that makes it the same on every machine.
    """
    buckets = [0] * size
    for features, weight in _features(text):
        for feature, count in features.items():
            code = crc32(feature.encode("utf-8", "surrogatepass"))
            # The sign lets collisions cancel out instead of adding up; it is a bit that the bucket does not depend on.
            amount = weight * isqrt(64 * count)
            buckets[(code >> 1) % size] += amount if code & 1 else -amount
    length = sqrt(sum(number * number for number in buckets))
    if not length:  # all features cancel each other out
        buckets[crc32(text.encode("utf-8", "surrogatepass")) % size], length = 1, 1.0
    return [number / length for number in buckets]


def _features(text: str) -> tuple[tuple[Counter[str], int], ...]:
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    words = WORD.findall(folded) or folded.split()  # a text of signs alone: each run of signs is a word
    pairs = Counter(f"{first} {second}" for first, second in pairwise(words))
    letters = "\n".join(["", *words, ""])  # trigrams include the boundaries of words
    trigrams = Counter(letters[n : n + 3] for n in range(len(letters) - 2))
    return (Counter(words), WORD_WEIGHT), (pairs, PAIR_WEIGHT), (trigrams, TRIGRAM_WEIGHT)
