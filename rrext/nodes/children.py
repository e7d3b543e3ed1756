"""How a process that a node starts to do its work comes to find the same modules, and none of the server's secrets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["environment", "module_command"]

_HOME: Final = str(Path(__file__).parents[2])
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
