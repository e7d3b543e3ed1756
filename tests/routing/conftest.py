"""Where the processes of tasks run: each test runs once with processes of this one, and once with those of a host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "cluster"))

import routed_engine  # it takes a module of that folder

from rrext.tasks import remote_tasks
from rrext.tasks.worker import Worker


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_local = "of_this_machine" in metafunc.fixturenames
    metafunc.parametrize("place", ["here"] if is_local else ["here", "on a host"], indirect=True)


@pytest.fixture(autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where tasks run."""
    before, routed_engine.PLACE = routed_engine.PLACE, request.param
    yield request.param
    routed_engine.PLACE = before


class OpenWorker(Worker):
    """A worker whose methods a test may replace: it has no slots of its own."""


@pytest.fixture(autouse=True)
def open_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests replace what a worker does."""
    monkeypatch.setattr(remote_tasks, "Worker", OpenWorker)


@pytest.fixture
def of_this_machine() -> None:
    """The test is about processes of this machine, as their parent sees them."""
