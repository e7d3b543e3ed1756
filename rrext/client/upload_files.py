"""Which files an upload consists of, which object each of them is, and how they are opened."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

NO_FILE: Final = "is no regular file"


class UploadFile(msgspec.Struct, frozen=True):
    """A file to send. `problem` says why it cannot be sent, `skipped` why it does not have to be.

    `path` begins as the caller's did, `real` is the file's real path: absolute, without links. `folder` is the real path
    of the folder that it was found in; None for a path that was given itself. `size` is what it was when it was found.
    """

    path: str
    name: str
    size: int = 0
    problem: str | None = None
    skipped: str | None = None
    real: str = ""
    folder: str | None = None

    @property
    def about(self) -> dict[str, Any]:
        """The description of the object in `open`."""
        about: dict[str, Any] = {"name": shown(self.name), "path": shown(self.path), "size": self.size}
        if self.real:
            about["url"] = url_of(self.real)
        return about

    def open(self) -> int:
        """A descriptor of the file. In a folder no link is followed, though one may have replaced a part of the path meanwhile.

        Raises `OSError`.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC
        if self.folder is None:
            return os.open(self.path, flags)
        *folders, name = os.path.relpath(self.real, self.folder).split(os.sep)
        parent = os.open(self.folder, flags | os.O_DIRECTORY)
        try:
            for folder in folders:
                inner = os.open(folder, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
                os.close(parent)
                parent = inner
            fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
        finally:
            os.close(parent)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, NO_FILE)
        return fd


def shown(path: str) -> str:
    """A path as text that JSON can hold: bytes of a name that are not UTF-8 become `\\xNN`."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def url_of(real: str) -> str:
    """The URL by which a server knows a file: made from its real path, which it does not tell."""
    import uuid
    from urllib.parse import quote

    return uuid.uuid5(uuid.NAMESPACE_URL, f"file://{quote(os.fsencode(real))}").urn


def find_files(paths: Iterable[str]) -> list[UploadFile]:
    """The files that `paths` mean: files as they are, folders with all that is below them, in order of their names.

    A file's name is its last part, or begins with the folder's. Links are followed where they are given themselves. In a
    folder they are not: a link that leads out of the folder is listed as skipped; the target of another one is sent anyway.
    A file that comes twice is sent once, and an unreadable one is listed with its problem. Blocks: it reads folders.
    """
    found: list[UploadFile] = []
    places: dict[str, str] = {}
    for path in paths:
        for source in _inside(path) if os.path.isdir(path) else [_given(path)]:
            first = places.get(source.real)
            if first is not None:
                source = UploadFile(source.path, source.name, skipped=f"is the same file as {shown(first)}, which is sent")
            elif source.real:
                places[source.real] = source.path
            found.append(source)
    return found


def _given(path: str) -> UploadFile:
    """A path that was given itself."""
    name = os.path.basename(path)
    try:
        info = os.stat(path)
    except OSError as error:
        return UploadFile(path, name, problem=error.strerror or str(error))
    # A named pipe or a device has no content of its own: its object is identified by its name.
    real = os.path.realpath(path) if stat.S_ISREG(info.st_mode) else ""
    return UploadFile(path, name, info.st_size, real=real)


def _inside(folder: str) -> Iterator[UploadFile]:
    """The files of a folder, then those of each folder in it."""
    root = os.path.realpath(folder)
    base = os.path.basename(os.path.abspath(folder))
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            with os.scandir(os.path.join(folder, below)) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            path = os.path.join(folder, below) if below else folder
            real = os.path.join(root, below) if below else root
            yield UploadFile(path, os.path.join(base, below), problem=error.strerror or str(error), real=real)
            continue
        folders: list[str] = []
        for entry in entries:
            inner = os.path.join(below, entry.name)
            source = _found(entry, os.path.join(base, inner), root, inner)
            if source is not None:
                yield source
            elif not entry.is_symlink():
                folders.append(inner)
        pending.extend(reversed(folders))


def _found(entry: os.DirEntry[str], name: str, root: str, inner: str) -> UploadFile | None:
    """An entry of a folder; None for a folder, and for a link to another entry below the root."""
    real = os.path.join(root, inner)
    try:
        if entry.is_symlink():
            os.stat(entry.path)
            target = os.path.realpath(entry.path)
            is_inside = target == root or target.startswith(os.path.join(root, ""))
            return None if is_inside else UploadFile(entry.path, name, skipped="is a link that leads out of the folder")
        if entry.is_dir():
            return None
        info = entry.stat(follow_symlinks=False)
    except OSError as error:
        return UploadFile(entry.path, name, problem=error.strerror or str(error), real=real)
    if not stat.S_ISREG(info.st_mode):
        return UploadFile(entry.path, name, problem=NO_FILE, real=real)  # reading a named pipe would wait for ever
    return UploadFile(entry.path, name, info.st_size, real=real, folder=root)
