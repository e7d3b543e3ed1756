"""Servers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from raw_client import Server


@pytest.fixture
def spawn() -> Iterator[Callable[..., Server]]:
    """Start servers; whatever is left of them and of what they started is killed after the test."""
    servers: list[Server] = []

    def start(*options: str, **how: Any) -> Server:
        server = Server(*options, **how)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(spawn: Callable[..., Server]) -> Server:
    """A server with the nodes and the pipeline of this folder."""
    return spawn()
