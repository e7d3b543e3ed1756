"""Searching the engine's shard: by vectors, by words, and by both at once. Importing this imports the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import qdrant_edge as qe

from rrext.nodes.vectors.edge.requests import CHUNK, WORDS, chunk_of, distances, near, similarity, worded
from rrext.nodes.vectors.store import Hit, Search, candidates, fused_score
from rrext.nodes.vectors.words import asked_words, share_of_words

__all__ = ["found"]


def found(shard: qe.EdgeShard, search: Search) -> list[Hit]:
    """At most `top_k` hits, best first. Raises what the engine raises."""
    if search.mode == "dense":
        points = shard.query(near(search, search.top_k, with_payload=CHUNK))
        return [Hit(chunk_of(point.payload or {}), similarity(point.score)) for point in points]
    words = asked_words(search.text)
    if search.mode == "keyword":
        points = shard.query(worded(search, words, search.top_k, with_payload=CHUNK)) if words else []
        return [Hit(chunk_of(point.payload or {}), point.score) for point in points]
    return _hybrid(shard, search, words)


def _hybrid(shard: qe.EdgeShard, search: Search, words: Sequence[str]) -> list[Hit]:
    limit = candidates(search.top_k)
    similarities = {point.id: similarity(point.score) for point in shard.query(near(search, limit))}
    relevances = _relevances(shard, words, shard.query(worded(search, words, limit))) if words else {}
    missing = relevances.keys() - similarities.keys()
    if missing:
        similarities |= {point.id: similarity(point.score) for point in shard.query(distances(search, missing))}
    scores = {one: round(fused_score(alike, relevances.get(one, 0.0)), 6) for one, alike in similarities.items()}
    best = sorted(scores, key=lambda one: (-scores[one], one))[: search.top_k]
    chunks = {record.id: chunk_of(record.payload or {}) for record in shard.retrieve(best, CHUNK, False)}
    return [Hit(chunks[one], scores[one]) for one in best if one in chunks]  # it may be deleted by now


def _relevances(shard: qe.EdgeShard, words: Sequence[str], points: Sequence[qe.ScoredPoint]) -> Mapping[Any, float]:
    """The relevance of each, as `fused_score` takes it."""
    if not points:
        return {}
    records = shard.retrieve([points[0].id], qe.PayloadSelector.Include([WORDS]), False)
    held = (records[0].payload or {}).get(WORDS, "").split() if records else []
    share = share_of_words(words, held) / points[0].score
    return {point.id: point.score * share for point in points}
