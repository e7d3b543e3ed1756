"""The start of a child process of a node: it finds the modules of this one, and none of the server's secrets."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import BinaryIO, Final

LEFT_TO_SERVER: Final = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals that reach a whole group of processes. The server decides what they mean, and this process ends after it."""

_HOME: Final = str(Path(__file__).parents[3])
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
"""Names of the environment that the process gets: what loading libraries needs, and none of the server's secrets."""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of rrext in a Python of its own. The folder that it starts in hides no modules."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of such a process. It finds the modules that this one has: rrext may come from a checkout."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([_HOME, *filter(None, sys.path)]))
    return kept


def leave_signals_to_server() -> None:
    """In such a process: do nothing about signals that the server hears too."""
    for name in LEFT_TO_SERVER:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def private_streams() -> tuple[BinaryIO, BinaryIO]:
    """The standard streams, where nothing else finds them: what the engine prints goes to the standard error."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b") as nothing:
        for number in (0, 1):
            os.dup2(nothing.fileno(), number)
    with contextlib.suppress(OSError):  # a server may have no standard error
        os.dup2(2, 1)
    return requests, answers
