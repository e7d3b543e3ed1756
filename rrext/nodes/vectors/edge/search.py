"""Searching the engine's shard: by vectors, by words, and by both at once. Importing this imports the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

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
    ids: dict[int, UUID] = {}  # numbers stand for ids: hundreds of these are compared, and Python hashes them slowly
    similarities = {_number(point, ids): similarity(point.score) for point in shard.query(near(search, limit))}
    relevances = _relevances(shard, words, shard.query(worded(search, words, limit)), ids) if words else {}
    missing = [ids[one] for one in relevances if one not in similarities]
    if missing:
        similarities |= {_number(point, ids): similarity(point.score) for point in shard.query(distances(search, missing))}
    scores = {one: round(fused_score(alike, relevances.get(one, 0.0)), 6) for one, alike in similarities.items()}
    best = sorted(scores, key=lambda one: (-scores[one], one))[: search.top_k]
    records = shard.retrieve([ids[one] for one in best], CHUNK, False)
    chunks = {_number(record, ids): chunk_of(record.payload or {}) for record in records}
    return [Hit(chunks[one], scores[one]) for one in best if one in chunks]  # it may be deleted by now


def _relevances(
    shard: qe.EdgeShard, words: Sequence[str], points: Sequence[qe.ScoredPoint], ids: dict[int, UUID]
) -> Mapping[int, float]:
    """The relevance of each, as `fused_score` takes it."""
    if not points:
        return {}
    records = shard.retrieve([points[0].id], qe.PayloadSelector.Include([WORDS]), False)
    held = (records[0].payload or {}).get(WORDS, "").split() if records else []
    share = share_of_words(words, held) / points[0].score
    return {_number(point, ids): point.score * share for point in points}


def _number(point: qe.ScoredPoint | qe.Record, ids: dict[int, UUID]) -> int:
    """The number of a point's id, by which `ids` has it from now on."""
    one: Any = point.id  # the engine makes it anew each time it is asked
    number: int = one.int
    ids[number] = one
    return number
