"""Files of a port that are read again, at a signal or after a change: keys, tokens, certificates."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from rrext.errors import UsageError
from rrext.faces.http.tokens import UserTokens
from rrext.secrets.redaction import Redactor
from rrext.threads import start_thread

POLL: Final = 1.0
"""Seconds between two looks at the files. What was written since the last look is read at the next one: it may not be whole."""

Take: TypeAlias = Callable[[], object]
"""Puts what was read in force. On the loop's thread."""

State: TypeAlias = tuple[object, ...]

log: Final = logging.getLogger("rrext.server")


class KeptFiles:
    """The files of a port. A thread looks at them: a file system that hangs holds up nobody else."""

    def __init__(self) -> None:
        self._files: list[_KeptFile] = []
        self._is_asked = threading.Event()

    def keep(self, paths: Sequence[str], read: Callable[[], Take]) -> None:
        """Call `read` whenever one of the files has changed, on a thread of its own; what it returns puts them in force.

        It raises `UsageError` for files that cannot be read, which is logged once: what was read before stays in force, and
        they are read again at the next look.
        """
        self._files.append(_KeptFile(paths, read))

    def keep_tokens(self, path: str, option: str, word: str, redactor: Redactor, *, alone: bool = False) -> UserTokens:
        """The tokens of a file, or the one that it has `alone`; each is a secret called by `word`. Raises `UsageError`."""

        def read() -> UserTokens:
            found = (UserTokens.of_file_alone if alone else UserTokens.of_file)(path, option)
            for number, token in enumerate(found.texts, 1):
                redactor.learn(f"{word} {number}", token, always=True)
            return found

        def read_again() -> Take:
            texts = read().texts
            return lambda: tokens.replace(texts)

        tokens = read()
        self.keep([path], read_again)
        return tokens

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to look. Raises `NoThread`."""
        if self._files:
            start_thread(self._watch, "rrext-kept-files", loop)

    def read_again(self) -> None:
        """Read all of them now. From any thread."""
        log.info("to be read again: %s", ", ".join(path for file in self._files for path in file.paths) or "no files")
        self._is_asked.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            is_asked = self._is_asked.wait(POLL)
            self._is_asked.clear()
            for file in self._files:
                take = file.check(now=is_asked)
                if take is not None:
                    try:
                        loop.call_soon_threadsafe(take)
                    except RuntimeError:  # the loop is closed: the process ends
                        return


class _KeptFile:
    """Files that belong together, as a certificate and its key."""

    def __init__(self, paths: Sequence[str], read: Callable[[], Take]) -> None:
        self.paths = paths
        self._read = read
        self._seen = self._state()
        self._taken: State | None = None  # they may have changed between the first reading and this look
        self._complaint: str | None = None

    def check(self, *, now: bool) -> Take | None:
        """The function that puts the files in force, if they have changed and are at rest, or in any case `now`; else None."""
        before, self._seen = self._seen, self._state()
        if not now and (self._seen != before or self._seen == self._taken):
            return None
        self._taken = None if now else self._seen  # what is read at once may change within the same tick of the file system
        try:
            take = self._read()
        except Exception as error:  # whatever it is: a thread that ends here would leave a lost key in force
            self._taken = None  # the system may have had no descriptor or memory for it
            complaint = f"{', '.join(self.paths)}: {type(error).__name__}"
            if isinstance(error, UsageError):
                complaint = f"{error.message}{f' ({error.hint})' if error.hint else ''}"
            if now or complaint != self._complaint:
                log.warning("%s: what was read before stays in force", complaint)
            self._complaint = complaint
            return None
        self._complaint = None
        return take

    def _state(self) -> State:
        return tuple(_state_of(path) for path in self.paths)


def _state_of(path: str) -> State:
    try:
        found = os.stat(path)
    except OSError as error:
        return (error.errno,)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode, found.st_uid
