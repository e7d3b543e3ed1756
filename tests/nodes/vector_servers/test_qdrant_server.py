"""The store on a real server of Qdrant keeps to what every vector store keeps to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient
from qdrant_server import running_qdrant
from vector_contract import NewStore, StoreContract

from rrext.nodes.vectors.qdrant.store import QdrantStore

pytestmark = pytest.mark.system
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def qdrant_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_qdrant(tmp_path_factory.mktemp("qdrant")) as url:
        yield url


class TestQdrantServerContract(StoreContract):
    @pytest.fixture
    def new_store(self, qdrant_url: str) -> Iterator[NewStore]:
        given: list[QdrantStore] = []

        def make() -> QdrantStore:
            name = f"store{next(NUMBERS)}"
            given.append(QdrantStore(lambda: QdrantClient(url=qdrant_url), collection=name, shown=name))
            return given[-1]

        yield make
        for store in given:
            store.close()
