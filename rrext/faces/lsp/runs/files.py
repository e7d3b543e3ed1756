"""The files that paths in commands and call lines name."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from rrext.errors import InvalidArguments


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


def _absolute(path: str, folder: str | None) -> str:
    return os.path.join(folder or os.getcwd(), os.path.expanduser(path))


def _is_pattern(path: str, absolute: str) -> bool:
    return glob.has_magic(path) and not os.path.lexists(absolute)
