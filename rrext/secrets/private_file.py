"""The one reader of private files: keys and tokens of users, keys of TLS, the file of connections, secrets in files."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Final

MAX_PRIVATE_FILE: Final = 1024 * 1024
"""Bytes of a private file: five hundred keys with their users have a tenth of it, and a larger file was not written by hand."""


class NotPrivate(Exception):
    """A private file cannot be used; the message begins with its path, and has nothing of its content."""


def open_private(path: str) -> BinaryIO:
    """Open a regular file of this user, of bounded size, that nobody else may read or write. Raises `NotPrivate`.

    Links are followed, because programs that renew keys swap links: the owner and the mode of the
    open file are checked, not those of its name. A FIFO is opened without waiting for its writer, and refused.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 – the caller closes it
    except (OSError, ValueError) as error:  # a name may have a zero byte
        raise NotPrivate(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    fault = _fault(os.fstat(file.fileno()))
    if fault is not None:
        file.close()
        raise NotPrivate(f"{path}: {fault}")
    return file


def read_private(path: str) -> str:
    """The text of a private file, whole. Blocks; raises `NotPrivate`."""
    with open_private(path) as file:
        try:
            content = file.read(MAX_PRIVATE_FILE + 1)  # it may grow meanwhile
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise NotPrivate(f"{path}: the file is not UTF-8") from None
        except OSError as error:
            raise NotPrivate(f"{path}: {error.strerror or error}") from None
    if len(content) > MAX_PRIVATE_FILE:
        raise NotPrivate(f"{path}: {_TOO_LARGE}")
    return text


_TOO_LARGE: Final = f"the file is too large: MAX_PRIVATE_FILE is {MAX_PRIVATE_FILE:,} bytes"


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def exposure(found: os.stat_result) -> str | None:
    """Who else may use an open file, or None."""
    if found.st_uid != os.geteuid():
        return "the file belongs to another user"
    mode = stat.S_IMODE(found.st_mode)
    return f"others may use the file (mode {mode:04o}); chmod 600 makes it yours alone" if mode & 0o077 else None


def _fault(found: os.stat_result) -> str | None:
    """Why an open file is not private, or None."""
    if (others := exposure(found)) is not None:
        return others
    if not stat.S_ISREG(found.st_mode):
        return "this is no regular file"
    return _TOO_LARGE if found.st_size > MAX_PRIVATE_FILE else None
