"""Chunks and hits as JSON: as the tools answer them, and as documents on a lane."""

from __future__ import annotations

from typing import Any

from rrext.nodes.vectors.store import Chunk, Hit


def hit_json(hit: Hit) -> dict[str, Any]:
    """A hit as `search` answers it."""
    return {"content": hit.chunk.content, "score": hit.score, "metadata": _metadata(hit.chunk)}


def chunk_json(chunk: Chunk) -> dict[str, Any]:
    """A chunk as `get` answers it."""
    return {"content": chunk.content, "chunkId": chunk.chunk_id, "metadata": _metadata(chunk)}


def document_json(chunk: Chunk, score: float | None) -> dict[str, Any]:
    """A chunk as a document on a lane; `score` is null for one that was read, not searched."""
    return {"type": "Document", "page_content": chunk.content, "score": score, "metadata": _metadata(chunk)}


def _metadata(chunk: Chunk) -> dict[str, Any]:
    placed = {"objectId": chunk.object_id, "nodeId": chunk.node_id, "parent": chunk.parent, "chunkId": chunk.chunk_id}
    return {**chunk.extra, **placed}
