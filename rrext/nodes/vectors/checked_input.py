"""Input of a store, all checked before any of it is used: documents, filters of a search, and arguments of a delete."""

from __future__ import annotations

from array import array
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Annotated, Any, Final, TypedDict, TypeVar

import msgspec

from rrext.errors import InvalidArguments
from rrext.nodes.vectors.store import Chunk, Match, Scope, double

MAX_CONTENT: Final = 200_000
"""Characters of one chunk. A hit is read as a whole, so longer texts should be split."""

MAX_IDS: Final = 10_000
"""Object ids whose objects are deleted or compared in one call: longer lists belong into a parent path."""

MAX_FILTER_IDS: Final = 100_000
"""Object ids of a filter: a request of some megabytes."""
MAX_FILTER_PATHS: Final = 100
"""Paths of a filter. Each of them is compared with those of the chunks."""
MAX_MATCHES: Final = 32
"""Metadata keys of a filter: chunks have about as many."""
MAX_VALUES: Final = 1000
"""Values of a metadata key in a filter."""

MAX_NAME: Final = 2000
"""Bytes of an id or a path in UTF-8: what the indexes of all backends take."""
MAX_CHUNK_ID: Final = 2**53
"""The greatest whole number that every JSON reader keeps."""
MAX_SIZE: Final = 16_000
"""Numbers in a vector: what the backends can keep."""

DEFAULT_NODE: Final = "vectordb_tool"
DEFAULT_PARENT: Final = "/"
UNNAMED: Final = "unnamed"
"""The model of vectors that came without a model name."""

PLACED: Final = ("objectId", "nodeId", "parent", "chunkId")
"""The metadata keys with a field of their own in a chunk."""

T = TypeVar("T")
_Name = Annotated[str, msgspec.Meta(pattern="^[^\0]+$", max_length=MAX_NAME)]
OBJECT_PLACE: Final = msgspec.json.Decoder(tuple[_Name, _Name])
"""Reads the parent path and the id of an object."""
CHUNK_PLACE: Final = msgspec.json.Decoder(Annotated[int, msgspec.Meta(ge=0, le=MAX_CHUNK_ID)])
"""Reads the number of a chunk."""


class ChunkDraft(msgspec.Struct, frozen=True):
    """A chunk, and its own vector, if any."""

    chunk: Chunk
    vector: array[float] | None = None
    model: str = UNNAMED


def drafts_of(documents: Sequence[Mapping[str, Any]], owner: str) -> list[ChunkDraft]:
    """Check the documents of the tool `upsert`. Raises `InvalidArguments` at the first mistake."""
    drafts: list[ChunkDraft] = []
    seen: dict[tuple[str, int], int] = {}
    for n, document in enumerate(documents):
        draft = draft_of(
            f"/input/documents/{n}",
            ("content", "object_id"),
            document,
            document["object_id"],
            document["content"],
            owner,
        )
        _require_single(draft.chunk, seen, n)
        drafts.append(draft)
    return drafts


def draft_of(
    at: str, keys: tuple[str, str], document: Mapping[str, Any], object_id: Any, content: Any, owner: str
) -> ChunkDraft:
    """Check one document. `at` is its JSON pointer, `keys` are its keys for content and object id."""
    content_at, object_at = (f"{at}/{key}" for key in keys)
    content = _text(content_at, content)
    if not content.strip():
        raise InvalidArguments.at(content_at, "is blank: there is nothing in it that could be found")
    if len(content) > MAX_CONTENT:
        raise InvalidArguments.at(
            content_at, f"has {len(content):,} characters, and a chunk has at most {MAX_CONTENT:,}", hint="Split it first."
        )
    object_id = require_name(object_at, object_id)
    chunk = _chunk(f"{at}/metadata", document.get("metadata"), object_id, content, owner)
    embedding = document.get("embedding")
    if embedding is None:
        return ChunkDraft(chunk)
    model = document.get("embedding_model") or UNNAMED
    return ChunkDraft(chunk, require_vector(f"{at}/embedding", embedding), require_name(f"{at}/embedding_model", model))


