"""Questions of a lane as searches, and their hits as documents and an answer."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rrext.errors import InvalidArguments
from rrext.nodes.base.lanes import empty_question, question_text
from rrext.nodes.embeddings.embedder import Embedder
from rrext.nodes.vectors.checked_input import require_vector, scope_of
from rrext.nodes.vectors.embedding import query_vector
from rrext.nodes.vectors.store import Mode, Scope, Search, VectorStore, document_json
from rrext.tools.context import ToolContext

MAX_LIMIT: Final = 1000
"""Documents for one question, with those that `offset` leaves out: more than any language model reads."""

MODES: Final[Mapping[str, Mode]] = {"semantic": "dense", "keyword": "keyword"}
"""Type of a question -> its search mode; all other types search in both modes."""

NARROWING: Final = (
    "minChunkId", "maxChunkId", "name", "permissions", "isDeleted", "chunkIds", "isTable", "tableIds",
)  # fmt: skip
"""Filters that these stores cannot apply. Refused, because an answer from more than was asked would leak data."""


def documents_for(
    question: Mapping[str, Any], store: VectorStore, embedder: Embedder, ctx: ToolContext, owner: str
) -> list[dict[str, Any]]:
    """The chunks for a question, as documents: best first, or for `get` in the order of the objects' chunks.

    Raises `InvalidArguments` for a question that asks nothing and for a filter that cannot be kept to.
    """
    filter = {**empty_question()["filter"], **(question.get("filter") or {})}
    scope = _scope(filter, owner)
    offset, limit = _count(filter, "offset", 0), _count(filter, "limit", 1)
    if offset + limit > MAX_LIMIT:
        raise InvalidArguments.at("/filter/limit", f"with the offset it is more than {MAX_LIMIT}")
    if question.get("type") == "get":
        return _read(store, scope, offset, limit, ctx, owner)
    text = question_text(question).strip()
    if not text:
        raise InvalidArguments.at("/questions", "asks nothing: there is no text to look for")
    mode: Mode = MODES.get(str(question.get("type")), "hybrid")
    vector = None
    if mode != "keyword":
        vector = query_vector(store, embedder, text, *_embedding(question), ctx)
        if vector is None:
            return []
    hits = store.search(Search(mode, offset + limit, text, vector, scope), ctx)
    return [document_json(hit.chunk, hit.score) for hit in hits[offset:]]


def answer_to(question: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make an answer from hits: the documents as JSON if `expectJson`, else their texts."""
    if question.get("expectJson"):
        return {"answer": list(documents), "expectJson": True}
    return {"answer": "\n\n".join(document["page_content"] for document in documents), "expectJson": False}


def _scope(filter: Mapping[str, Any], owner: str) -> Scope:
    refused = [key for key in NARROWING if filter.get(key) is not None]
    if refused:
        raise InvalidArguments.of([(f"/filter/{key}", "this store cannot filter by it") for key in refused])
    wanted = {key: filter.get(key) for key in ("objectIds", "nodeId", "parent")}
    return scope_of("/filter", wanted, ids_key="objectIds", owner=owner)


def _count(filter: Mapping[str, Any], key: str, least: int) -> int:
    value = filter.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArguments.at(f"/filter/{key}", f"expected a whole number, not below {least}")
    return value


def _read(store: VectorStore, scope: Scope, offset: int, limit: int, ctx: ToolContext, owner: str) -> list[dict[str, Any]]:
    """One page of the chunks of all named objects, one object after the other."""
    if not scope.object_ids or scope.node_id is not None or scope.parent is not None:
        raise InvalidArguments.at("/filter/objectIds", 'a question of type "get" names the objects to read, and nothing else')
    documents: list[dict[str, Any]] = []
    for object_id in scope.object_ids:
        page = store.get(object_id, offset, max(limit - len(documents), 1), ctx, owner)
        documents += [document_json(chunk, None) for chunk in page.chunks[: limit - len(documents)]]
        offset = max(offset - page.total, 0)
        if len(documents) == limit:
            break
    return documents


def _embedding(question: Mapping[str, Any]) -> tuple[array[float] | None, str | None]:
    """The question's own vector, if its only text has one, and the vector's model."""
    asked = [item for item in question.get("questions") or () if isinstance(item, Mapping)]
    if len(asked) != 1 or asked[0].get("embedding") is None:
        return None, None
    return require_vector("/questions/0/embedding", asked[0]["embedding"]), asked[0].get("embedding_model")
