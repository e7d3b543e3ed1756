"""Chunks and hits as JSON: in the answers of tools, and as documents on a lane."""

from __future__ import annotations

from typing import Any

from rrext.nodes.vectors.store import Chunk, Hit


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
