"""The servers outside, and one server at a socket, for all faces."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

TESTS = Path(__file__).resolve().parents[2]
# Hosts of the Model Context Protocol, commands, and servers outside.
sys.path += [str(TESTS / folder) for folder in ("faces/mcp", "cli", "providers", "providers/mcp")]

from whole_pipeline import Place  # noqa: E402  # it takes modules of these folders


@pytest.fixture(scope="module")
def place(forked_servers: None) -> Iterator[Place]:
    """A pipeline with tools of every origin, and all that it needs."""
    with TemporaryDirectory(prefix="rrext-") as folder, Place(Path(folder)) as made:
        yield made
