"""Embedded stores in fresh folders."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from vector_contract import NewStore

from rrext.nodes.vectors.edge.folder import StoreFolder
from rrext.nodes.vectors.edge.store import EdgeStore


@pytest.fixture
def new_store(tmp_path: Path) -> Iterator[NewStore]:
    numbers = itertools.count()
    given: list[EdgeStore] = []

    def make() -> EdgeStore:
        folder = str(tmp_path / f"store{next(numbers)}")
        given.append(EdgeStore(lambda: StoreFolder(folder, folder), min_free=0))
        return given[-1]

    yield make
    for store in given:
        store.close()
