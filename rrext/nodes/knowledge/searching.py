"""Handlers of `search_documents` and `find_similar`: the chunks of the bound vector store, as ranges of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.knowledge.library import Library, View, address_of
from rrext.nodes.knowledge.partition import Partition, StoredDocument
from rrext.nodes.knowledge.selection import Selection
from rrext.nodes.vectors.store import Mode
from rrext.tools.context import ToolContext

MOST_HITS: Final = 100
"""Chunks that one search finds: what the store finds at most."""
LONGEST_HIT: Final = 4000
"""Characters of a chunk that an answer shows: a page; the rest can be read."""
NAMED: Final = 200
"""Documents up to which a filter names each of them to the store, which takes time for each; of more it tells their metadata if
those say the same, and the hits are checked."""
SIMILAR_BY: Final = 2000
"""Characters of a document that others are compared with: its beginning says what it is about."""


class StoreHit(msgspec.Struct):
    """A hit of the store's tool `search`, as far as it is used."""

    content: str
    score: float
    metadata: dict[str, Any]


class StoreAnswer(msgspec.Struct):
    """The answer of the store's tool `search`."""

    results: list[StoreHit]


class ChunkSearch:
    """Searches in the vector store that is bound to a node, for one call."""

    def __init__(self, library: Library, stores: Sequence[str], ctx: ToolContext) -> None:
        """`stores` are the ids of the bound nodes. Raises `Unavailable` without one."""
        if not stores:
            raise Unavailable(
                "No vector store is bound to this node, which search_documents asks",
                hint='Give a store node a control edge {"classType": "store", "from": …}, or use grep_documents.',
            )
        self._library = library
        self._store = stores[0]
        self._ctx = ctx

    def search(self, query: str, mode: Mode, selection: Selection, documents: Sequence[str], limit: int) -> dict[str, Any]:
        """The best chunks of all that the caller may read."""
        found: list[tuple[float, dict[str, Any]]] = []
        left_out = 0
        with self._library.view(self._ctx) as view:
            for space, partition in view.parts():
                wanted = store_filter(partition, selection, documents)
                if wanted == {}:
                    continue
                hits = self._hits(space, {"query": query, "mode": mode, "top_k": limit, "filter": wanted})
                named = documents_of(partition, [hit.metadata["objectId"] for hit in hits], selection)
                for hit in hits:
                    document = named.get(hit.metadata["objectId"])
                    if document is None or (documents and document.id not in documents):
                        left_out += 1
                    else:
                        found.append((hit.score, hit_json(hit, document)))
        found.sort(key=lambda pair: -pair[0])
        return {"results": [hit for _, hit in found[:limit]], "mode": mode, "left_out": left_out + max(0, len(found) - limit)}

    def similar(self, view: View, public_id: str, selection: Selection, limit: int) -> dict[str, Any]:
        """The documents whose chunks are nearest to the beginning of a document."""
        partition, document = view.find(public_id)
        query = partition.text(document, 0, SIMILAR_BY).strip()
        best: dict[str, dict[str, Any]] = {}
        if query:
            answer = self.search(f"{document.name}\n{query}", "dense", selection, (), MOST_HITS)
            for hit in answer["results"]:
                if hit["document"] != document.id:
                    best.setdefault(hit["document"], hit)
        return {"documents": [*best.values()][:limit]}

    def _hits(self, space: str | None, given: dict[str, Any]) -> list[StoreHit]:
        ctx = self._ctx if space == self._ctx.space_id else self._ctx.in_space(space)
        return msgspec.convert(ctx.call_blocking(self._store, "search", given), StoreAnswer).results


def store_filter(partition: Partition, selection: Selection, documents: Sequence[str]) -> dict[str, Any] | None:
    """The filter of the store for the documents that a selection means; None for all, an empty one for none.

    Few documents are named one by one. Of many the metadata are told, if those can say what is meant.
    """
    if not selection and not documents:
        return None
    condition, values = selection.condition()
    if documents:
        condition = f"{condition} AND document.id IN (SELECT value FROM json_each(?))"
        values.append(msgspec.json.encode(list(documents)).decode())
    count, total = partition.count(condition, values)
    if count == total:
        return None
    if count > NAMED and (metadata := selection.metadata_filter()) is not None:
        return {"metadata": metadata}
    named = partition.objects(condition, values)
    return {"objectId": named} if named else {}


def documents_of(partition: Partition, object_ids: Sequence[str], selection: Selection) -> Mapping[str, StoredDocument]:
    """The documents of objects, of those that a selection means."""
    condition, values = selection.condition()
    named = msgspec.json.encode(list(dict.fromkeys(object_ids))).decode()
    found = partition.select(f"document.object IN (SELECT value FROM json_each(?)) AND {condition}", (named, *values))
    return {document.object_id: document for document in found}


def hit_json(hit: StoreHit, document: StoredDocument) -> dict[str, Any]:
    """A hit in an answer. `start` and `end` are null for a piece of a table that stands in no text."""
    return {
        "document": document.id,
        "uri": address_of(document.id, hit.metadata.get("start"), hit.metadata.get("end")),
        "name": document.name,
        "path": document.path,
        "score": hit.score,
        "text": hit.content[:LONGEST_HIT],
        "is_cut": len(hit.content) > LONGEST_HIT,
        "start": hit.metadata.get("start"),
        "end": hit.metadata.get("end"),
        "line": hit.metadata.get("line"),
    }
