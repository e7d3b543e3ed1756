"""The start and the end of a node's child process, seen from the server.

A child imports the same modules as the server, and gets none of its secrets: they are neither in its environment nor in its
arguments, which every user of the machine can read.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rrext.errors import Unavailable

_HOME: Final = str(Path(__file__).parents[3])
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
"""Environment variables that a child process gets: language, time zone, what loads libraries; no secret."""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of rrext in a new Python. No file of its working directory hides a module."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of a child process, with this process's module path: rrext may run from a checkout."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([_HOME, *filter(None, sys.path)]))
    return kept


def launch(
    command: Sequence[str],
    what: str,
    variables: Mapping[str, str],
    inherits: Sequence[int],
    *,
    streams: int = subprocess.PIPE,
    new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a child process with the environment `variables`, which inherits descriptors with the same numbers.

    All three standard streams are `streams`. Raises `Unavailable`, in which `what` names the process.
    """
    try:
        return subprocess.Popen(
            command,
            stdin=streams,
            stdout=streams,
            stderr=streams,
            bufsize=0,
            cwd="/",
            env=variables,
            pass_fds=inherits,
            start_new_session=new_session,
        )
    except OSError as error:
        raise Unavailable(f"The process of {what} cannot be started: {error.strerror}") from error


def reap(child: subprocess.Popen[bytes], patience: float) -> str:
    """Wait for the end of a child process, kill it after `patience` seconds, and return how it ended."""
    try:
        code = child.wait(patience)
    except subprocess.TimeoutExpired:
        child.kill()
        code = child.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
