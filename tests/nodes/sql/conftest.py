"""Embedded databases in memory."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Files of databases are in memory."""
    return memory_path
