"""The interface of vector stores, the records of their arguments and results, and the JSON of these."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal, Protocol

import msgspec

from rrext.errors import ToolError
from rrext.nodes.base.node import NOBODY, namespace_of
from rrext.tools.context import ToolContext

Mode = Literal["dense", "keyword", "hybrid"]
NOBODYS: Final = str(namespace_of(NOBODY))
"""The owner of what is stored without a user and a space."""
FIRST_OBJECT: Final = ("", "")
"""A path and an object id that stand before all others."""
SIMPLE: Final = "simple"
"""The language whose words are searched for as they are, without stemming and stop words."""


class VectorSpace(msgspec.Struct, frozen=True):
    """The vector space of a store's content: the model that made the vectors, and how many numbers each has."""

    model: str
    size: int


def owner_of(user_id: str | None, space_id: str | None) -> str:
    """The owner of the content of a user in a space, of a user alone, or of a space alone: the namespace of its object ids."""
    return str(namespace_of((user_id, space_id)))


class Chunk(msgspec.Struct, frozen=True):
    """One piece of a document. Among those of its owner, `(object_id, chunk_id)` names it.

    `extra` is the rest of its metadata, any JSON.
    """

    object_id: str
    chunk_id: int
    content: str
    node_id: str
    parent: str
    extra: dict[str, Any] = {}
    owner: str = NOBODYS


class Hit(msgspec.Struct, frozen=True):
    """A found chunk and its score, which is higher for better hits; see `Search` for its meaning."""

    chunk: Chunk
    score: float


def double(value: object) -> float | None:
    """A number as a finite double; None for anything else, as a boolean or a number that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


class Match(msgspec.Struct, frozen=True):
    """What a chunk has in its metadata (`extra`) under a key, of which nothing but texts, booleans and numbers counts.

    It is one of the `values`, or without these a number within all bounds that are not None. Of a list, one of its values
    is. No boolean is a number, and a number beyond 2**53 may be taken for its neighbour.
    """

    key: str
    values: tuple[str | bool | float, ...] | None = None
    gte: float | None = None
    gt: float | None = None
    lte: float | None = None
    lt: float | None = None

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds that are not None, by their names."""
        bounds = {"gte": self.gte, "gt": self.gt, "lte": self.lte, "lt": self.lt}
        return {name: bound for name, bound in bounds.items() if bound is not None}


class Scope(msgspec.Struct, frozen=True):
    """A selection of chunks of one owner: all that fit each field that is not None, and each `Match` of the metadata.

    `parent` is the very path, or several of which it is one. `prefix` is a folder, or several: the path itself and all paths
    below, so `/a` means `/a` and `/a/b`, but not `/ab`. A prefix has no `/` at its end, except `/`, which means all paths that
    begin with `/`.
    """

    object_ids: tuple[str, ...] | None = None
    node_id: str | None = None
    parent: str | tuple[str, ...] | None = None
    prefix: str | tuple[str, ...] | None = None
    owner: str = NOBODYS
    metadata: tuple[Match, ...] = ()

    @property
    def parents(self) -> tuple[str, ...]:
        """The very paths; none if any path fits."""
        return (self.parent,) if isinstance(self.parent, str) else self.parent or ()

    @property
    def folders(self) -> list[tuple[str, str]]:
        """Each `prefix`, and that of every path below it, as `/a` and `/a/`; none if any path fits."""
        prefixes = (self.prefix,) if isinstance(self.prefix, str) else self.prefix or ()
        return [(prefix, prefix.rstrip("/") + "/") for prefix in prefixes]


class Search(msgspec.Struct, frozen=True):
    """One search: by `vector` (dense), by the words of `text` (keyword), or by both (hybrid). The others are not used.

    Scores: dense is the cosine similarity, -1 to 1 (0 for a vector of zeros); keyword is the database's own relevance,
    above 0 and without an upper end; hybrid is `fused_score`. A keyword search finds only chunks that hold at least one
    of the words, as `words` has them. Of equal scores, the order is the store's.
    """

    mode: Mode
    top_k: int
    text: str = ""
    vector: Sequence[float] | None = None
    scope: Scope = Scope()


