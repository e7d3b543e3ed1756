"""Chunks in the form of the documents lane: the text and its origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rrext.nodes.base.node import Entry
from rrext.nodes.documents.measures import Measure
from rrext.nodes.documents.splitter import Passage, table_parts

RESERVED: Final = frozenset(
    {
        *("objectId", "chunkId", "nodeId", "parent", "permissionId", "isDeleted", "isTable", "tableId", "signature"),
        *("headings", "line"),
    }
)
"""Metadata keys for the position of a chunk; values of a client or a file under these keys are dropped."""


class ChunkMaker:
    """Numbers the chunks of one object, and gives each the object's current metadata."""

    def __init__(self, entry: Entry, node_id: str) -> None:
        self._entry = entry
        self._node_id = node_id
        self._counts: dict[str, int] = {}
        self._tables = 0

    def of_text(self, passage: Passage) -> dict[str, Any]:
        """Make a chunk of the object's text."""
        return _document(passage.text, {**self._place(), **_spot(passage)})

    def of_table(self, table: str, headings: tuple[str, ...], measure: Measure) -> Iterator[dict[str, Any]]:
        """Make the chunks of a table: several if it is too large, all with its `tableId`, counted from 0."""
        if not table.strip():
            return
        table_id, self._tables = self._tables, self._tables + 1
        for part in table_parts(table, measure):
            place = self._place()
            place.update(isTable=True, tableId=table_id, **({"headings": list(headings)} if headings else {}))
            yield _document(part, place)

    def of_document(self, document: Mapping[str, Any], passages: Iterator[Passage]) -> Iterator[dict[str, Any]]:
        """Make the chunks of a single document. They keep its metadata and the id of its object."""
        given = document.get("metadata")
        given = dict(given) if isinstance(given, Mapping) else {}
        object_id = str(given.get("objectId") or self._entry.object_id)
        for passage in passages:
            place = self._place(object_id)
            chunk_id = place["chunkId"]
            place.update({key: value for key, value in given.items() if value is not None})
            place.update(objectId=object_id, chunkId=chunk_id, **_spot(passage))
            yield _document(passage.text, place)

    def _place(self, object_id: str = "") -> dict[str, Any]:
        """Make the metadata of the next chunk of an object."""
        entry = self._entry
        object_id = object_id or entry.object_id
        chunk_id = self._counts.get(object_id, 0)
        self._counts[object_id] = chunk_id + 1
        facts = {name: value for name, value in entry.metadata.items() if name not in RESERVED}
        return {
            **facts,
            "objectId": object_id,
            "chunkId": chunk_id,
            "nodeId": self._node_id,
            "parent": entry.path or entry.name,
            "permissionId": None,
            "isDeleted": False,
            "isTable": False,
            "tableId": None,
            "signature": None,
        }


def _spot(passage: Passage) -> dict[str, Any]:
    """The position of a chunk in its text, and the headings above it."""
    return {"line": passage.line, **({"headings": list(passage.headings)} if passage.headings else {})}


def _document(text: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Document",
        "page_content": text,
        "embedding": None,
        "embedding_model": None,
        "score": None,
        "highlight_score": None,
        "context": None,
        "tokens": None,
        "metadata": metadata,
    }
