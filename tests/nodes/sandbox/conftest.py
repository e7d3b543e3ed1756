"""The sandbox that the `system` tests of this folder share, and eyes on the machine outside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from guests import Guests

from rrext.nodes.sandbox.sandlock_sandbox import SandlockSandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandlockSandbox]:
    engine = SandlockSandbox()
    yield engine
    engine.close()


@pytest.fixture
def guests(sandbox: SandlockSandbox) -> Iterator[Guests]:
    """Runs programs; afterwards no process of any of them may be left."""
    runner = Guests(sandbox)
    yield runner
    assert runner.left_behind() == []


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    return val if isinstance(val, str) and argname == "title" else None
