"""A store in a fresh database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pg_stores import open_store
from postgres_server import Database

from rrext.nodes.vectors.postgres.store import PgVectorStore


@pytest.fixture
def store(postgres_database: Database) -> Iterator[PgVectorStore]:
    opened = open_store(postgres_database)
    yield opened
    opened.close()
