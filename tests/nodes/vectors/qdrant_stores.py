"""Stores on the client's own local mode, which keeps collections in this process: one client, as a server has all of them."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.local import payload_filters

from rrext.nodes.vectors.qdrant.store import QdrantStore

_one_by_one = payload_filters.check_match


_sets: dict[int, tuple[Any, frozenset[Any]]] = {}


def _matches(condition: Any, value: Any) -> bool:
    """Look a value up in a set: the local mode compares it with thousands of ids, one by one."""
    if not isinstance(condition, models.MatchAny) or isinstance(value, bool):
        return _one_by_one(condition, value)
    kept = _sets.get(id(condition))
    if kept is None or kept[0] is not condition:
        if len(_sets) > 8:
            _sets.clear()
        kept = _sets[id(condition)] = condition, frozenset(condition.any)
    return value in kept[1]


payload_filters.check_match = _matches


class LocalServer:
    """Stands in the place of a client. Its methods run one at a time: the local mode is not safe for threads, as servers are.

    `calls` are the methods that were called; `fails_at` raises before the call with that number.
    """

    def __init__(self) -> None:
        self._client = QdrantClient(":memory:")
        self._lock = threading.RLock()
        self.calls: list[str] = []
        self.fails_at: int | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            with self._lock, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # indexes have no effect there
                self.calls.append(name)
                if len(self.calls) == self.fails_at:
                    raise OSError("the line is cut")
                return method(*args, **kwargs)

        return called

    def close(self) -> None:
        """A store closes its own client; the server goes on."""


def qdrant_store(server: LocalServer, collection: str = "chunks", least: float = -1.0) -> QdrantStore:
    return QdrantStore(lambda: server, collection=collection, shown=f"here/{collection}", least=least)  # pyright: ignore[reportArgumentType]
