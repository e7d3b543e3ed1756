"""The start of a node's child process: it can import the same modules as this process and gets none of the server's secrets."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO, Final

LEFT_TO_SERVER: Final = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals for a whole process group. The server decides their meaning, and the child process ends after the server."""

_HOME: Final = str(Path(__file__).parents[3])
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
"""Environment variables that the child process gets: those for loading libraries, none with the server's secrets."""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of rrext in a new Python. No file of its working directory hides a module."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of a child process, with this process's module path: rrext may run from a checkout."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([_HOME, *filter(None, sys.path)]))
    return kept


def leave_signals_to_server() -> None:
    """Ignore, in a child process, the signals that the server handles too."""
    for name in LEFT_TO_SERVER:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Move the standard streams to new descriptors: output that the engine prints goes to the standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b") as nothing:
        for number in (0, 1):
            os.dup2(nothing.fileno(), number)
    with contextlib.suppress(OSError):  # a server may have no standard error
        os.dup2(2, 1)
    return requests, answers
