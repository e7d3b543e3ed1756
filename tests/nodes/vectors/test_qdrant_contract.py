"""The store on Qdrant keeps to what every vector store keeps to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from qdrant_stores import LocalServer, qdrant_store
from vector_contract import NewStore, StoreContract

from rrext.nodes.vectors.qdrant.store import QdrantStore


class TestQdrantContract(StoreContract):
    @pytest.fixture
    def new_store(self) -> Iterator[NewStore]:
        server, numbers = LocalServer(), itertools.count()
        given: list[QdrantStore] = []

        def make() -> QdrantStore:
            given.append(qdrant_store(server, f"store{next(numbers)}"))
            return given[-1]

        yield make
        for store in given:
            store.close()
