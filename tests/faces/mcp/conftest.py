"""A server for each era of the protocol, shared by the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mcp_host import Host


@pytest.fixture(scope="module")
def modern() -> Iterator[Host]:
    """A host of version 2026-07-28."""
    with Host() as host:
        yield host


@pytest.fixture(scope="module")
def legacy() -> Iterator[Host]:
    """A host of version 2025-11-25, after its handshake."""
    with Host(shakes_hands=True) as host:
        yield host


@pytest.fixture(params=["modern", "legacy"])
def host(request: pytest.FixtureRequest) -> Host:
    """A host of each era."""
    return request.getfixturevalue(request.param)
