"""The files that settings of a document may name, for links and completion."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice

from rrext.editor.limits import MAX_LISTED_FILES


class WorkspaceFiles:
    """The files below the folders `tops` of a workspace; relative paths begin at `base`. Nothing outside is listed."""

    def __init__(self, base: str, tops: Sequence[str]) -> None:
        self._base = base
        self._tops = [os.path.realpath(top) for top in tops]

    def file(self, name: str) -> str | None:
        """The absolute path of a file that exists; None for any other name."""
        path = self._inside(name)
        return path if path is not None and os.path.isfile(path) else None

    def listed(self, folder: str) -> list[tuple[str, bool]]:
        """The names in a folder that are not hidden, each with whether it is a folder; of too many the first ones."""
        path = self._inside(folder)
        if path is None:
            return []
        try:
            with os.scandir(path) as entries:
                found = [(entry.name, entry.is_dir()) for entry in islice(entries, MAX_LISTED_FILES)]
        except OSError:
            return []
        return sorted((name, is_folder) for name, is_folder in found if not name.startswith("."))

    def _inside(self, name: str) -> str | None:
        """The path that a name means, if it leads into the workspace, also through symbolic links."""
        if "\0" in name:
            return None
        path = os.path.normpath(os.path.join(self._base, name))
        real = os.path.realpath(path)
        return path if any(os.path.commonpath([top, real]) == top for top in self._tops) else None
