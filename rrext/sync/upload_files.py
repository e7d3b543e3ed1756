"""Which files an upload consists of, which object each of them is, its MIME type, and how it is opened.

The rules of gitignore say which files of a folder an upload leaves out. A rule is asked about each file and folder on the way
down, and answers for that path alone, as git does: `build/**` with `!build/keep.txt` keeps that file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from rrext.errors import ClientError, RrextError, UsageError
from rrext.files.naming import shown, url_of
from rrext.limits import CLIENT_DEFAULTS
from rrext.sync.items import ItemContent, RunInThread

if TYPE_CHECKING:
    from rrext.sync.state import SentFile

SETTLED_NANOSECONDS: Final = 2_000_000_000
"""Nanoseconds after which a change must show in a file's times, also on file systems with two-second steps."""

NO_FILE: Final = "is no regular file"
NOTHING_TO_READ: Final = ("document_unsupported", "document_empty", "not_taken")
"""Codes of failures that mean: such files are not read here, or have no text."""


class Unreadable(ClientError, code="unreadable"):
    """A file cannot be read."""


class FileContent(ItemContent, frozen=True, kw_only=True):
    """The content of a file. Its stamp holds size and times: programs may set the time of modification, but not that of the
    change.
    """

    of: UploadFile

    def lasting_stamp(self) -> str | None:
        """The stamp, if every later change must alter it; a change in the same step of the clock would not."""
        assert self.stamp is not None
        changed = max(map(int, self.stamp.split()[1:3]))
        return self.stamp if changed < time.time_ns() - SETTLED_NANOSECONDS else None

    def is_current(self) -> bool:
        """Whether size and times are the same. Raises `OSError`."""
        fd = self.of.open()
        try:
            return _stamp(os.fstat(fd)) == self.stamp
        finally:
            os.close(fd)


def _stamp(info: os.stat_result) -> str:
    return f"{info.st_size} {info.st_mtime_ns} {info.st_ctime_ns} {info.st_ino}"


class UploadFile(msgspec.Struct, frozen=True):
    """A file to send. `problem` says why it cannot be sent, `skipped` why it does not have to be.

    `path` begins as the caller's did, `real` is the file's real path: absolute, without links. `folder` is the real path
    of the folder that it was found in; None for a path that was given itself. `size` and `modified` (seconds since 1970) are
    what they were when it was found. `identity` tells the file from all others: its real path, or the name of its root and
    the path below that. `source` is the name of what it belongs to: of its root, or of the folder.
    """

    path: str
    name: str
    size: int = 0
    problem: str | None = None
    skipped: str | None = None
    real: str = ""
    folder: str | None = None
    identity: str = ""
    modified: float | None = None
    source: str = ""

    @property
    def about(self) -> dict[str, Any]:
        """The description of the object in `open`. The path of a file below a named root begins with that name."""
        path = self.path if self.identity in ("", self.real) else self.identity
        about: dict[str, Any] = {"name": shown(self.name), "path": shown(path), "size": self.size}
        if self.identity:
            about["url"] = url_of(self.identity)
        metadata = {"source": shown(self.source) or None, "modified": self.modified}
        if given := {key: value for key, value in metadata.items() if value is not None}:
            about["metadata"] = given
        return about

    def skips(self, error: RrextError) -> bool:
        """Whether a failure only says that this file has nothing that is read here, in a folder of files."""
        return self.folder is not None and error.code in NOTHING_TO_READ

    async def content(self, sent: SentFile | None, in_thread: RunInThread, *, is_stored: bool) -> FileContent:
        """Its content now, read for the digest unless size and times are those of `sent`. Raises `OSError`."""
        return await in_thread(lambda: self._content(sent))

    def _content(self, sent: SentFile | None) -> FileContent:
        with self.reading() as file:
            stamp = _stamp(os.fstat(file.fileno()))
            digest = sent.digest if sent is not None and sent.stamp == stamp else None
            if digest is None:
                hashed = hashlib.sha256()
                while piece := file.read(CLIENT_DEFAULTS.write_chunk):
                    hashed.update(piece)
                digest = hashed.hexdigest()
        return FileContent(digest, self.reading, stamp, of=self)

    def reading(self) -> IO[bytes]:
        """The open file, without a buffer. Raises `OSError`."""
        return open(self.open(), "rb", buffering=0)

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
        return [msgspec.structs.replace(source, identity=source.real, source=_folder_name(source)) for source in found]
    root = os.path.realpath(paths[0] if os.path.isdir(paths[0]) else os.path.dirname(paths[0]) or ".")
    return [_below(source, root, root_name) for source in found]


