"""The pipeline files of a workspace, found within limits, and the check of one of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from rrext.editor.analysis import Analysis, AnalysisSettings, analyse, unread
from rrext.faces.lsp.limits import MAX_SCANNED_ENTRIES, MAX_WORKSPACE_FILE, MAX_WORKSPACE_FILES
from rrext.pipefile.text.problems import Problem

SUFFIX: Final = ".pipe"
_LEFT_OUT: Final = frozenset({"node_modules", "site-packages", "__pycache__", "venv", "build", "dist", "target"})
"""Names of folders whose files are not the author's; so are hidden ones."""


def pipelines_in(folders: Iterable[str], stop: Callable[[], bool]) -> list[str]:
    """The paths of pipeline files, those of outer folders first. Symbolic links to folders are not followed."""
    found: list[str] = []
    waiting = deque(dict.fromkeys(map(os.path.abspath, folders)))
    entries = 0
    while waiting and len(found) < MAX_WORKSPACE_FILES and entries < MAX_SCANNED_ENTRIES and not stop():
        try:
            with os.scandir(waiting.popleft()) as listed:
                for entry in listed:
                    entries += 1
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _LEFT_OUT:
                            waiting.append(entry.path)
                    elif entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                        found.append(entry.path)
                    if entries >= MAX_SCANNED_ENTRIES:
                        break
        except OSError:
            continue
    return sorted(found[:MAX_WORKSPACE_FILES])


def checked_file(path: str, settings: AnalysisSettings) -> tuple[str, Analysis] | None:
    """The text of a file and its analysis; None for a file that cannot be read, or that is too large to be read unasked."""
    try:
        if not os.path.isfile(path):  # a named pipe would keep the thread for ever
            return None
        with open(path, "rb") as file:
            data = file.read(MAX_WORKSPACE_FILE + 1)
    except OSError:
        return None
    if len(data) > MAX_WORKSPACE_FILE:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "", unread(Problem("not_utf8", "error", "This file is not UTF-8."), settings)
    return text, analyse(text, settings)
