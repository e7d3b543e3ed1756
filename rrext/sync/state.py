"""The state of a sync: which files were sent to which stores, in a file that survives a kill at any moment."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final

import msgspec

from rrext.errors import ClientError

APPLICATION: Final = 0x7272_7378
"""The application id in the file's header."""

VERSION: Final = 1
JOURNALS: Final = ("-wal", "-journal", "-shm")
"""What SQLite adds to the name of the file, for files of its own beside it."""

ASIDE: Final = ".damaged"
"""What a damaged state is named by."""

DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
TABLE: Final = """
CREATE TABLE IF NOT EXISTS file (
    target TEXT NOT NULL, path BLOB NOT NULL, object TEXT NOT NULL,
    stamp TEXT, digest TEXT, signature TEXT, chunks TEXT,
    PRIMARY KEY (target, path)
) WITHOUT ROWID
"""
COLUMNS: Final = "object, stamp, digest, signature, chunks"
BELOW: Final = "target = ? AND (path = ? OR path >= ? AND path < ?)"


class SyncStateError(ClientError, code="sync_state"):
    """The state is unusable, or another process uses it."""


class SentFile(msgspec.Struct, frozen=True):
    """A sent file. `signature` is None from before the first byte is sent until the stores have all of it.

    `stamp` holds the file's size and times, None if a later change could leave them equal; `digest` is of its content. `chunks`
    is the number in each store, by node id.
    """

    object_id: str
    stamp: str | None = None
    digest: str | None = None
    signature: str | None = None
    chunks: Mapping[str, int] = {}


class SyncState:
    """The files sent to a target, by their real paths. Thread-safe; used by one process at a time.

    Each change is on its way to the disk when its method returns. A target identifies the stores: files sent to other stores
    count neither as sent nor as removed.
    """

    def __init__(self, path: str, target: str, warn: Callable[[str], object] = warnings.warn) -> None:
        """Open or create the file. `warn` is told of a damaged one. Raises `SyncStateError`."""
        self._target = target
        self._lock = Lock()
        self.path = path
        try:
            self._rows = _opened(path)
        except OSError as error:
            raise SyncStateError(f"{path}: {error.strerror}", hint="--sync keeps there what it has sent.") from None
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in DAMAGED:
                raise self._failure(error) from None
            self._rows = _anew(path, warn)

    def files(self) -> set[str]:
        """The real paths of the files in which the state is kept."""
        own = os.path.realpath(self.path)
        return {own + end for end in ("", ASIDE, *JOURNALS)}

    def find(self, path: bytes) -> SentFile | None:
        """The state of a file."""
        found = self._run(f"SELECT {COLUMNS} FROM file WHERE target = ? AND path = ?", [(self._target, path)])
        if not found:
            return None
        *known, chunks = found[0]
        return SentFile(*known, chunks=msgspec.json.decode(chunks, type=dict[str, int]))

    def keep(self, path: bytes, sent: SentFile) -> None:
        """Store the state of a file."""
        chunks = msgspec.json.encode(sent.chunks).decode()
        row = (self._target, path, sent.object_id, sent.stamp, sent.digest, sent.signature, chunks)
        self._run("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, ?)", [row])

    def below(self, root: bytes) -> dict[bytes, str]:
        """The files at a path and below it, with their object ids."""
        folder = root.rstrip(b"/") + b"/"
        names = (self._target, root, folder, folder[:-1] + b"0")  # the character behind the slash
        return dict(self._run(f"SELECT path, object FROM file WHERE {BELOW}", [names]))

    def unlisted(self, root: bytes, listed: Container[bytes]) -> Iterator[tuple[bytes, SentFile]]:
        """The files below a path that were sent whole and are not among the listed ones."""
        folder = root.rstrip(b"/") + b"/"
        names = (self._target, root, folder, folder[:-1] + b"0")
        for path, *known, chunks in self._run(
            f"SELECT path, {COLUMNS} FROM file WHERE {BELOW} AND signature NOT NULL", [names]
        ):
            if path not in listed:
                yield path, SentFile(*known, chunks=msgspec.json.decode(chunks, type=dict[str, int]))

    def forget(self, paths: Iterable[bytes]) -> None:
        """Remove files that were deleted from the stores."""
        self._run("DELETE FROM file WHERE target = ? AND path = ?", [(self._target, path) for path in paths])

    def close(self) -> None:
        """Release the file for other processes."""
        with self._lock:
            self._rows.close()

    def _run(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The rows of a statement, run once for each tuple of values in one transaction. Raises `SyncStateError`."""
        found: list[Any] = []
        try:
            with self._lock:
                self._rows.execute("BEGIN")
                with self._rows:
                    for row in rows:
                        found += self._rows.execute(statement, row).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._failure(error) from None
        return found

    def _failure(self, error: sqlite3.DatabaseError) -> SyncStateError:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            return SyncStateError(f"{self.path}: another --sync of this pipeline is running")
        return SyncStateError(f"{self.path}: {error}", hint="--sync keeps there what it has sent.")


def _opened(path: str) -> sqlite3.Connection:
    """The database, locked. Raises `OSError`, `SyncStateError` and `sqlite3.DatabaseError`."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)  # it lists all sent files
    finally:
        os.close(fd)
    rows = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        rows.execute("PRAGMA locking_mode = EXCLUSIVE")
        rows.execute("BEGIN EXCLUSIVE")
        _check(path, rows)
        rows.execute(TABLE)
        rows.execute(f"PRAGMA application_id = {APPLICATION}")
        rows.execute(f"PRAGMA user_version = {VERSION}")
        rows.execute("COMMIT")
        rows.execute("PRAGMA journal_mode = WAL")
        rows.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        rows.close()
        raise
    return rows


def _check(path: str, rows: sqlite3.Connection) -> None:
    asked = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master", "PRAGMA quick_check")
    application, version, tables, damage = (rows.execute(question).fetchone()[0] for question in asked)
    if damage != "ok":
        error = sqlite3.DatabaseError(damage)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    if tables and application != APPLICATION:
        raise SyncStateError(f"{path}: is a database of something else", hint="Move it away: --sync keeps its state there.")
    if version > VERSION:
        raise SyncStateError(f"{path}: was written by a newer rrext", hint="Use that one.")


def _anew(path: str, warn: Callable[[str], object]) -> sqlite3.Connection:
    """An empty state, after setting a damaged one aside."""
    aside = path + ASIDE
    os.replace(path, aside)
    for journal in JOURNALS:
        with suppress(FileNotFoundError):
            os.unlink(path + journal)
    warn(
        f"{path}: is damaged, and kept as {aside}: every file is sent again. What was deleted from the folders "
        "since the last sync stays in the stores"
    )
    return _opened(path)
