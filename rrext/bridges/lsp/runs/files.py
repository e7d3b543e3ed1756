"""Which files a path of a command or of a call line means."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from itertools import islice

from rrext.errors import InvalidArguments

__all__ = ["MOST_COUNTED", "counted", "matching"]

MOST_COUNTED = 1000
"""Files that a title counts; beyond, it says so."""


def matching(paths: Sequence[str], folder: str | None) -> list[str]:
    """Whole paths, which begin at a folder if they are relative; those with `*`, `?` or `[` are patterns of names.

    `**` means no more than `*`. Blocks. Raises `InvalidArguments` for a pattern that matches nothing.
    """
    found: list[str] = []
    for index, path in enumerate(paths):
        whole = _whole(path, folder)
        if not _is_pattern(whole):
            found.append(whole)
            continue
        names = sorted(glob.iglob(whole))
        if not names:
            raise InvalidArguments.at(f"/path/{index}" if len(paths) > 1 else "/path", f'no file matches "{path}"')
        found += names
    return found


def counted(paths: Sequence[str], folder: str | None) -> int | None:
    """How many files are meant; None where folders are among them, whose files are too many to count in passing. Blocks."""
    number = 0
    for path in paths:
        whole = _whole(path, folder)
        names: Iterable[str] = glob.iglob(whole) if _is_pattern(whole) else [whole]
        for name in islice(names, MOST_COUNTED + 1):
            if os.path.isdir(name):
                return None
            number += os.path.exists(name)
    return number


def _whole(path: str, folder: str | None) -> str:
    return os.path.join(folder or os.getcwd(), os.path.expanduser(path))


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.lexists(path)
