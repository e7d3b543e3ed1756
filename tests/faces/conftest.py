"""A face of each way that leads to an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from face import SHARED, WAYS, WIRES, Face, Line, Way
from houses import STANDING, LocalHouse, WireLine, open_house


@pytest.fixture(scope="session", autouse=True)
def standing_server_ends() -> Iterator[None]:
    yield
    for server in STANDING.values():
        server.stop()


@pytest.fixture(scope="module", autouse=True)
def spawned_servers_are_forked(request: pytest.FixtureRequest) -> None:
    """Except where the start of a server is the point."""
    if request.path.parent == Path(__file__).parent and request.path.name != "test_spawned_environment.py":
        request.getfixturevalue("forked_servers")


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way."""
    return request.param


@pytest.fixture
async def face(way: Way) -> AsyncIterator[Face]:
    """A connection of each way."""
    async with open_house(way) as house, house.connect() as connected:
        yield connected


@pytest.fixture
async def line(way: Way) -> AsyncIterator[Line]:
    """A line of each way."""
    async with open_house(way) as house, house.line() as connected:
        yield connected


@pytest.fixture(params=WIRES, ids=str)
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[WireLine]:
    """A line of each way that has bytes."""
    async with open_house(request.param) as house, house.line() as connected:
        yield connected


@pytest.fixture(params=SHARED, ids=str)
def shared_way(request: pytest.FixtureRequest) -> Way:
    """Each way whose engine several can reach."""
    return request.param


@pytest.fixture
async def house(shared_way: Way) -> AsyncIterator[LocalHouse]:
    """An engine that several can reach, with a clock that only the test moves."""
    async with open_house(shared_way, clock=True) as opened:
        yield opened


@pytest.fixture
def key() -> str:
    """A name for gates and journals that nobody else has."""
    return uuid4().hex
