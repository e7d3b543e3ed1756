"""Files that become tables, or hold some: those of a setting, and whether they have changed."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.sql.duckdb.endings import CONTAINERS

LOOK_SHARE: Final = 20
"""A look at the files is followed by at least so many times its own duration without another."""
QUICK_LOOK: Final = 0.002
"""Seconds: a check of the files that takes no longer is repeated at once."""

PACKED_TIMES: Final = 8
"""Bytes of rows for each byte of a compressed file, about."""

_READERS: Final = {
    ".csv": "read_csv", ".tsv": "read_csv", ".txt": "read_csv",
    ".parquet": "read_parquet",
    ".json": "read_json", ".jsonl": "read_json", ".ndjson": "read_json",
    **dict.fromkeys(CONTAINERS, ""),
}  # fmt: skip
_PACKED: Final = (".gz", ".zst")


class Source(msgspec.Struct, frozen=True):
    """The files of one table. `state` changes whenever one of them does: names, sizes, times of writing."""

    files: tuple[str, ...]
    state: tuple[tuple[int, int, int], ...]


class FileTables:
    """The tables that settings make of files. `locate` makes a path absolute, and refuses a path that leads out of the
    root."""

    def __init__(self, settings: Mapping[str, str], locate: Callable[[str], str]) -> None:
        self._settings = settings
        self._locate = locate
        self._due = 0.0
        self._found: dict[str, Source] = {}

    def __bool__(self) -> bool:
        return bool(self._settings)

    def current(self) -> Mapping[str, Source]:
        """Each table and its files as they are now; as they were a moment ago if it takes long to find out.

        Raises `Unavailable` for a file that is not there, and for one that cannot become a table.
        """
        began = monotonic()
        if began >= self._due:
            self._found = {table: self._source(table, setting) for table, setting in self._settings.items()}
            now = monotonic()
            self._due = now + LOOK_SHARE * (now - began) if now - began > QUICK_LOOK else 0.0
        return self._found

    def _source(self, table: str, setting: str) -> Source:
        names = self._names(setting)
        if not names:
            if glob.has_magic(setting):
                raise _not_made(table, setting, "no file has such a name")
            _reader(table, setting)
            raise _not_made(table, setting, "there is no such file")
        kinds = {_reader(table, name) for name in names}
        if len(kinds) > 1:
            raise _not_made(table, setting, "its files are of several kinds")
        if len(names) > 1 and not all(kinds):
            raise _not_made(table, setting, "a workbook or a database is one file")
        files = tuple(os.path.realpath(self._locate(name)) for name in names)
        journals = [f"{file}-wal" for file in files if os.path.exists(f"{file}-wal")]  # where SQLite writes first
        try:
            found = [os.stat(file) for file in (*files, *journals)]
        except OSError as error:
            raise _not_made(table, setting, error.strerror or "it cannot be read") from None
        return Source(files, tuple((info.st_size, info.st_mtime_ns, info.st_ino) for info in found))

    def _names(self, setting: str) -> list[str]:
        """The file of exactly this name, or else all files that match the pattern."""
        path = self._locate(setting)
        if os.path.isfile(path):
            return [path]
        if not glob.has_magic(setting):
            return []
        return sorted(name for name in glob.iglob(path, recursive=True) if os.path.isfile(name))


def is_table(name: str) -> bool:
    """Whether a file of this name becomes a table."""
    return _extension(name) in _READERS


def weight(files: Sequence[str]) -> int:
    """The bytes that files have on the disk, or about those of their rows if they are compressed. A file that is gone has none:
    its reader will say so."""
    size = 0
    for file in files:
        with suppress(OSError):
            size += os.path.getsize(file) * (PACKED_TIMES if file.lower().endswith((".parquet", *_PACKED)) else 1)
    return size


def literal(text: str) -> str:
    """A text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def reading(files: Sequence[str], *, allowed: bool = False) -> str:
    """The statement that reads files of one kind. File names with pattern characters are read literally, as DuckDB does itself
    where it may read files of `allowed_paths` alone.
    """
    texts = ", ".join(literal(file if allowed else glob.escape(file)) for file in files)
    reader = _READERS[_extension(files[0])]
    return f"FROM {reader}([{texts}]{', union_by_name = true' if len(files) > 1 else ''})"


def _extension(name: str) -> str:
    stem, extension = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] if extension in _PACKED else extension


def _reader(table: str, name: str) -> str:
    reader = _READERS.get(_extension(name))
    if reader is None:
        known = ", ".join(_READERS)
        raise Unavailable(
            f'The table "{table}": "{os.path.basename(name)}" cannot be loaded: its name ends with none of {known}',
            hint='".gz" or ".zst" may follow.',
        )
    return reader


def _not_made(table: str, setting: str, why: str) -> Unavailable:
    return Unavailable(f'The table "{table}" cannot be made from "{setting}": {why}')
