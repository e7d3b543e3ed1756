"""The one reader of files that are a user's own: keys and tokens of users, keys of TLS, the file of connections and secrets in
files, which others may not even read, and project files, which they may not write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import BinaryIO, Final

MAX_PRIVATE_FILE: Final = 1024 * 1024
"""Bytes of a private file: five hundred keys with their users have a tenth of it, and a larger file was not written by hand."""


class NotPrivate(Exception):
    """A private file cannot be used; the message begins with its path, and has nothing of its content."""


def open_private(path: str, *, may_be_read: bool = False, folder: int | None = None) -> BinaryIO:
    """Open a regular file of this user, of bounded size, that nobody else may read or write. Raises `NotPrivate`.

    With `may_be_read` others may read it. `folder` is the descriptor of the folder in which its last name is looked up.

    Links are followed, because programs that renew keys swap links: the owner and the mode of the open file are checked, not
    those of its name. A FIFO is opened without waiting for its writer, and refused.
    """

    def without_waiting(name: str, flags: int) -> int:
        name = name if folder is None else os.path.basename(name)
        return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)

    try:
        file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 – the caller closes it
    except (OSError, ValueError) as error:  # a name may have a zero byte
        raise NotPrivate(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    fault = _fault(os.fstat(file.fileno()), others_who_write if may_be_read else exposure)
    if fault is not None:
        file.close()
        raise NotPrivate(f"{path}: {fault}")
    return file


def read_private(path: str, *, may_be_read: bool = False, folder: int | None = None) -> str:
    """The text of a private file, whole, opened as by `open_private`. Blocks; raises `NotPrivate`."""
    with open_private(path, may_be_read=may_be_read, folder=folder) as file:
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


def exposure(found: os.stat_result) -> str | None:
    """Who else may use an open file, or None."""
    if found.st_uid != os.geteuid():
        return "the file belongs to another user"
    mode = stat.S_IMODE(found.st_mode)
    return f"others may use the file (mode {mode:04o}); chmod 600 makes it yours alone" if mode & 0o077 else None


def others_who_write(found: os.stat_result, what: str = "the file") -> str | None:
    """Who else may write an open file or folder, or None. A group that has the name of the user and no other members is theirs,
    as many systems make one for each user, and let it write.
    """
    if found.st_uid != os.geteuid():
        return f"{what} belongs to another user"
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o002 or (mode & 0o020 and not _is_own_group(found.st_gid)):
        return f"others may write {what} (mode {mode:04o}); chmod go-w makes it yours alone"
    return None


def _is_own_group(number: int) -> bool:
    from grp import getgrgid
    from pwd import getpwuid

    try:
        group, user = getgrgid(number), getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and number == user.pw_gid and set(group.gr_mem) <= {user.pw_name}


def _fault(found: os.stat_result, others: Callable[[os.stat_result], str | None]) -> str | None:
    """Why an open file may not be used, or None."""
    if (who := others(found)) is not None:
        return who
    if not stat.S_ISREG(found.st_mode):
        return "this is no regular file"
    return _TOO_LARGE if found.st_size > MAX_PRIVATE_FILE else None
