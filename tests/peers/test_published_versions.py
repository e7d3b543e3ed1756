"""Versions of the published RocketRide client, each in an environment of its own, pass the tests of `published`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.timeout(400), pytest.mark.promise("ws:rocketride")]

HERE = Path(__file__).resolve().parent
PACKAGES = (
    "import importlib.metadata, sysconfig; print(importlib.metadata.version('rocketride'), sysconfig.get_path('purelib'))"
)


# the ordinary run has 1.5.0 with a process for each task
@pytest.mark.parametrize(("version", "options"), [("1.3.0", ""), ("1.5.0", "--isolation none")])
def test_a_version_of_the_published_client_drives_the_server(version: str, options: str) -> None:
    variable = f"RREXT_ROCKETRIDE_{version.replace('.', '_')}"
    if variable not in os.environ:
        pytest.skip(f"set {variable} to a Python that has rocketride[otel] {version}")
    said = subprocess.run([os.environ[variable], "-c", PACKAGES], capture_output=True, text=True, timeout=60, check=True).stdout
    found, packages = said.strip().split(maxsplit=1)
    assert found == version
    command = [sys.executable, "-m", "pytest", str(HERE / "published"), "-q", "-n0", "--no-skips", "-p", "no:cacheprovider"]
    env = os.environ | {
        "RREXT_SERVE_OPTIONS": options,
        "PYTHONPATH": packages,
    }  # the client and what it needs come from there, the rest from here
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, env=env, cwd=HERE.parents[1], check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert " passed" in done.stdout
