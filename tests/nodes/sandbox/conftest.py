"""The sandbox that the `system` tests of this folder share, and eyes on the machine outside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from distributions import install_samples
from guests import Guests

from rrext.nodes.sandbox.engine import ENGINES, SandboxEngine, lack_of
from rrext.nodes.sandbox.node import Sandbox
from rrext.nodes.sandbox.packages import OfferedPackages


@pytest.fixture(scope="session", params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> SandboxEngine:
    """Each engine; all tests of programs run on each."""
    if lack := lack_of(request.param):
        pytest.skip(f"{request.param.name}: {lack}")
    return request.param


@pytest.fixture(scope="session")
def sandbox(engine: SandboxEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with packages, whose walls must hold as well; those of one without are tried in `test_walls`."""
    site = tmp_path_factory.mktemp("site")
    install_samples(site)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        grant = OfferedPackages(["shapes", "circles", "far", "squares"]).grant(["shapes", "circles", "far", "torch"])
    made = Sandbox(grant, engine.name)
    yield made
    made.close()


@pytest.fixture
def guests(sandbox: Sandbox) -> Iterator[Guests]:
    """Runs programs; afterwards no process of any of them may be left."""
    runner = Guests(sandbox)
    yield runner
    assert runner.left_behind() == []


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    return val if isinstance(val, str) and argname == "title" else None
