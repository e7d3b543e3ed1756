"""The database of an embedded graph while this process has it open, and the lock beside its file, NAME.lock.

Ladybug's own lock on the file is lost as soon as anything else in the process closes the same file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from rrext.errors import Unavailable
from rrext.nodes.files.file_lock import FileLock, InUse
from rrext.nodes.graph.ladybug.rules import EmbeddedSettings, sentence

IDLE_CONNECTIONS: Final = 8
"""Connections that are kept for the next calls; making one is cheap."""
PLANNED_STATEMENTS: Final = 16
"""Statements with parameters after which a connection is not used again: it keeps the plan of each, half a megabyte."""
OPEN_AGAIN: Final = 0.02
"""Seconds between attempts to open a file that another program has open."""

MIB: Final = 1024 * 1024


class LentConnection:
    """A connection, and the statements with parameters that it has run."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.statements: set[str] = set()


class OpenDatabase:
    """A database and its idle connections."""

    def __init__(self, settings: EmbeddedSettings, database: Any, file_lock: FileLock | None) -> None:
        self._settings = settings
        self._database = database
        self._file_lock = file_lock
        self._lock = threading.Lock()
        self._idle: list[LentConnection] = []

    @classmethod
    def open(cls, settings: EmbeddedSettings, check: Callable[[], object]) -> OpenDatabase:
        """Open the database when no other process has it, within the time of the settings. Raises `Unavailable`."""
        import ladybug

        path, read_only = settings.path, settings.read_only and bool(settings.path)
        file_lock = _lock_beside(settings, check) if path else None
        # Despite our lock, Ladybug's may be taken: the system releases the locks of an ending process one by one.
        until = time.monotonic() + settings.wait
        try:
            while True:
                try:
                    database = ladybug.Database(
                        path or None,
                        buffer_pool_size=settings.memory_mb * MIB,
                        max_num_threads=settings.threads,
                        read_only=read_only,
                    )
                    return cls(settings, database, file_lock)
                except Exception as error:
                    check()
                    if "lock" not in str(error) or time.monotonic() > until:
                        raise _not_opened(str(error), read_only=read_only, is_there=os.path.exists(path)) from None
                time.sleep(OPEN_AGAIN)
        except BaseException:
            if file_lock is not None:
                file_lock.release()
            raise

    def lease(self) -> LentConnection:
        """Take a connection for one transaction."""
        import ladybug

        with self._lock:
            if self._idle:
                return self._idle.pop()
        return LentConnection(ladybug.Connection(self._database, num_threads=self._settings.threads))

    def give_back(self, lease: LentConnection, *, is_good: bool) -> None:
        """Return the connection after a transaction. An interrupted connection is not used again."""
        with self._lock:
            if is_good and len(lease.statements) <= PLANNED_STATEMENTS and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(lease)
                return
        with suppress(Exception):
            lease.connection.close()

    def is_wanted(self) -> bool:
        """Whether another process waits for the file."""
        return self._file_lock is not None and self._file_lock.is_wanted()

    def close(self) -> None:
        """Close the database, so that another process can open the file."""
        with self._lock:
            idle, self._idle = self._idle, []
        for lease in idle:
            with suppress(Exception):
                lease.connection.close()
        with suppress(Exception):
            self._database.close()
        if self._file_lock is not None:
            self._file_lock.release()


def _lock_beside(settings: EmbeddedSettings, check: Callable[[], object]) -> FileLock | None:
    """Take the lock; readers share it. A folder without write permission needs no lock."""
    try:
        path = f"{settings.path}.lock"
        return FileLock.take(path, settings.owner, wait=settings.wait, check=check, shared=settings.read_only)
    except InUse as error:
        who = f"process {error.holder}" if error.holder else "another process"
        raise _in_use(f"{who} has it open, and did not let go of it within {settings.wait:g} s") from None
    except OSError as error:
        if settings.read_only:
            return None
        raise Unavailable(
            f"The graph database cannot be used: {error.strerror or 'its folder cannot be written'}",
            hint="The folder of the database has to exist and to be writable.",
        ) from None


def _in_use(who: str) -> Unavailable:
    return Unavailable(
        f"The graph database cannot be used: {who}",
        hint='Processes take turns with it between transactions. Wait longer ("wait"), or end that process or transaction.',
    )


def _not_opened(message: str, *, read_only: bool, is_there: bool) -> Unavailable:
    if "lock" in message:
        return _in_use("another program has it open")
    if read_only and not is_there:
        return Unavailable(
            "The graph database cannot be used: there is none at its path",
            hint='With "allow_execute": true an empty one is made.',
        )
    return Unavailable(f"The graph database cannot be used: {sentence(message)}", hint="Nothing was changed.")