class StoredObject(msgspec.Struct, frozen=True):
    """An object in a parent path, and the number of its chunks there."""

    parent: str
    object_id: str
    chunks: int


class Listing(msgspec.Struct, frozen=True):
    """A page of objects, sorted by path and id, and the total number of them."""

    objects: list[StoredObject]
    total: int


class ChunkPage(msgspec.Struct, frozen=True):
    """A page of one object's chunks, sorted by `chunk_id`, and the object's number of chunks."""

    chunks: list[Chunk]
    total: int


class ObjectVersion(msgspec.Struct, frozen=True):
    """The number of an object's chunks, and the `signature` in the metadata of all of them; None without a common one."""

    object_id: str
    chunks: int
    signature: str | None


class Deleted(msgspec.Struct, frozen=True):
    """The number of deleted chunks, and their objects."""

    chunks: int
    object_ids: frozenset[str]


class StoreStats(msgspec.Struct, frozen=True):
    """Exact counts of what an owner has. `space` is None while the store is empty; `disk_bytes` is None if it is unknown.

    `keyword` names the ranking of words, as `bm25`. `details` is JSON with further facts of this kind of store.
    """

    chunks: int
    objects: int
    parents: int
    space: VectorSpace | None
    disk_bytes: int | None
    keyword: str
    details: dict[str, Any] = {}


class VectorStore(Protocol):
    """The interface of a vector store. All methods block, and any number of threads may call them at once.

    Each owner has a content of its own: no method reads, counts, replaces or deletes a chunk of another one. The vector space
    may be that of the owner's content alone, or of the whole store.

    Nothing is opened or connected before the first call, and a call after a failed one tries again. Answered changes
    survive the end of the process. Strings hold neither NUL nor lone surrogates, numbers are finite, and vectors have the
    length of the space: the node checks it before. `ctx` is the call: a long one gives up when it is cancelled. Failures
    are `ToolError` or `Unavailable`, without secrets.
    """

    def space(self, ctx: ToolContext, owner: str = NOBODYS) -> VectorSpace | None:
        """The vector space of an owner's content; None while that takes vectors of any space, because there is none."""
        ...

    def upsert(
        self,
        chunks: Sequence[Chunk],
        vectors: Sequence[Sequence[float]],
        space: VectorSpace,
        ctx: ToolContext,
        replace: Mapping[str, Collection[int]] | None = None,
        owner: str = NOBODYS,
    ) -> int:
        """Store the chunks, each in place of the one of the same name, and delete the chunks that `replace` names: all or
        nothing.

        All chunks are the owner's. `replace` names objects of it, and of each the `chunk_id`s that stay: its others go, and
        the answer is how many they were. No chunk comes twice. Nothing between is ever left behind, however the process
        ends. Raises the errors of `require_space`, also if another call settled the space meanwhile.
        """
        ...

    def move(self, object_id: str, to: str, parent: str | None, ctx: ToolContext, owner: str = NOBODYS) -> int:
        """Give an object another id, and a path if one is given, in place of an object of that id; all or nothing.

        Its chunks keep their vectors. The answer is how many they are; without any, nothing is done.
        """
        ...

    def delete(self, scope: Scope, ctx: ToolContext) -> Deleted:
        """Delete all chunks in the scope, in one step."""
        ...

    def search(self, search: Search, ctx: ToolContext) -> list[Hit]:
        """At most `top_k` hits, best first. Empty if nothing is stored."""
        ...

    def list(
        self,
        prefix: str | None,
        offset: int,
        limit: int,
        ctx: ToolContext,
        owner: str = NOBODYS,
        after: tuple[str, str] = FIRST_OBJECT,
    ) -> Listing:
        """The objects, by their parent paths, sorted by code points; with `prefix`, in those that a `Scope` with it means.

        The page begins `offset` objects behind the object `after`, which need not exist (any more).
        """
        ...

    def get(
        self, object_id: str, offset: int, limit: int, ctx: ToolContext, owner: str = NOBODYS, after: int = -1
    ) -> ChunkPage:
        """Chunks of one object, from `offset` chunks behind the number `after` on; none if there is no such object."""
        ...

    def versions(self, object_ids: Sequence[str], ctx: ToolContext, owner: str = NOBODYS) -> builtins.list[ObjectVersion]:
        """The stored versions of the named objects; unknown ids are left out."""
        ...

    def stats(self, ctx: ToolContext, owner: str = NOBODYS) -> StoreStats:
        """Count the content of an owner now."""
        ...

    def close(self) -> None:
        """Close files and connections, so that another process can use them. Later calls raise `Unavailable`."""
        ...


