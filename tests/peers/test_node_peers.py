"""Clients from npm, which we did not write, drive a spawned server in both dialects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def modules() -> str:
    """The folder `node_modules` with both clients, as `RREXT_NODE_MODULES` names it."""
    folder = os.environ.get("RREXT_NODE_MODULES", "")
    wanted = ("vscode-jsonrpc", "@vscode/debugadapter-testsupport")
    if not all(Path(folder, name).is_dir() for name in wanted):
        pytest.skip(f"set RREXT_NODE_MODULES to a node_modules folder with {' and '.join(wanted)}")
    if shutil.which("node") is None:
        pytest.skip("install Node.js 20 or later")
    return folder


def drive(peer: str, scenario: str, modules: str) -> None:
    """Run one scenario of a peer; what it asserts is in its script."""
    command = ["node", str(HERE / peer), scenario, sys.executable, str(HERE / "serve_peer.py")]
    env = {**os.environ, "NODE_PATH": modules}
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("scenario", ["initialize", "tools", "tool", "cancel", "progress", "errors", "pipe", "shutdown"])
def test_vscode_jsonrpc_drives_the_server(scenario: str, modules: str) -> None:
    drive("jsonrpc_peer.cjs", scenario, modules)


@pytest.mark.parametrize(
    "scenario", ["initialize", "custom_request", "failed_response", "progress", "cancel", "pipe", "disconnect"]
)
def test_debugadapter_testsupport_drives_the_server(scenario: str, modules: str) -> None:
    drive("dap_peer.cjs", scenario, modules)