def _chunk(at: str, metadata: Any, object_id: str, content: str, owner: str) -> Chunk:
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        raise InvalidArguments.at(at, "expected an object")
    given = {key: metadata[key] for key in PLACED if metadata.get(key) is not None}
    if given.get("objectId", object_id) != object_id:
        raise InvalidArguments.at(f"{at}/objectId", "is another id than the object's")
    chunk_id = given.get("chunkId", 0)
    if isinstance(chunk_id, bool) or not isinstance(chunk_id, int) or not 0 <= chunk_id <= MAX_CHUNK_ID:
        raise InvalidArguments.at(f"{at}/chunkId", "expected a whole number, not below 0")
    return Chunk(
        object_id=object_id,
        chunk_id=chunk_id,
        content=content,
        node_id=require_name(f"{at}/nodeId", given.get("nodeId", DEFAULT_NODE)),
        parent=require_name(f"{at}/parent", given.get("parent", DEFAULT_PARENT)),
        extra=_extra(at, {key: value for key, value in metadata.items() if key not in PLACED}),
        owner=owner,
    )


def _extra(at: str, extra: dict[Any, Any]) -> dict[str, Any]:
    """The metadata without a field of its own. Raises if it would not come back unchanged."""
    if not extra:
        return extra
    if not _is_json(extra):
        raise InvalidArguments.at(at, "would not come back as it is: it holds something that is not JSON, NaN or a NUL")
    return extra


def _is_json(value: Any) -> bool:
    try:
        encoded = msgspec.json.encode(value)
        return msgspec.json.decode(encoded) == value and b"\\u0000" not in encoded.replace(b"\\\\", b"")
    except (TypeError, ValueError, RecursionError):
        return False


def require_name(at: str, value: Any) -> str:
    """Check an id or a path: a text that is not empty and that every backend can index. Raises `InvalidArguments` at `at`."""
    text = _text(at, value)
    if not text:
        raise InvalidArguments.at(at, "is empty")
    if len(text.encode()) > MAX_NAME:
        raise InvalidArguments.at(at, f"is longer than {MAX_NAME:,} bytes")
    return text


