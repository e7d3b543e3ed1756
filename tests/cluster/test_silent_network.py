"""A network that drops every packet and tells nobody, as a pulled cable does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system]  # not every machine lets its users have a network of their own


@pytest.mark.promise("cluster:one-answer")
@pytest.mark.parametrize("program", ["silent_network", "silent_ray"])
@pytest.mark.timeout(200)
def test_calls_in_a_network_that_drops_every_packet_are_answered_and_both_ends_end(program: str) -> None:
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    command = [*unshare, sys.executable, str(Path(__file__).with_name(f"{program}.py"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=190)
    assert done.stdout == "all answered, all gone\n", done.stderr
