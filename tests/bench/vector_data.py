"""Chunks for benchmarks of vector stores: text of words as common and as rare as in prose, the same at every call."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from typing import Any

WORDS = 20_000
WORDS_PER_CHUNK = 40
CHUNKS_PER_OBJECT = 10
TOPICS = 300
NOISE = 0.8
"""How far a vector is from its topic: a text of the topic is found among its like, not by chance."""


def documents(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Documents as the tool `upsert` takes them, without vectors: ten chunks to an object, one object to a path."""
    dice = random.Random(seed)
    words, weights = _words()
    for n in range(count):
        number = n // CHUNKS_PER_OBJECT
        content = " ".join(dice.choices(words, cum_weights=weights, k=WORDS_PER_CHUNK))
        metadata = {"parent": f"/library/{number % 100}/{number}", "chunkId": n % CHUNKS_PER_OBJECT}
        metadata |= {"source": f"source-{number % 10}", "modified": number}
        yield {"content": content, "object_id": f"object-{number}", "metadata": metadata}


def queries(count: int, seed: int = 2) -> list[str]:
    """Questions of four words of the same kind."""
    dice = random.Random(seed)
    words, weights = _words()
    return [" ".join(dice.choices(words, cum_weights=weights, k=4)) for _ in range(count)]


def vectors(count: int, size: int = 384, seed: int = 3) -> Iterator[array[float]]:
    """Vectors in heaps, as a model makes of texts on some hundred topics; far quicker than embedding. Not of length 1."""
    import numpy as np

    topics = np.random.default_rng(0).normal(size=(TOPICS, size))
    dice = np.random.default_rng(seed)
    for start in range(0, count, 1000):
        amount = min(1000, count - start)
        block = topics[dice.integers(0, TOPICS, amount)] + NOISE * dice.normal(size=(amount, size))
        for row in block.astype("f4"):
            yield array("f", row.tobytes())


def _words() -> tuple[list[str], list[float]]:
    """Words and their summed up weights: the n-th word is as common as 1 / n."""
    total, sums = 0.0, []
    for n in range(WORDS):
        total += 1 / (n + 1)
        sums.append(total)
    return [f"word{n}" for n in range(WORDS)], sums
