"""`SpaceList`: the spaces of a catalog of documents, and their members."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from rrext.errors import ToolError

T = TypeVar("T")

FILE: Final = "spaces.sqlite"
MAX_NAME: Final = 200
"""Characters in the id of a space or a user: ids of sign-in services have some dozens."""
PATIENCE: Final = 5.0
"""Seconds to wait for another process that writes: it does so for milliseconds."""

SCHEMA: Final = """
PRAGMA journal_mode = WAL;
CREATE TABLE spaces (space TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE members (user TEXT NOT NULL, space TEXT NOT NULL, PRIMARY KEY (user, space)) WITHOUT ROWID;
"""
# Users come first in the key of members: the search for a member is the same whether the space exists or not. The `state` of a
# space is `open`, `leaving` while its content is removed, or `gone`: a call that began before may have left content of it.


class Space(NamedTuple):
    """A space with its members, sorted. One that `is_leaving` has none: its content is being removed."""

    space: str
    members: tuple[str, ...]
    is_leaving: bool


class SpaceList:
    """The spaces and members in `FOLDER/spaces.sqlite`: the only list of members. Its methods block, for microseconds when they
    read, and may be called from any thread.

    Nothing is kept in memory: each call sees what another process has changed. Without a file there are no spaces; the first
    change makes it. Ids are compared character by character. All methods raise `ToolError` (`store_failed`) for a file that
    cannot be used.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Opens nothing yet."""
        self._path = os.path.join(folder, FILE)
        self._lock = threading.Lock()
        self._rows: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of what is open

    def is_member(self, user: str | None, space: str) -> bool:
        """Whether a user is in a space. Nobody is in a space that does not exist."""
        return bool(self._read("SELECT 1 FROM members WHERE user = ? AND space = ?", (user, space)))

    def require(self, user: str | None, space: str) -> None:
        """Return if a user is in a space. Raises `ToolError` (`space_not_found`), also for a space that does not exist."""
        if not self.is_member(user, space):
            raise space_not_found()

    def spaces_of(self, user: str | None) -> tuple[str, ...]:
        """The spaces that a user is in, sorted; none for nobody."""
        found = self._read("SELECT space FROM members WHERE user = ? ORDER BY space", (user,))
        return tuple(space for (space,) in found)

    def spaces(self) -> list[Space]:
        """All spaces with their members, sorted, for the operator."""
        members: dict[str, list[str]] = {}
        asked = "SELECT spaces.space, state, user FROM spaces LEFT JOIN members USING (space) ORDER BY space, user"
        leaving: dict[str, bool] = {}
        for space, state, user in self._read(asked, ()):
            if state == "gone":
                continue
            leaving[space] = state == "leaving"
            members.setdefault(space, []).extend(() if user is None else (user,))
        return [Space(space, tuple(users), leaving[space]) for space, users in members.items()]

    def create(self, space: str) -> bool:
        """Add a space without members. False: there was one of this id, of which content may be left: the space lets users in
        after `open`. Raises `ToolError`: `space_exists`, `bad_id`.
        """

        def create(rows: sqlite3.Connection) -> bool:
            found = rows.execute("SELECT state FROM spaces WHERE space = ?", (space,)).fetchone()
            if found not in (None, ("gone",)):
                raise ToolError(
                    f'There is a space "{space}", or its content is still being removed',
                    code="space_exists",
                    hint="If its removal was cut off, delete it again first.",
                )
            state = "open" if found is None else "leaving"
            rows.execute("INSERT OR REPLACE INTO spaces VALUES (?, ?)", (space, state))
            return found is None

        return self._write(create, space)

    def open(self, space: str) -> None:
        """Let users into a space that was created anew, after the content of the one before is gone."""
        self._write(lambda rows: rows.execute("UPDATE spaces SET state = 'open' WHERE space = ?", (space,)), space)

    def add(self, space: str, users: Iterable[str]) -> list[str]:
        """Let users into a space; return those who were not in it. Raises `ToolError`: `space_not_found`, `bad_id`."""
        users = list(users)
        told = "INSERT OR IGNORE INTO members (user, space) VALUES (?, ?) RETURNING user"

        def add(rows: sqlite3.Connection) -> list[str]:
            if not rows.execute("SELECT 1 FROM spaces WHERE space = ? AND state = 'open'", (space,)).fetchone():
                raise space_not_found()
            return [user for user in users if rows.execute(told, (user, space)).fetchall()]

        return self._write(add, space, *users)

    def remove(self, space: str, users: Iterable[str]) -> list[str]:
        """Take users out of a space; return those who were in it. Raises `ToolError`: `space_not_found`, `bad_id`."""
        users = list(users)
        told = "DELETE FROM members WHERE user = ? AND space = ? RETURNING user"

        def remove(rows: sqlite3.Connection) -> list[str]:
            if not rows.execute("SELECT 1 FROM spaces WHERE space = ? AND state = 'open'", (space,)).fetchone():
                raise space_not_found()
            return [user for user in users if rows.execute(told, (user, space)).fetchall()]

        return self._write(remove, space, *users)

    def begin_delete(self, space: str) -> None:
        """Take all members out of a space, for good: nobody comes in any more, while its content is removed.

        Raises `ToolError`: `space_not_found`, `bad_id`.
        """

        def begin(rows: sqlite3.Connection) -> None:
            leave = "UPDATE spaces SET state = 'leaving' WHERE space = ? AND state <> 'gone' RETURNING 1"
            if not rows.execute(leave, (space,)).fetchall():
                raise space_not_found()
            rows.execute("DELETE FROM members WHERE space = ?", (space,))

        self._write(begin, space)

    def delete(self, space: str) -> None:
        """End a space, after its content is gone: its id may be that of another one then."""

        def delete(rows: sqlite3.Connection) -> None:
            rows.execute("DELETE FROM members WHERE space = ?", (space,))
            rows.execute("UPDATE spaces SET state = 'gone' WHERE space = ?", (space,))

        self._write(delete, space)

    def delete_user(self, user: str) -> list[str]:
        """Take a user out of all spaces; return those it was in."""
        told = "DELETE FROM members WHERE user = ? RETURNING space"
        return self._write(lambda rows: sorted(space for (space,) in rows.execute(told, (user,)).fetchall()), user)

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            self._drop()

    def _read(self, asked: str, values: tuple[str | None, ...]) -> list[tuple[Any, ...]]:
        def read(rows: sqlite3.Connection | None) -> list[tuple[Any, ...]]:
            try:
                return [] if rows is None else rows.execute(asked, values).fetchall()
            except UnicodeEncodeError:  # half a character, which no id has
                return []

        return self._run(read)

    def _write(self, work: Callable[[sqlite3.Connection], T], *ids: str) -> T:
        """What `work` returns, in one transaction that other processes wait for, after a look at the ids that it gets."""
        for name in ids:
            if not 0 < len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
                raise ToolError(
                    f"An id has 1 to {MAX_NAME} characters, no control characters, and no spaces around it", code="bad_id"
                )

        def write(rows: sqlite3.Connection | None) -> T:
            if rows is None:
                _make(self._path)
                rows = self._opened()
            assert rows is not None, "a file that was made just now is there"
            with rows:
                rows.execute("BEGIN IMMEDIATE")
                return work(rows)

        return self._run(write)

    def _run(self, work: Callable[[sqlite3.Connection | None], T]) -> T:
        with self._lock:
            try:
                return work(self._opened())
            except (sqlite3.Error, OSError) as error:
                self._drop()  # a mended file is opened anew
                reason = error.strerror if isinstance(error, OSError) else error
                raise ToolError(
                    f"The list of spaces, {FILE} in the folder of the catalog, cannot be used: {reason}",
                    code="store_failed",
                    hint="Look at its rights and the room on its disk; a damaged file has to come from a backup.",
                ) from None

    def _opened(self) -> sqlite3.Connection | None:
        """The open file, or None if there is none. One that another took the place of is let go: its members are no members."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            self._drop()
            return None
        file = found.st_dev, found.st_ino
        if self._rows is None or file != self._file:
            self._drop()
            self._rows = sqlite3.connect(
                f"{Path(self._path).absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=PATIENCE,
                isolation_level=None,
                check_same_thread=False,
            )
            self._file = file
        return self._rows

    def _drop(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            rows.close()


def space_not_found() -> ToolError:
    """The error for a space that does not exist, and for one that the user is not in: the same, so that nobody learns which."""
    return ToolError(
        "There is no such space, or this user is not in it",
        code="space_not_found",
        hint="The operator lists spaces with `rrext space list`, and lets users in with `rrext space add`.",
    )


def _make(path: str) -> None:
    """Make the file, whole from the beginning: another process sees all of it or nothing. What another made first, stays."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    file, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f"{FILE}.")  # for the owner alone
    os.close(file)
    try:
        rows = sqlite3.connect(draft, isolation_level=None)
        try:
            rows.executescript(SCHEMA)
        finally:
            rows.close()
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
