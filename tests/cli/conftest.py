"""Commands in the process of the test."""

from __future__ import annotations

import pytest
from commands import InProcess


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> InProcess:
    return InProcess(capfd, monkeypatch)
