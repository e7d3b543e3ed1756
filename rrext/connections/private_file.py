"""Files that only their owner may read: the file of connections, and secrets in files."""

from __future__ import annotations

import os
import stat

from rrext.errors import ConnectionInvalid
from rrext.limits import MAX_PRIVATE_FILE


def read_private(path: str) -> str:
    """The text of a file of this user that nobody else may read. Blocks; raises `ConnectionInvalid`."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            check_private(path, os.fstat(file.fileno()))  # of what is open: the name may mean another file by now
            content = file.read(MAX_PRIVATE_FILE + 1)
        text = content.decode()
    except UnicodeDecodeError:
        raise ConnectionInvalid(f"{path}: the file is not UTF-8") from None
    except (OSError, ValueError) as error:
        raise ConnectionInvalid(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_PRIVATE_FILE:
        raise ConnectionInvalid(f"{path}: the file has more than {MAX_PRIVATE_FILE:,} bytes")
    return text


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a FIFO, which is refused then, would be awaited for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def check_private(path: str, found: os.stat_result) -> None:
    """Raise `ConnectionInvalid` for a file of another user, one that others may read or write, and what is no file."""
    if found.st_uid != os.geteuid():
        raise ConnectionInvalid(f"{path}: the file belongs to another user")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise ConnectionInvalid(f"{path}: others may use the file (mode {mode:04o}); chmod 600 makes it yours alone")
    if not stat.S_ISREG(found.st_mode):
        raise ConnectionInvalid(f"{path}: this is no regular file")
