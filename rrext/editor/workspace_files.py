"""The files that settings of a document may name: links to them, and completion of their names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from rrext.editor.analysis import Analysis
from rrext.pipefile.text.problems import Span, below
from rrext.pipefile.text.tree import Located

MAX_LISTED_FILES: Final = 2000
"""Entries of a folder that are read for offers; with more, typing on helps nobody."""


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


def links_of(analysis: Analysis, files: WorkspaceFiles) -> Iterator[tuple[Span, str]]:
    """The text of each path that names an existing file, without its quotes, and the file."""
    for located in _paths(analysis):
        name = located.value
        if located.kind == "string" and isinstance(name, str) and name and "${" not in name:
            path = files.file(name)
            if path is not None:
                yield (located.start + 1, located.end - 1), path


def _paths(analysis: Analysis) -> Iterator[Located]:
    """The values of all settings that are paths; of an object, its members."""
    for draft in analysis.drafts:
        if draft.node is None or not draft.node.paths:
            continue
        config = below(draft.path, "config")
        for section in (config, *(below(config, profile) for profile in draft.node.profiles)):
            for setting in draft.node.paths:
                located = analysis.map.find(below(section, setting))
                if located is not None:
                    inner = [part for child in located.children for part in child.children if part.key == "path"]
                    yield from (located, *located.children, *inner)