def check_root_name(name: str) -> None:
    """Raise `UsageError` for what is no name of a root."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise UsageError(f"the name of a root is a word without slashes, not {name!r}")


def _check_root(name: str, paths: Sequence[str]) -> None:
    check_root_name(name)
    if len(paths) != 1:
        raise UsageError(f"a name of a root is that of one path, and {len(paths)} are given")


def _below(source: UploadFile, root: str, name: str) -> UploadFile:
    if not source.real:
        return source
    below = os.path.relpath(source.real, root) if source.folder is not None else os.path.basename(source.real)
    return msgspec.structs.replace(source, identity=os.path.normpath(os.path.join(name, below)), source=name)


def _folder_name(source: UploadFile) -> str:
    """The name of the folder that was given, or of the one in which a given file is."""
    return os.path.basename(source.folder or os.path.dirname(source.real))


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
    yield UploadFile(path, name, info.st_size, real=real, modified=info.st_mtime if real else None)


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
    return UploadFile(entry.path, name, info.st_size, real=real, folder=root, modified=info.st_mtime)


IGNORE_FILE: Final = ".rrextignore"
BLANK: Final = re.compile(r"((?:\\.|[^\\])*?) *", re.DOTALL)
"""A line, whose last spaces count only behind a backslash."""

PIECE: Final = re.compile(
    r"(?P<folders>(?:^|(?<=/))\*{2,}/)|(?P<all>(?:^|(?<=/))\*{2,}$)|(?P<some>\*+)|(?P<one>\?)"
    r"|\[(?P<but>[!^]?)(?P<of>(?:]|\[:[a-z]+:]|\\.|[^]\\])(?:\[:[a-z]+:]|\\.|[^]\\])*)]|\\(?P<quoted>.)|(?P<plain>[^\\[])",
    re.DOTALL,
)
"""A piece of a pattern. `**` is any number of folders only between slashes."""

OF_SET: Final = re.compile(r"\[:([a-z]+):]|\\(.)|(?<=.)(-)(?=.)|(.)", re.DOTALL)
"""A piece of what stands in brackets: a named class, a character, or the dash of a range."""

CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\0-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class Rule(msgspec.Struct, frozen=True):
    """One rule: what fits is left out, or else not left out after all."""

    is_out: bool
    only_folders: bool
    path: re.Pattern[str]


class IgnoreRules(msgspec.Struct, frozen=True):
    """The rules for what is left out of an upload: the caller's, and those of folders, deepest first.

    Of the rules that fit a path the last one counts, the caller's before those of folders, a folder's before those of the
    folders above. What is in a folder that is left out is left out too.
    """

    always: Sequence[Rule]
    folders: tuple[tuple[str, Sequence[Rule]], ...] = ()

    def inside(self, folder: str, below: str) -> IgnoreRules:
        """These rules with those of a folder's own file; `below` is its path below the one that is sent.

        Raises `UsageError`.
        """
        path = os.path.join(folder, IGNORE_FILE)
        try:
            # What is no regular file must not make the upload wait.
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                text = os.fsdecode(file.read()).removeprefix("\ufeff")
        except (FileNotFoundError, IsADirectoryError):
            return self
        except OSError as error:
            raise UsageError(f"{IGNORE_FILE}: {error.strerror or error}") from None
        return IgnoreRules(self.always, ((below, rules_of(text.split("\n"), IGNORE_FILE)), *self.folders))

    def has(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a path below the folder that is sent is left out."""
        if os.path.basename(path) == IGNORE_FILE and not is_folder:
            return True
        for folder, rules in (("", self.always), *self.folders):
            below = path[len(folder) + 1 :] if folder else path
            for rule in reversed(rules):
                if (is_folder or not rule.only_folders) and rule.path.fullmatch(below):
                    return rule.is_out
        return False


def rules_of(lines: Sequence[str], origin: str) -> list[Rule]:
    """The rules of some lines. Raises `UsageError` that names their origin."""
    rules: list[Rule] = []
    for line in lines:
        line = line.removesuffix("\r")
        if not line.strip(" ") or line.startswith("#"):
            continue
        try:
            rules.append(_rule(line))
        except (LookupError, ValueError, re.error):
            raise UsageError(f"{origin}: {line!r} is no rule of gitignore") from None
    return rules


def _rule(line: str) -> Rule:
    """The rule of a line. Raises `LookupError`, `ValueError` and `re.error`."""
    found = BLANK.fullmatch(line)
    whole = found[1].removeprefix("!") if found else ""
    if not whole:
        raise ValueError
    pattern = whole.removesuffix("/")
    pieces = ["" if "/" in pattern else "(?:.*/)?"]  # a pattern without a slash means names in all folders
    pattern, place = pattern.removeprefix("/"), 0
    while place < len(pattern):
        piece = PIECE.match(pattern, place)
        if piece is None:
            raise ValueError
        pieces.append(_regex(piece))
        place = piece.end()
    return Rule(not line.startswith("!"), whole.endswith("/"), re.compile("".join(pieces), re.DOTALL))


def _regex(piece: re.Match[str]) -> str:
    kind = piece.lastgroup
    fixed = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}.get(kind or "")
    if fixed is not None:
        return fixed
    if kind == "of":
        return f"(?!/)[{'^' if piece['but'] else ''}{OF_SET.sub(_of_set, piece['of'])}]"
    return re.escape(piece["quoted"] or piece["plain"])


def _of_set(piece: re.Match[str]) -> str:
    name, quoted, dash, plain = piece.groups()
    return CLASSES[name] if name else dash or re.escape(quoted or plain)


LANES_IN_PIECES = ("tags", "text", "table", "image", "audio", "video")
"""Lanes that take an object in pieces of any size; on the others each write is one whole JSON value."""


def goes_whole(mime_type: str) -> bool:
    """Whether an object of this type may be one JSON value to its pipeline, which then takes it in one write alone."""
    kind, _, name = mime_type.partition(";")[0].strip().partition("/")
    if kind.lower() == "lane":
        return name not in LANES_IN_PIECES
    return kind.lower() == "application" and (name.lower() == "json" or name.lower().startswith("rocketride-question"))
