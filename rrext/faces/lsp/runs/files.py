"""The files that paths in commands and call lines name."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Sequence
from itertools import islice

from rrext.errors import InvalidArguments

__all__ = ["MOST_COUNTED", "FileCounter", "matching"]

MOST_COUNTED = 1000
"""The number of files up to which a title counts."""


def matching(paths: Sequence[str], folder: str | None) -> list[str]:
    """Absolute paths; relative ones start at a folder, and those with `*`, `?` or `[` are patterns.

    `**` means the same as `*`. Blocks. Raises `InvalidArguments` for a pattern without a match.
    """
    found: list[str] = []
    for index, path in enumerate(paths):
        absolute = _absolute(path, folder)
        if not _is_pattern(path, absolute):
            found.append(absolute)
            continue
        names = sorted(glob.iglob(_absolute(path, glob.escape(folder or os.getcwd()))))
        if not names:
            raise InvalidArguments.at(f"/path/{index}" if len(paths) > 1 else "/path", f'no file matches "{path}"')
        found += names
    return found


class FileCounter:
    """The number of files that paths name, for titles; safe for a text from a stranger.

    Only names directly in folders below the document's own are read: other paths may lead to whole disks or other computers.
    Each folder is read once, and only up to the counted number. Blocks.
    """

    __slots__ = ("_folder", "_names")

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._names: dict[str, dict[str, bool]] = {}

    def count(self, paths: Sequence[str]) -> int | None:
        """The number of files, more than `MOST_COUNTED` if there are more; None if a count would need a deep search."""
        if self._folder is None or not all(map(_is_below, paths)):
            return None
        number = 0
        for path in paths:
            absolute, (parent, name) = _absolute(path, self._folder), os.path.split(path)
            if not _is_pattern(path, absolute):
                if os.path.isdir(absolute):
                    return None
                number += os.path.exists(absolute)
            elif glob.has_magic(parent) or name.startswith("."):
                return None
            else:
                names = self._names_in(os.path.join(self._folder, parent))
                found = fnmatch.filter(names, name)
                if any(names[name] for name in found):
                    return None
                number += len(found)
        return number

    def _names_in(self, folder: str) -> dict[str, bool]:
        """The first names in a folder without hidden ones, and whether each is a folder."""
        if folder not in self._names:
            try:
                with os.scandir(folder) as entries:
                    listed = (entry for entry in entries if not entry.name.startswith("."))
                    self._names[folder] = {entry.name: entry.is_dir() for entry in islice(listed, MOST_COUNTED + 1)}
            except OSError:
                self._names[folder] = {}
        return self._names[folder]

    def __repr__(self) -> str:
        return f"<Passing below {self._folder}, {len(self._names)} folders>"


def _is_below(path: str) -> bool:
    """Whether a path stays in its base folder, apart from links."""
    normal = os.path.normpath(path)
    return not (os.path.isabs(path) or os.path.splitdrive(path)[0] or path.startswith("~") or normal.split(os.sep)[0] == "..")


def _absolute(path: str, folder: str | None) -> str:
    return os.path.join(folder or os.getcwd(), os.path.expanduser(path))


def _is_pattern(path: str, absolute: str) -> bool:
    return glob.has_magic(path) and not os.path.lexists(absolute)
