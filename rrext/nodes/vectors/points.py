"""Points, as every store of Qdrant keeps chunks: the names of their fields, their ids, and what filters compare."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from rrext.nodes.vectors.store import NOBODYS, Chunk, Match, double

OWNER, OBJECT, PARENT, NODE, NUMBER, CONTENT, EXTRA = "owner", "object", "parent", "node", "number", "content", "extra"
"""The fields of a point. `extra` is JSON text, so that every value comes back unchanged."""

FACTS, NUMBERS = "facts", "numbers"
"""The fields for filters by `extra`: the hash of each key with a text or boolean of it, and an object that has the numbers of
each key under a hash of the key. All facts have one index, while a key's numbers get theirs with the first filter by them."""
MAX_NUMBER_INDEXES: Final = 32
"""Keys whose numbers have an index in one shard, each of some megabytes for 100,000 chunks. Those of others are read chunk by
chunk."""

IDS: Final = uuid.UUID("7c2e5d0e-4b0a-5d0b-9d0e-6f5b1f0c9a11")
"""The namespace of the point ids of nobody's chunks, which are made from object id and chunk number; those of other owners
have the owner as their namespace. A change would lose all stored points."""


def facts_of(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `FACTS` and `NUMBERS` for the metadata of a chunk."""
    facts: list[int] = []
    numbers: dict[str, list[float]] = {}
    for key, value in extra.items():
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, str | bool):
                facts.append(fact_of(key, one))
            elif (number := double(one)) is not None:
                numbers.setdefault(number_key(key), []).append(number)
    return {FACTS: facts, NUMBERS: numbers}


def fact_of(key: str, value: str | bool) -> int:
    """The fact that a key has a value. A hash: of a billion billion pairs of texts two are taken for one."""
    return int.from_bytes(blake2b(msgspec.json.encode((key, value)), digest_size=8).digest(), signed=True)


@lru_cache(maxsize=1024)
def number_key(key: str) -> str:
    """The name of a key among the numbers, which needs no quotes in Qdrant's paths."""
    return "n" + blake2b(key.encode(), digest_size=8).hexdigest()


def number_fields(matches: Iterable[Match]) -> set[str]:
    """The fields that are compared as numbers."""
    return {
        f"{NUMBERS}.{number_key(one.key)}"
        for one in matches
        if one.bounds or any(double(value) is not None for value in one.values or ())
    }


def point_id(owner: str, object_id: str, chunk_id: int) -> uuid.UUID:
    """The id of a chunk in Qdrant."""
    return uuid.uuid5(IDS if owner == NOBODYS else uuid.UUID(owner), f"{chunk_id} {object_id}")


def payload_of(chunk: Chunk) -> dict[str, Any]:
    """The fields of a chunk, without its words."""
    return {
        OWNER: chunk.owner,
        OBJECT: chunk.object_id,
        PARENT: chunk.parent,
        NODE: chunk.node_id,
        NUMBER: chunk.chunk_id,
        CONTENT: chunk.content,
        EXTRA: msgspec.json.encode(chunk.extra).decode(),
        **facts_of(chunk.extra),
    }


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


def similarity(score: float) -> float:
    """The cosine similarity of a score of Qdrant: rounding may put the score slightly outside of -1 to 1."""
    return max(-1.0, min(score, 1.0))
