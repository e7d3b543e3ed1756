"""Chunks, scopes and searches in Qdrant's own types. Importing this imports Qdrant."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
import qdrant_edge as qe

from rrext.nodes.vectors.store import NOBODYS, SIMPLE, Chunk, Scope, Search
from rrext.nodes.vectors.words import former_words, stored_words

OVERSAMPLING: Final = 4.0
"""The ratio of vectors that are compared in full to vectors that are asked for, after a comparison of all by 4 bits per number.

With 100,000 vectors of 384 numbers this finds 99.9 % of the hits of a full comparison, in a sixth of the time.
"""

VECTOR: Final = "dense"
OWNER, OBJECT, PARENT, NODE, NUMBER, CONTENT, EXTRA = "owner", "object", "parent", "node", "number", "content", "extra"
"""The fields of a point. `extra` is JSON text, so that every value comes back unchanged."""
WORDS: Final = "words"
"""The field for keyword search: the words of the content, separated by spaces."""
CHUNK: Final = qe.PayloadSelector.Exclude([WORDS])
"""The fields of a chunk."""
IDS: Final = uuid.UUID("7c2e5d0e-4b0a-5d0b-9d0e-6f5b1f0c9a11")
"""The namespace of the point ids of nobody's chunks, which are made from object id and chunk number; those of other owners
have the owner as their namespace. A change would lose all stored points."""


def create_shard(path: str, size: int, language: str = SIMPLE) -> None:
    """Make Qdrant's files for vectors of `size` numbers and words of a language.

    Vectors are kept in full and again in 4 bits per number. A search compares all of the small ones: exact enough,
    fast for hundreds of thousands, and without an index, whose construction would block the process for minutes.
    """
    quantized = qe.TurboQuantQuantizationConfig(bits=qe.TurboQuantBitSize.Bits4, memory=qe.Memory.Pinned)
    vectors = qe.EdgeVectorParams(size=size, distance=qe.Distance.Cosine, quantization_config=quantized)
    shard = qe.EdgeShard.create(path, qe.EdgeConfig(vectors={VECTOR: vectors}))
    fields = {
        OWNER: owner_index(),
        OBJECT: qe.KeywordIndexParams(),
        NODE: qe.KeywordIndexParams(),
        PARENT: qe.KeywordIndexParams(prefix=True),
        NUMBER: qe.IntegerIndexParams(lookup=False, range=True),
        WORDS: word_index(language),
    }
    for name, index in fields.items():
        shard.update(qe.UpdateOperation.create_field_index(name, index))
    shard.flush()
    shard.close()


def word_index(language: str) -> qe.TextIndexParams:
    """The index of `WORDS`. Qdrant's own tokenizers drop numbers, or ignore marks."""
    return qe.TextIndexParams(tokenizer=qe.TokenizerType.Whitespace, lowercase=False, scoring=True, stemmer=_stemmer(language))


def terms(words: Collection[str], language: str) -> Collection[Any]:
    """What the index of a language has for words: equal things for forms of one word."""
    if language == SIMPLE:
        return words
    whitespace, nothing = qe.TokenizerType.Whitespace, qe.StopwordsSet()
    config = qe.Bm25Config(tokenizer=whitespace, lowercase=False, stopwords=nothing, stemmer=_stemmer(language))
    return qe.Bm25(config).embed_query(" ".join(words)).indices


def _stemmer(language: str) -> qe.SnowballParams | None:
    return None if language == SIMPLE else qe.SnowballParams(getattr(qe.SnowballLanguage, language.capitalize()))


def owner_index() -> qe.UuidIndexParams:
    """The index of `OWNER`."""
    return qe.UuidIndexParams()


def words_of(content: str) -> str:
    """The value of `WORDS` for a content."""
    return " ".join(stored_words(content))


def point_id(owner: str, object_id: str, chunk_id: int) -> uuid.UUID:
    """The id of a chunk in Qdrant."""
    return uuid.uuid5(IDS if owner == NOBODYS else uuid.UUID(owner), f"{chunk_id} {object_id}")