def _text(at: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidArguments.at(at, "expected a text")
    if "\0" in value:
        raise InvalidArguments.at(at, "holds the character NUL, which stores cannot keep")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArguments.at(at, "holds half of a surrogate pair, which is no text") from None
    return value


def require_vector(at: str, value: Any) -> array[float]:
    """Check an embedding: finite numbers, no more than a vector may have. Raises `InvalidArguments` at `at`."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not 1 <= len(value) <= MAX_SIZE:
        raise InvalidArguments.at(at, f"expected a list of 1 to {MAX_SIZE:,} numbers")
    try:
        vector = array("f", value)
    except (TypeError, OverflowError):
        vector = array("f", [float("nan")])
    if not all(map(isfinite, vector)):
        raise InvalidArguments.at(at, "expected finite numbers, of the size of a float")
    return vector


def _require_single(chunk: Chunk, seen: dict[tuple[str, int], int], n: int) -> None:
    first = seen.setdefault((chunk.object_id, chunk.chunk_id), n)
    if first != n:
        raise InvalidArguments.at(
            f"/input/documents/{n}/metadata/chunkId",
            f"is chunk {chunk.chunk_id} of its object, as documents/{first} is already: one would replace the other",
            hint="Number the chunks of an object: 0, 1, 2 …",
        )


Ids = Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_FILTER_IDS)]
Paths = Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_FILTER_PATHS)]


class SearchFilter(TypedDict, total=False):
    """Restricts a search to chunks that match all given fields."""

    objectId: str | Ids | None
    nodeId: str | None
    parent: Annotated[str | Paths | None, msgspec.Meta(description="The very path, or one of these.")]
    prefix: Annotated[str | Paths | None, msgspec.Meta(description="This path and all below it, or of one of these.")]
    metadata: Annotated[
        dict[str, Any] | None,
        msgspec.Meta(
            description="Key -> a text, number or boolean, a list of which one has to be there, or a range of numbers: an "
            "object with gte, gt, lte, lt. Of a list in the metadata, one value has to fit."
        ),
    ]


def scope_of(at: str, filter: Mapping[str, Any] | None, *, owner: str, ids_key: str = "objectId") -> Scope:
    """The scope of a filter; null counts as missing. Raises `InvalidArguments` below the pointer `at`.

    `ids_key` is the key of the object ids.
    """
    if not filter:
        return Scope(owner=owner)
    ids = filter.get(ids_key)
    node_id, parent, prefix = filter.get("nodeId"), filter.get("parent"), filter.get("prefix")
    return Scope(
        object_ids=None if ids is None else _names(f"{at}/{ids_key}", ids, MAX_FILTER_IDS),
        node_id=None if node_id is None else require_name(f"{at}/nodeId", node_id),
        parent=None if parent is None else _names(f"{at}/parent", parent, MAX_FILTER_PATHS),
        prefix=None if prefix is None else _names(f"{at}/prefix", prefix, MAX_FILTER_PATHS, folder_of),
        owner=owner,
        metadata=_matches(f"{at}/metadata", filter.get("metadata")),
    )


def _matches(at: str, metadata: Any) -> tuple[Match, ...]:
    """The metadata of a filter; null counts as missing."""
    if metadata is None:
        return ()
    if not isinstance(metadata, Mapping) or len(metadata) > MAX_MATCHES:
        raise InvalidArguments.at(at, f"expected an object with at most {MAX_MATCHES} keys")
    placed = [key for key in PLACED if metadata.get(key) is not None]
    if placed:
        raise InvalidArguments.at(f"{at}/{placed[0]}", "is a field of its own: these stand beside the metadata of a filter")
    return tuple(_match(f"{at}/{key}", _text(at, key), value) for key, value in metadata.items() if value is not None)


def _match(at: str, key: str, value: Any) -> Match:
    if isinstance(value, Mapping):
        if not value or not set(value) <= {"gte", "gt", "lte", "lt"}:
            raise InvalidArguments.at(at, "expected a range with one or more of gte, gt, lte and lt")
        bounds = {name: _number(f"{at}/{name}", bound) for name, bound in value.items()}
        return Match(key, None, bounds.get("gte"), bounds.get("gt"), bounds.get("lte"), bounds.get("lt"))
    values = value if isinstance(value, list | tuple) else (value,)
    if not 1 <= len(values) <= MAX_VALUES:
        raise InvalidArguments.at(at, f"expected a value, or a list of 1 to {MAX_VALUES:,}")
    places = [f"{at}/{n}" for n in range(len(values))] if isinstance(value, list | tuple) else [at]
    return Match(key, tuple(dict.fromkeys(map(_value, places, values))))


def _value(at: str, value: Any) -> str | bool | float:
    return value if isinstance(value, bool) else _text(at, value) if isinstance(value, str) else _number(at, value)


def _number(at: str, value: Any) -> float:
    number = double(value)
    if number is None:
        raise InvalidArguments.at(at, "expected a number, or a text or boolean where no range is meant")
    return number


def scope_to_delete(
    object_ids: Sequence[str] | None, parent: str | None, prefix: str | None, *, everything: bool, owner: str
) -> Scope:
    """The scope of the tool `delete`. Raises `InvalidArguments` unless exactly one is given."""
    arguments = {"object_ids": object_ids, "parent": parent, "prefix": prefix, "everything": everything or None}
    given = [name for name, value in arguments.items() if value is not None]
    if len(given) != 1:
        raise InvalidArguments.at(
            f"/input/{given[1]}" if given else "/input",
            'expected exactly one of "object_ids", "parent", "prefix" and "everything": true',
            hint="An object id deletes one object, a parent those of one path, a prefix those of a path and all below it, "
            "and everything all that the caller has.",
        )
    return Scope(
        object_ids=None if object_ids is None else _names("/input/object_ids", object_ids, MAX_IDS),
        parent=None if parent is None else require_name("/input/parent", parent),
        prefix=None if prefix is None else folder_of("/input/prefix", prefix),
        owner=owner,
    )


def folder_of(at: str, path: Any) -> str:
    """A path as `Scope.prefix` has it: without `/` at its end. Raises `InvalidArguments` at `at`."""
    return require_name(at, path).rstrip("/") or "/"


def cursor_at(place: Any) -> str:
    """The cursor of a page that ends at a place, for callers who do not look into it."""
    return urlsafe_b64encode(msgspec.json.encode(place)).decode()


def place_of(cursor: str | None, kind: msgspec.json.Decoder[T], first: T) -> T:
    """The place of a cursor, `first` if there is none. Raises `InvalidArguments` unless it is one of a page of this tool."""
    try:
        return first if cursor is None else kind.decode(urlsafe_b64decode(cursor))
    except ValueError:  # msgspec's errors are among them
        raise InvalidArguments.at("/input/cursor", "is no cursor that a page of this tool had") from None


def _names(at: str, names: Any, most: int, checked: Callable[[str, Any], str] = require_name) -> tuple[str, ...]:
    """A name, or a list of at most so many, each without its like."""
    if isinstance(names, str):
        return (checked(at, names),)
    if not isinstance(names, list | tuple) or not 1 <= len(names) <= most:
        raise InvalidArguments.at(at, f"expected a text, or a list of 1 to {most:,}")
    return tuple(dict.fromkeys(checked(f"{at}/{n}", name) for n, name in enumerate(names)))
