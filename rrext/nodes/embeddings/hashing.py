"""`HashingEmbedder`: vectors without a model, from the words and letters of a text alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import isqrt, sqrt
from typing import Final
from unicodedata import normalize
from zlib import crc32

from rrext.nodes.embeddings.embedder import TextKind, require_texts
from rrext.tools.context import ToolContext

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
