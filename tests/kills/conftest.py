"""How often is killed: `RREXT_KILL_ROUNDS=100 pytest tests/kills` for longer runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROUNDS = int(os.environ.get("RREXT_KILL_ROUNDS", "2"))


@pytest.fixture
def rounds() -> range:
    """The seeds of the rounds of a test."""
    return range(ROUNDS)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, for sockets."""
    with TemporaryDirectory(prefix="rrext-") as path:
        yield Path(path)
