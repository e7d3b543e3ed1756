"""The store on PostgreSQL keeps to what every vector store keeps to; also with an index from the first chunk on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pg_stores import open_store
from postgres_server import Database
from vector_contract import NewStore, StoreContract

from rrext.nodes.vectors.postgres.store import PgVectorStore


def stores_in(database: Database, threshold: int) -> Iterator[NewStore]:
    """How a test makes stores, each in a table of its own; closed afterwards."""
    numbers = itertools.count()
    given: list[PgVectorStore] = []

    def make() -> PgVectorStore:
        given.append(open_store(database, table=f"store{next(numbers)}", threshold=threshold, connections=8))
        return given[-1]

    yield make
    for store in given:
        store.close()


class TestPgContract(StoreContract):
    @pytest.fixture
    def new_store(self, postgres_database: Database) -> Iterator[NewStore]:
        yield from stores_in(postgres_database, 0)


class TestPgContractWithIndex(StoreContract):
    """The index is built as soon as something was searched, while the test goes on."""

    @pytest.fixture
    def new_store(self, postgres_database: Database) -> Iterator[NewStore]:
        yield from stores_in(postgres_database, 1)
