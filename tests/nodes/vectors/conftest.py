"""Embedded stores in fresh folders."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge_process import process_store
from vector_contract import NewStore, chunk, put

from rrext.nodes.vectors.edge.node import ProcessStore
from rrext.nodes.vectors.store import VectorStore


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Stores are in memory."""
    return memory_path


@pytest.fixture
def new_store(tmp_path: Path) -> Iterator[NewStore]:
    numbers = itertools.count()
    given: list[VectorStore] = []

    def make() -> VectorStore:
        given.append(process_store(tmp_path / f"store{next(numbers)}"))
        return given[-1]

    yield make
    for store in given:
        store.close()


@pytest.fixture
def running_store(tmp_path: Path) -> Iterator[ProcessStore]:
    """A store with one chunk, its process running."""
    store = process_store(tmp_path / "store")
    put(store, chunk("a"))
    yield store
    store.close()
