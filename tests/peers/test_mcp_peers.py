"""Official clients of the Model Context Protocol that pip cannot install beside the tests' own drive a spawned server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FACES = HERE.parent / "faces"
NODES = [word for name in ("face_nodes", "face_fates", "face_lanes") for word in ("--nodes", str(FACES / f"{name}.py"))]
SERVER = [sys.executable, "-m", "rrext", "mcp", str(FACES / "face.pipe"), *NODES]

pytestmark = pytest.mark.system


def drive(*peer: str) -> None:
    """Run a peer; what it asserts is in its script."""
    done = subprocess.run(
        [*peer, *SERVER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("done\n"), done.stdout


@pytest.mark.parametrize("package", ["@modelcontextprotocol/sdk", "@modelcontextprotocol/client"])
def test_a_typescript_client_drives_the_server(package: str) -> None:
    if shutil.which("node") is None or not Path(os.environ.get("RREXT_NODE_MODULES", ""), package).is_dir():
        pytest.skip(f"install Node.js 20 or later, and set RREXT_NODE_MODULES to a node_modules folder with {package}")
    drive("node", str(HERE / "mcp_peer.mjs"), package)


def test_the_first_python_client_drives_the_server() -> None:
    if "RREXT_MCP_1" not in os.environ:
        pytest.skip("set RREXT_MCP_1 to a Python that has mcp 1.30")
    drive(os.environ["RREXT_MCP_1"], str(HERE / "mcp_peer_1.py"))
