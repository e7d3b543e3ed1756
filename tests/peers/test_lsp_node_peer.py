"""npm's vscode-languageserver-protocol, which we did not write, drives `rrext lsp` as VS Code would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PACKAGES = ("vscode-languageserver-protocol", "vscode-languageserver-textdocument")

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def modules() -> str:
    """The folder `node_modules` with the client, as `RREXT_NODE_MODULES` names it."""
    folder = os.environ.get("RREXT_NODE_MODULES", "")
    if not all(Path(folder, name).is_dir() for name in PACKAGES):
        pytest.skip(f"set RREXT_NODE_MODULES to a node_modules folder with {' and '.join(PACKAGES)}")
    if shutil.which("node") is None:
        pytest.skip("install Node.js 20 or later")
    return folder


SCENARIOS = ["initialize", "diagnostics", "sync", "hover", "navigation", "rename", "symbols"]
SCENARIOS += ["fixes", "completion", "lenses", "commands", "custom", "trust"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_vscodes_own_library_drives_the_language_server(scenario: str, modules: str, tmp_path: Path) -> None:
    command = ["node", str(HERE / "lsp_peer.cjs"), scenario, str(tmp_path), sys.executable, "-m", "rrext", "lsp"]
    env = {**os.environ, "NODE_PATH": modules, "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=45
    )
    assert done.returncode == 0, done.stdout
