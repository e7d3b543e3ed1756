"""Which files an upload consists of."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

import msgspec

__all__ = ["Source", "find_files"]


class Source(msgspec.Struct, frozen=True):
    """A file to send. `size` is what it was when it was found; `problem` says why it cannot be sent."""

    path: str
    name: str
    size: int = 0
    problem: str | None = None


def find_files(paths: Iterable[str]) -> list[Source]:
    """The files that `paths` mean: files as they are, folders with all that is below them, in order of their names.

    A file's name is its last part, or begins with the folder's; where that would be one name for two files, the later
    one has its path for a name, as an object's identity is its name. Links to folders inside of folders are not
    followed. What cannot be sent is listed with its problem, not left out. Blocks: it reads folders.
    """
    found: list[Source] = []
    names: set[str] = set()
    for path in paths:
        for source in _inside(path) if os.path.isdir(path) else [_look(path, os.path.basename(path))]:
            if source.name in names:
                source = Source(source.path, source.path, source.size, source.problem)
            names.add(source.name)
            found.append(source)
    return found


def _inside(folder: str) -> Iterator[Source]:
    base = os.path.dirname(os.path.abspath(folder))
    unreadable: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=unreadable.append):
        folders.sort()
        for file in sorted(files):
            path = os.path.join(parent, file)
            yield _look(path, os.path.relpath(path, base), regular=True)
    for error in unreadable:
        yield Source(str(error.filename), str(error.filename), problem=error.strerror or str(error))


def _look(path: str, name: str, *, regular: bool = False) -> Source:
    try:
        info = os.stat(path)
    except OSError as error:
        return Source(path, name, problem=error.strerror or str(error))
    if regular and not stat.S_ISREG(info.st_mode):
        return Source(path, name, problem="is no regular file")  # reading a named pipe would wait for ever
    return Source(path, name, info.st_size)
