"""Commands in the process of the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import HERE, InProcess, component, pipeline


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> InProcess:
    return InProcess(capfd, monkeypatch)


@pytest.fixture
def crew(tmp_path: Path) -> tuple[str, str]:
    """A pipeline with an agent, and the file of its nodes."""
    boss = component("boss_1", "boss", control="s", key="${ROCKETRIDE_KEY}")
    others = [component("hand_1", "hand", control="s"), component("help_1", "helper", control="s")]
    return pipeline(tmp_path, component("s", "tools"), boss, *others), str(HERE / "crew_nodes.py")
