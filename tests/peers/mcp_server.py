"""The server that peers of the Model Context Protocol drive: its command on stdio, or its URL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
FACES = HERE.parent / "faces"
JUDGE = HERE / "judge.pipe"
NODES = [word for name in ("face_nodes", "face_fates", "face_lanes") for word in ("--nodes", str(FACES / f"{name}.py"))]
RREXT = [sys.executable, "-m", "rrext", "mcp"]
COMMAND = [*RREXT, str(JUDGE), *NODES, "--as-tool", "shout"]


@contextmanager
def served_by_http(command: Sequence[str] = COMMAND) -> Iterator[str]:
    """The URL of a server of HTTP."""
    process = subprocess.Popen([*command, "--http", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        line = process.stderr.readline().decode()
        assert "listening at http" in line, line
        yield line.split()[-1]
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
