"""A server whose tasks run in processes, and connections to it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "faces"))

from task_server import TaskServer, task_server  # noqa: E402  # it takes modules of that folder


@pytest.fixture
async def server() -> AsyncIterator[TaskServer]:
    """A server of its own."""
    async with task_server() as started:
        yield started
