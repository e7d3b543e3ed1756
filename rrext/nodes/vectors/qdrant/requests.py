"""The points, filters and failures of a collection on a Qdrant server, in the client's own types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final

import msgspec
from qdrant_client import models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from rrext.errors import ToolError, Unavailable
from rrext.nodes.vectors.points import (
    FACTS,
    NODE,
    NUMBER,
    NUMBERS,
    OBJECT,
    OWNER,
    PARENT,
    fact_of,
    number_key,
    payload_of,
    point_id,
)
from rrext.nodes.vectors.store import Chunk, Match, Scope, VectorSpace
from rrext.nodes.vectors.words import stored_words

DENSE, WORDS = "dense", "words"
"""The vectors of a point. `words` is a sparse one, with a number for each word; a field of that name has the same numbers."""
FOLDERS, PLACE = "folders", "place"
"""The fields of a point beside those of all stores: numbers of the folders above its path, and path and object in one text,
whose values the server counts."""
STAGED, BEGUN = "staged", "begun"
"""The fields of what a large change has written so far, and of a large change that is to be completed."""

CHUNK: Final = models.PayloadSelectorExclude(exclude=[WORDS, FOLDERS, PLACE, FACTS, NUMBERS])
"""The fields of a chunk."""

FORM: Final = 1
"""The form of collections; another number means another program, or a later rrext."""

SATURATION, LENGTH_SHARE, USUAL_LENGTH = 1.2, 0.75, 256
"""BM25: how soon more of a word counts no more, how far long chunks count less, and the words of a usual chunk."""

BETWEEN: Final = "\0"
"""What stands between path and object in `PLACE`: neither holds it, and it sorts before all else."""


def _number(lookup: bool) -> models.IntegerIndexParams:
    return models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=lookup, range=not lookup)


INDEXES: Final[dict[str, Any]] = {
    OWNER: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    OBJECT: models.PayloadSchemaType.KEYWORD,
    NODE: models.PayloadSchemaType.KEYWORD,
    PARENT: models.PayloadSchemaType.KEYWORD,
    PLACE: models.PayloadSchemaType.KEYWORD,
    FOLDERS: _number(True),
    WORDS: _number(True),
    FACTS: _number(True),
    NUMBER: _number(False),
    f"{STAGED}.change": models.PayloadSchemaType.KEYWORD,
}
"""The indexes of a collection."""


class NoCollectionError(Exception):
    """The collection does not exist."""


class TakenError(Exception):
    """Another process has made the collection meanwhile."""


@contextmanager
def failures(shown: str) -> Iterator[None]:
    """Turns the client's exceptions into `ToolError` (`store_failed`) and `Unavailable`, and two answers into exceptions of
    this module. `shown` names the server in messages.
    """
    try:
        yield
    except UnexpectedResponse as error:
        raise _refused(error, shown) from None
    except (ResponseHandlingException, ApiException, OSError) as error:
        cause = str(error).strip().partition("\n")[0] or type(error).__name__
        raise Unavailable(
            f"The Qdrant server at {shown} does not answer: {cause}",
            hint="Look whether it runs, and at host and port of the node.",
        ) from None
    except ValueError as error:  # of the client's local mode
        text = str(error)
        if "not found" in text:
            raise NoCollectionError from None
        if "already exists" in text:
            raise TakenError from None
        raise ToolError(text.partition("\n")[0], code="store_failed") from None


def _refused(error: UnexpectedResponse, shown: str) -> Exception:
    if error.status_code == 404:
        return NoCollectionError()
    if error.status_code == 409:
        return TakenError()
    sentence = _sentence(error)
    if error.status_code in (401, 403):
        return Unavailable(f"The Qdrant server at {shown} refuses the key: {sentence}", hint="Look at apikey of the node.")
    if error.status_code is not None and error.status_code >= 500:
        return Unavailable(f"The Qdrant server at {shown} failed: {sentence}", hint="The log of that server may say more.")
    return ToolError(f"The Qdrant server refused it: {sentence}", code="store_failed")


def _sentence(error: UnexpectedResponse) -> str:
    try:
        answer = msgspec.json.decode(error.content)
        return str(answer["status"]["error"]).partition("\n")[0]
    except (msgspec.DecodeError, LookupError, TypeError):
        return f"status {error.status_code} {error.reason_phrase}"


def vectors_of(space: VectorSpace) -> dict[str, Any]:
    """The arguments of a new collection for a vector space."""
    return {
        "vectors_config": {DENSE: models.VectorParams(size=space.size, distance=models.Distance.COSINE)},
        "sparse_vectors_config": {WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        "metadata": {"rrext": FORM, "model": space.model},
    }


def space_of(info: models.CollectionInfo, shown: str) -> VectorSpace:
    """The vector space of a collection. Raises `ToolError` (`store_foreign`) for one that rrext did not make."""
    metadata = info.config.metadata or {}
    vectors = info.config.params.vectors
    dense = vectors.get(DENSE) if isinstance(vectors, dict) else None
    if metadata.get("rrext") != FORM or dense is None:
        raise ToolError(
            f"The collection {shown} was made by another program, or by another version of rrext",
            code="store_foreign",
            hint='Name another collection, and fill it ("collection"). The server has to be Qdrant 1.16 or later.',
        )
    return VectorSpace(str(metadata["model"]), dense.size)


def point_of(chunk: Chunk, vector: Sequence[float]) -> models.PointStruct:
    """The point of a chunk."""
    counts = Counter(map(word_number, stored_words(chunk.content)))
    total = sum(counts.values())
    damp = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * total / USUAL_LENGTH)
    weights = [count * (SATURATION + 1) / (count + damp) for count in counts.values()]
    vectors: dict[str, Any] = {DENSE: list(vector)}
    if counts:
        vectors[WORDS] = models.SparseVector(indices=list(counts), values=weights)
    payload = {
        **payload_of(chunk),
        PLACE: chunk.parent + BETWEEN + chunk.object_id,
        FOLDERS: folders_of(chunk.parent),
        WORDS: list(counts),
    }
    return models.PointStruct(id=str(point_id(chunk.owner, chunk.object_id, chunk.chunk_id)), vector=vectors, payload=payload)


def bare_point(point: str, **payload: Any) -> models.PointStruct:
    """A point that is no chunk: without an owner, so that no filter for chunks has it."""
    return models.PointStruct(id=point, vector={}, payload=payload)


def size_of(point: models.PointStruct) -> int:
    """About how many bytes a point takes in a request."""
    vectors: Any = point.vector
    sparse = vectors.get(WORDS)
    numbers = len(vectors.get(DENSE, ())) + (0 if sparse is None else 2 * len(sparse.indices))
    return 22 * numbers + len(msgspec.json.encode(point.payload)) + 100


def word_number(word: str) -> int:
    """The number of a word in the sparse vector: of four billion pairs of words two are taken for one."""
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest())


def folders_of(parent: str) -> list[int]:
    """The numbers of the folders that a path is in, and of the path itself, as `Scope.prefix` means them."""
    above = {parent, *(parent[:n] for n, char in enumerate(parent) if char == "/" and n)}
    return [folder_number(one) for one in sorted(above | ({"/"} if parent.startswith("/") else set()))]


def folder_number(folder: str) -> int:
    """The number of a folder: of a billion billion pairs of paths two are taken for one."""
    return int.from_bytes(blake2b(folder.encode(), digest_size=8).digest(), signed=True)


def condition(scope: Scope, *more: Any) -> models.Filter:
    """The filter for a scope, and `more` conditions."""
    must: list[Any] = [_is(OWNER, scope.owner), *more]
    if scope.object_ids is not None:
        must.append(_is(OBJECT, *scope.object_ids))
    if scope.node_id is not None:
        must.append(_is(NODE, scope.node_id))
    if scope.parents:
        must.append(_is(PARENT, *scope.parents))
    if scope.folders:
        must.append(_is(FOLDERS, *(folder_number(path) for path, _ in scope.folders)))
    must += [_matching(one) for one in scope.metadata]
    return models.Filter(must=must)


def with_words(words: Sequence[str]) -> list[Any]:
    """The conditions for a chunk that has all of the words."""
    return [_is(WORDS, word_number(word)) for word in words]


def behind(number: int) -> models.FieldCondition:
    """The condition for chunks behind a number."""
    return models.FieldCondition(key=NUMBER, range=models.Range(gt=number))


def of_change(change: str) -> models.Filter:
    """The filter for what a change has staged."""
    return models.Filter(must=[_is(f"{STAGED}.change", change)])


def left_over(before: float, changes: Sequence[str]) -> models.Filter:
    """The filter for what no change needs any more: staged before a time by none of the `changes`, or left by a deletion."""
    named: list[Any] = [_is(f"{STAGED}.change", *changes)] if changes else []
    stale = models.FieldCondition(key=f"{STAGED}.at", range=models.Range(lt=before))
    empty: list[Any] = [models.IsEmptyCondition(is_empty=models.PayloadField(key=key)) for key in (OWNER, STAGED, BEGUN)]
    either: list[Any] = [models.Filter(must=[stale], must_not=named), models.Filter(must=empty)]
    return models.Filter(should=either)


def begun() -> models.Filter:
    """The filter for changes that are to be completed."""
    return models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=BEGUN))])


def _is(field: str, *values: str | int) -> models.FieldCondition:
    """The condition that a field is, or has, one of the values."""
    if len(values) == 1:
        return models.FieldCondition(key=field, match=models.MatchValue(value=values[0]))
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))  # pyright: ignore[reportArgumentType]


def _matching(match: Match) -> Any:
    field = f"{NUMBERS}.{number_key(match.key)}"
    must: list[Any] = [models.FieldCondition(key=field, range=models.Range(**match.bounds))] if match.bounds else []
    if match.values is not None:
        facts = [fact_of(match.key, value) for value in match.values if isinstance(value, str | bool)]
        should: list[Any] = [_is(FACTS, *facts)] if facts else []
        should += [
            models.FieldCondition(key=field, range=models.Range(gte=value, lte=value))
            for value in match.values
            if not isinstance(value, str | bool)
        ]
        must.append(models.Filter(should=should))
    return models.Filter(must=must)
