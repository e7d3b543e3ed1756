"""Stores in a test's own PostgreSQL database, chunks for them, and calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from postgres_server import Database

from rrext.nodes.databases.postgres import PostgresSettings, connection_parameters
from rrext.nodes.embeddings.embedder import hashed
from rrext.nodes.vectors.postgres.store import PgVectorStore
from rrext.nodes.vectors.store import Chunk, Mode, Scope, Search, VectorSpace
from rrext.tools.context import CancelToken, ToolContext

SIZE = 32
SPACE = VectorSpace("hashing-32", SIZE)
PATIENCE = 30.0
"""Seconds for what comes soon, on a loaded machine too."""


def settings_of(place: Database, **changes: Any) -> PostgresSettings:
    settings = PostgresSettings()
    for name, value in {**place.settings, **changes}.items():
        setattr(settings, name, value)
    return settings


def open_store(database: Database, settings: Mapping[str, Any] | None = None, **changes: Any) -> PgVectorStore:
    """A store in the database; `settings` say otherwise where that is, `changes` are arguments of the store."""
    arguments = {"schema": "public", "table": "chunks", "language": "simple", "connections": 4, "threshold": 0, **changes}
    return PgVectorStore(connection_parameters(settings_of(database, **(settings or {}))), **arguments)


def call(seconds: float = PATIENCE, token: CancelToken | None = None) -> ToolContext:
    """A call with a deadline, which its token may cancel before."""
    return ToolContext(token=token, deadline=time.monotonic() + seconds)


def chunk(object_id: str, chunk_id: int = 0, content: str = "some words", **changes: Any) -> Chunk:
    return Chunk(object_id, chunk_id, content, changes.pop("node_id", "node"), changes.pop("parent", "/"), changes)


def vectors_of(chunks: Sequence[Chunk]) -> list[list[float]]:
    return [hashed(one.content, SIZE) for one in chunks]


def fill(store: PgVectorStore, chunks: Sequence[Chunk], space: VectorSpace = SPACE) -> None:
    store.upsert(chunks, vectors_of(chunks), space, call())


def names(store: PgVectorStore, text: str, mode: Mode = "hybrid", top_k: int = 10, scope: Scope | None = None) -> list[str]:
    """`object_id/chunk_id` of what is found."""
    search = Search(mode, top_k, text, hashed(text, SIZE) if text else None, scope or Scope())
    return [f"{hit.chunk.object_id}/{hit.chunk.chunk_id}" for hit in store.search(search, call())]


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for what nothing announces."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.01)
