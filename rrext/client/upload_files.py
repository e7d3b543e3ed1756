"""Which files an upload consists of, which object each of them is, and how they are opened."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from rrext.client.ignore_rules import IgnoreRules, rules_of
from rrext.errors import RrextError, UsageError

NO_FILE: Final = "is no regular file"
NOTHING_TO_READ: Final = ("document_unsupported", "document_empty", "not_taken")
"""Codes of failures that mean: such files are not read here, or have no text."""


class UploadFile(msgspec.Struct, frozen=True):
    """A file to send. `problem` says why it cannot be sent, `skipped` why it does not have to be.

    `path` begins as the caller's did, `real` is the file's real path: absolute, without links. `folder` is the real path
    of the folder that it was found in; None for a path that was given itself. `size` is what it was when it was found.
    `identity` tells the file from all others: its real path, or the name of its root and the path below that.
    """

    path: str
    name: str
    size: int = 0
    problem: str | None = None
    skipped: str | None = None
    real: str = ""
    folder: str | None = None
    identity: str = ""

    @property
    def about(self) -> dict[str, Any]:
        """The description of the object in `open`. The path of a file below a named root begins with that name."""
        path = self.path if self.identity in ("", self.real) else self.identity
        about: dict[str, Any] = {"name": shown(self.name), "path": shown(path), "size": self.size}
        if self.identity:
            about["url"] = url_of(self.identity)
        return about

    def skips(self, error: RrextError) -> bool:
        """Whether a failure only says that this file has nothing that is read here, in a folder of files."""
        return self.folder is not None and error.code in NOTHING_TO_READ

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


def url_of(identity: str) -> str:
    """The URL by which a server knows a file: made from its identity, which it does not tell."""
    import uuid
    from urllib.parse import quote

    scheme = "file://" if identity.startswith("/") else "root:"
    return uuid.uuid5(uuid.NAMESPACE_URL, scheme + quote(os.fsencode(identity))).urn


def find_files(paths: Iterable[str], *, exclude: Sequence[str] = (), root_name: str | None = None) -> list[UploadFile]:
    """The files that `paths` mean: files as they are, folders with all that is below them, in order of their names.

    A file's name is its last part, or begins with the folder's. Links are followed where they are given themselves. In a
    folder they are not: a link that leads out of the folder is listed as skipped; the target of another one is sent anyway.
    A file that comes twice is sent once, and an unreadable one is listed with its problem. Blocks: it reads folders.

    Files that fit a pattern of `exclude` are left out, and in folders those that `.rrextignore` files name; see `IgnoreRules`.
    `root_name` names the one folder that is given, or the folder of the one file: its files are the same objects wherever it
    stands. Raises `UsageError` for patterns and names that cannot be used.
    """
    paths = list(paths)
    ignored = IgnoreRules(rules_of(exclude, "exclude"))
    if root_name is not None:
        _check_root(root_name, paths)
    found: list[UploadFile] = []
    places: dict[str, str] = {}
    for path in paths:
        for source in _inside(path, ignored) if os.path.isdir(path) else _given(path, ignored):
            place = source.real or (source.path if source.problem is None else "")
            first = places.get(place)
            if first is not None:
                source = UploadFile(source.path, source.name, skipped=f"is the same file as {shown(first)}, which is sent")
            elif place:
                places[place] = source.path
            found.append(source)
    if root_name is None:
        return [msgspec.structs.replace(source, identity=source.real) for source in found]
    root = os.path.realpath(paths[0] if os.path.isdir(paths[0]) else os.path.dirname(paths[0]) or ".")
    return [_below(source, root, root_name) for source in found]


def _check_root(name: str, paths: Sequence[str]) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UsageError(f"the name of a root is a word without slashes, not {name!r}")
    if len(paths) != 1:
        raise UsageError(f"a name of a root is that of one path, and {len(paths)} are given")


def _below(source: UploadFile, root: str, name: str) -> UploadFile:
    if not source.real:
        return source
    below = os.path.relpath(source.real, root) if source.folder is not None else os.path.basename(source.real)
    return msgspec.structs.replace(source, identity=os.path.normpath(os.path.join(name, below)))


def _given(path: str, ignored: IgnoreRules) -> Iterator[UploadFile]:
    """A path that was given itself."""
    name = os.path.basename(path)
    if ignored.always and ignored.has(name):
        return
    try:
        info = os.stat(path)
    except OSError as error:
        yield UploadFile(path, name, problem=error.strerror or str(error))
        return
    # A named pipe or a device has no content of its own: its object is identified by its name.
    real = os.path.realpath(path) if stat.S_ISREG(info.st_mode) else ""
    yield UploadFile(path, name, info.st_size, real=real)


def _inside(folder: str, ignored: IgnoreRules) -> Iterator[UploadFile]:
    """The files of a folder, then those of each folder in it."""
    root = os.path.realpath(folder)
    base = os.path.basename(os.path.abspath(folder))
    pending = [("", ignored)]
    while pending:
        below, ignored = pending.pop()
        try:
            with os.scandir(os.path.join(folder, below)) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
            ignored = ignored.inside(os.path.join(folder, below), below)
        except (OSError, UsageError) as error:
            path = os.path.join(folder, below) if below else folder
            real = os.path.join(root, below) if below else root
            problem = error.message if isinstance(error, UsageError) else error.strerror or str(error)
            yield UploadFile(path, os.path.join(base, below), problem=problem, real=real)
            continue
        folders: list[tuple[str, IgnoreRules]] = []
        for entry in entries:
            inner = os.path.join(below, entry.name)
            if ignored.has(inner, is_folder=entry.is_dir(follow_symlinks=False)):
                continue
            source = _found(entry, os.path.join(base, inner), root, inner)
            if source is not None:
                yield source
            elif not entry.is_symlink():
                folders.append((inner, ignored))
        pending.extend(reversed(folders))


def _found(entry: os.DirEntry[str], name: str, root: str, inner: str) -> UploadFile | None:
    """An entry of a folder; None for a folder, and for a link to another entry below the root."""
    real = os.path.join(root, inner)
    if entry.is_symlink():
        try:
            target = os.path.realpath(entry.path, strict=True)
        except OSError as error:
            return UploadFile(entry.path, name, skipped=f"is a link that leads nowhere: {error.strerror}")
        is_inside = target == root or target.startswith(os.path.join(root, ""))
        return None if is_inside else UploadFile(entry.path, name, skipped="is a link that leads out of the folder")
    try:
        if entry.is_dir():
            return None
        info = entry.stat(follow_symlinks=False)
    except OSError as error:
        return UploadFile(entry.path, name, problem=error.strerror or str(error), real=real)
    if not stat.S_ISREG(info.st_mode):
        return UploadFile(entry.path, name, skipped=NO_FILE)  # reading a named pipe would wait for ever
    return UploadFile(entry.path, name, info.st_size, real=real, folder=root)
