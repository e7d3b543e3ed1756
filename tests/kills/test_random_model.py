"""Random clients on every way: one answer each, of its own fate; nothing is left.

`RREXT_MODEL_OPERATIONS=100000 RREXT_MODEL_SEEDS=50 pytest tests/kills/test_random_model.py` for hours of load.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from random_model import Model
from served_model import WAYS, served

OPERATIONS = int(os.environ.get("RREXT_MODEL_OPERATIONS", "1000"))
SEEDS = range(1, 1 + int(os.environ.get("RREXT_MODEL_SEEDS", "2")))
LOG = 4000
"""Characters of the server's log in the report of a failure."""

pytestmark = [
    pytest.mark.promise("call:own-fate"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(60 + OPERATIONS),
]


async def run(way: str, seed: int, operations: int, folder: Path) -> dict[str, int]:
    """One run of the model; how often each outcome came. Raises `AssertionError`."""
    async with served(way, folder) as server:
        model = Model(server, seed)
        try:
            await model.run(operations)
            for client in model.clients:
                client.line.end()
            assert await server.end() == []
            assert "Traceback" not in server.log
            assert "bug" not in server.log
        except Exception as error:
            told = "\n".join([str(error) or repr(error), f"{way}, seed {seed}, the last operations:", *model.done])
            raise AssertionError(f"{told}\nthe log of the server:\n{server.log[-LOG:]}") from error
        return model.outcomes


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("way", WAYS)
def test_random_clients_get_one_answer_each_of_its_own_fate(way: str, seed: int, folder: Path) -> None:
    outcomes = asyncio.run(run(way, seed, OPERATIONS, folder))
    assert outcomes["ok"] > OPERATIONS / 10
