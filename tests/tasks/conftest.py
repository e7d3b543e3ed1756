"""A server whose tasks run in processes, and connections to it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "faces"))

from task_server import WHERE, TaskServer, task_server  # noqa: E402  # it takes modules of that folder


@pytest.fixture
async def server(place: str) -> AsyncIterator[TaskServer]:
    """A server of its own."""
    async with task_server() as started:
        yield started


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of a server run once with processes on its machine, and once with those of a host."""
    if {"server", "place"} & {*metafunc.fixturenames}:
        is_local = "of_this_machine" in metafunc.fixturenames
        metafunc.parametrize("place", ["process"] if is_local else ["process", "hosts"], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the processes of tasks run."""
    before, WHERE[0] = WHERE[0], request.param
    yield request.param
    WHERE[0] = before


@pytest.fixture
def of_this_machine() -> None:
    """The test is about processes of this machine, as their parent sees them."""
