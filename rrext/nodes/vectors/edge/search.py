"""Searching Qdrant's shard: by vectors, by words, and by both at once. Importing this imports Qdrant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any
from uuid import UUID

import qdrant_edge as qe

from rrext.nodes.vectors.edge.requests import CHUNK, WORDS, chunk_of, distances, near, similarity, worded
from rrext.nodes.vectors.store import Hit, Search, candidates, fused_score
from rrext.nodes.vectors.words import asked_words, share_of_words


def found(shard: qe.EdgeShard, search: Search) -> list[Hit]:
    """At most `top_k` hits, best first. Raises Qdrant's errors."""
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
    nearest = shard.query(near(search, limit))
    points = shard.query(worded(search, words, limit)) if words else []
    ids: dict[int, UUID] = {}  # numbers stand for ids: many of these are compared, and Python hashes UUIDs slowly
    relevances = _relevances(shard, words, points, ids)
    scores: dict[int, float] = {}
    if relevances:
        for point in shard.query(distances(search, ids.values())):
            number = _number(point, ids)
            scores[number] = _score(point, relevances[number])
    for point in _best(nearest, search.top_k):
        scores.setdefault(_number(point, ids), _score(point, 0.0))
    best = sorted(scores, key=lambda one: (-scores[one], one))[: search.top_k]
    records = shard.retrieve([ids[one] for one in best], CHUNK, False)
    chunks = {_number(record, ids): chunk_of(record.payload or {}) for record in records}
    return [Hit(chunks[one], scores[one]) for one in best if one in chunks]  # a point may have been deleted meanwhile


def _best(nearest: Sequence[qe.ScoredPoint], top_k: int) -> list[qe.ScoredPoint]:
    """The first `top_k` points and the next ones with the same score: no other can become one of the best by its words."""
    least = _score(nearest[top_k - 1], 0.0) if len(nearest) > top_k else 0.0
    return [*nearest[:top_k], *takewhile(lambda point: _score(point, 0.0) == least, nearest[top_k:])]


def _score(point: qe.ScoredPoint, relevance: float) -> float:
    return round(fused_score(similarity(point.score), relevance), 6)


def _relevances(
    shard: qe.EdgeShard, words: Sequence[str], points: Sequence[qe.ScoredPoint], ids: dict[int, UUID]
) -> Mapping[int, float]:
    """The relevance of each point, for `fused_score`."""
    if not points:
        return {}
    records = shard.retrieve([points[0].id], qe.PayloadSelector.Include([WORDS]), False)
    held = (records[0].payload or {}).get(WORDS, "").split() if records else []
    share = share_of_words(words, held) / points[0].score
    return {_number(point, ids): point.score * share for point in points}


def _number(point: qe.ScoredPoint | qe.Record, ids: dict[int, UUID]) -> int:
    """The number of a point's id, which `ids` records."""
    one: Any = point.id  # Qdrant makes a new object at each access
    number: int = one.int
    ids[number] = one
    return number