def candidates(top_k: int) -> int:
    """The number of hits of each kind that a hybrid search fuses: enough not to miss hits that are good in both."""
    return max(50, 3 * top_k)


def fused_score(similarity: float, relevance: float) -> float:
    """The score of a hybrid hit, 0 to 1: the mean of how near its vector is and of how well its words fit.

    `similarity` is the cosine similarity; a negative one counts as 0, as that of unrelated texts. `relevance` is 0 for a
    chunk with none of the query's words. The best chunk has the share of the query's words that it holds, and the others
    less, in proportion to the database's own relevance.
    """
    return (max(similarity, 0.0) + relevance) / 2


def require_space(stored: VectorSpace | None, given: VectorSpace, *, doing: str) -> None:
    """Raise `ToolError` (`embedding_model_mismatch`) unless vectors of `given` fit the store's content.

    `doing` begins the message, as "This text was embedded".
    """
    if stored is None or stored == given:
        return
    raise ToolError(
        f'{doing} with "{given.model}" ({given.size} numbers), but this store holds vectors of "{stored.model}" '
        f"({stored.size} numbers): they cannot be compared",
        code="embedding_model_mismatch",
        hint=f'Use the model "{stored.model}" again (bind its embedding node), search with "mode": "keyword", '
        "or fill another, empty store with the new model.",
        data={
            "stored": {"model": stored.model, "size": stored.size},
            "given": {"model": given.model, "size": given.size},
        },
    )


def require_language(stored: str, given: str, *, words_of: str, another: str) -> None:
    """Raise `ToolError` (`language_mismatch`) unless words of the language `given` can be stored beside those that are.

    `words_of` names the store in the message, and `another` is what can be filled instead.
    """
    if stored != given:
        raise ToolError(
            f'The words of {words_of} were indexed as "{stored}", not as "{given}"',
            code="language_mismatch",
            hint=f'Set "language": "{stored}", or fill another {another}.',
        )


def hit_json(hit: Hit) -> dict[str, Any]:
    """The JSON of a hit in the answer of `search`."""
    return {"content": hit.chunk.content, "score": hit.score, "metadata": _metadata(hit.chunk)}


def chunk_json(chunk: Chunk) -> dict[str, Any]:
    """The JSON of a chunk in the answer of `get`."""
    return {"content": chunk.content, "chunkId": chunk.chunk_id, "metadata": _metadata(chunk)}


def document_json(chunk: Chunk, score: float | None) -> dict[str, Any]:
    """The document of a chunk on a lane; `score` is null for a chunk that was read without a search."""
    return {"type": "Document", "page_content": chunk.content, "score": score, "metadata": _metadata(chunk)}


def _metadata(chunk: Chunk) -> dict[str, Any]:
    placed = {"objectId": chunk.object_id, "nodeId": chunk.node_id, "parent": chunk.parent, "chunkId": chunk.chunk_id}
    return {**chunk.extra, **placed}
