"""The sandbox that the `system` tests of this folder share, and eyes on the machine outside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from distributions import install_samples
from guests import Guests

from rrext.nodes.sandbox.node import SandlockSandbox
from rrext.nodes.sandbox.packages import OfferedPackages


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandlockSandbox]:
    """A sandbox with packages, whose walls must hold as well; those of one without are tried in `test_walls`."""
    site = tmp_path_factory.mktemp("site")
    install_samples(site)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        grant = OfferedPackages(["shapes", "circles", "far", "squares"]).grant(["shapes", "circles", "far", "torch"])
    engine = SandlockSandbox(grant)
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
