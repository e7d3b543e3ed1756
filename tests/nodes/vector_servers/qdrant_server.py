"""A Qdrant server of its own in a folder, for tests that are marked `system`: no package of pip has its program."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

READY_WITHIN = 30.0
"""Seconds for the server to start."""


@contextmanager
def running_qdrant(folder: Path, port: int = 0) -> Iterator[str]:
    """The URL of a server that runs meanwhile, by default at a free port; skips the test where there is no program `qdrant`."""
    program = shutil.which("qdrant")
    if program is None:
        pytest.skip("there is no program `qdrant` on the PATH")
    with socket.socket() as free:
        free.bind(("127.0.0.1", port))
        port = free.getsockname()[1]
    settings = {
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": "0",
        "QDRANT__STORAGE__STORAGE_PATH": str(folder / "storage"),
        "QDRANT__STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
        "QDRANT__TELEMETRY_DISABLED": "true",
    }
    with subprocess.Popen([program], cwd=folder, env={**os.environ, **settings}, stdout=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + READY_WITHIN
            while not _is_ready(port):
                assert process.poll() is None, "the server has ended"
                assert time.monotonic() < until, "the server did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False