def point_of(chunk: Chunk, vector: Sequence[float]) -> qe.Point:
    """Make Qdrant's point of a chunk."""
    payload = {
        OWNER: chunk.owner,
        OBJECT: chunk.object_id,
        PARENT: chunk.parent,
        NODE: chunk.node_id,
        NUMBER: chunk.chunk_id,
        CONTENT: chunk.content,
        WORDS: words_of(chunk.content),
        EXTRA: msgspec.json.encode(chunk.extra).decode(),
    }
    return qe.Point(point_id(chunk.owner, chunk.object_id, chunk.chunk_id), {VECTOR: list(vector)}, payload)


def chunk_of(payload: dict[str, Any]) -> Chunk:
    """Make the chunk of a point's payload."""
    return Chunk(
        object_id=payload[OBJECT],
        chunk_id=payload[NUMBER],
        content=payload[CONTENT],
        node_id=payload[NODE],
        parent=payload[PARENT],
        extra=msgspec.json.decode(payload[EXTRA]),
        owner=payload[OWNER],
    )


def condition(scope: Scope) -> qe.Filter | None:
    """The filter for a scope; None if it means everything."""
    must: list[Any] = []
    if scope.owner is not None:
        must.append(qe.FieldCondition(OWNER, match=qe.MatchValue(scope.owner)))
    if scope.object_ids is not None:
        must.append(qe.FieldCondition(OBJECT, match=qe.MatchAny(list(scope.object_ids))))
    if scope.node_id is not None:
        must.append(qe.FieldCondition(NODE, match=qe.MatchValue(scope.node_id)))
    if scope.parent is not None:
        must.append(qe.FieldCondition(PARENT, match=qe.MatchValue(scope.parent)))
    if scope.prefix is not None and scope.below is not None:
        itself = qe.FieldCondition(PARENT, match=qe.MatchValue(scope.prefix))
        below = qe.FieldCondition(PARENT, match=qe.MatchPrefix(scope.below))
        must.append(qe.Filter(should=[itself, below]))
    return qe.Filter(must=must) if must else None


def _also(scope: Scope, one: qe.FieldCondition) -> qe.Filter:
    """The filter for a scope and one condition more."""
    filter = condition(scope)
    return qe.Filter(must=[one] if filter is None else [one, filter])


def near(search: Search, limit: int, **more: Any) -> qe.QueryRequest:
    """Qdrant's request for the nearest vectors; `more` holds its further arguments."""
    params = qe.SearchParams(quantization=qe.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING))
    return qe.QueryRequest(limit=limit, query=_nearest(search), params=params, filter=condition(search.scope), **more)


def distances(search: Search, ids: Collection[Any]) -> qe.QueryRequest:
    """Qdrant's request for the scores of these points."""
    these = qe.Filter(must=[qe.HasIdCondition(set(ids))])
    return qe.QueryRequest(limit=len(ids), query=_nearest(search), params=qe.SearchParams(exact=True), filter=these)


def worded(search: Search, words: Sequence[str], limit: int, *, whole: bool, **more: Any) -> qe.QueryRequest:
    """Qdrant's request for points with any of the words, of which there is at least one, or with the `whole` of them."""
    text = " ".join(words)
    if whole:
        filter = _also(search.scope, qe.FieldCondition(WORDS, match=qe.MatchText(text)))
    else:
        filter = condition(search.scope)
        text = " ".join([text, *former_words(search.text)])
    return qe.QueryRequest(limit=limit, query=qe.TextQuery(WORDS, text), filter=filter, **more)


def chunks_request(scope: Scope, offset: int, limit: int, after: int) -> qe.QueryRequest:
    """Qdrant's request for a page of an object's chunks behind the number `after`, in their order."""
    behind = _also(scope, qe.FieldCondition(NUMBER, range=qe.RangeFloat(gt=after)))
    return qe.QueryRequest(limit=limit, offset=offset, query=qe.OrderBy(NUMBER), filter=behind, with_payload=CHUNK)


def similarity(score: float) -> float:
    """The cosine similarity of a score of Qdrant: rounding may put the score slightly outside of -1 to 1."""
    return max(-1.0, min(score, 1.0))


def _nearest(search: Search) -> Any:
    return qe.Query.Nearest(list(search.vector or ()), VECTOR)
