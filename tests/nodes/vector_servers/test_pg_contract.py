"""The store on PostgreSQL keeps to what every vector store keeps to; also with an index from the first chunk on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pg_stores import open_store
from postgres_server import Database, PostgresServer
from vector_contract import NewStore, StoreContract

from rrext.nodes.vectors.postgres.store import PgVectorStore

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    """One database for all: each store has a table of its own."""
    postgres_server.start()
    yield postgres_server.create_database("contract")
    postgres_server.start()
    postgres_server.drop_database("contract")


def stores_in(database: Database, threshold: int) -> Iterator[NewStore]:
    """How a test makes stores; they are closed afterwards."""
    given: list[PgVectorStore] = []

    def make() -> PgVectorStore:
        given.append(open_store(database, table=f"store{next(NUMBERS)}", threshold=threshold, connections=8))
        return given[-1]

    yield make
    for store in given:
        store.close()


class TestPgContract(StoreContract):
    @pytest.fixture
    def new_store(self, database: Database) -> Iterator[NewStore]:
        yield from stores_in(database, 0)


class TestPgContractWithIndex(StoreContract):
    """The index is built as soon as something was searched, while the test goes on."""

    @pytest.fixture
    def new_store(self, database: Database) -> Iterator[NewStore]:
        yield from stores_in(database, 1)
