"""Terminals for editors, each in a folder and a home of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminals import Terminal

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with `rrext` on its path and nothing else: no settings, no plugins."""
    programs = tmp_path / "bin"
    programs.mkdir()
    starter = programs / "rrext"
    python = f"PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m rrext"
    starter.write_text(f'#!/bin/sh\n{python} "$@"\n', encoding="utf-8")
    starter.chmod(0o755)
    return tmp_path


@pytest.fixture
def terminal(home: Path) -> Iterator[Terminal]:
    """A terminal in the folder of a project."""
    if shutil.which("tmux") is None:
        pytest.skip("install tmux")
    project = home / "project"
    shutil.copytree(ROOT / "tests" / "examples" / "library", project / "library")
    path = f"{home / 'bin'}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
    terminal = Terminal(project, {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
    yield terminal
    terminal.close()
