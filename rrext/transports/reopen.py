"""A private open file description for a shared descriptor."""

from __future__ import annotations

import os
from stat import S_ISCHR, S_ISFIFO


def reopen(fd: int, flags: int) -> int | None:
    """The pipe or terminal behind `fd`, reopened non-blocking; None if that is impossible.

    Blocking is a property of the open file description, which all processes with an inherited descriptor share: changing it
    would affect strangers, and they may change it back. Sockets cannot be reopened; a file must not be, because its position
    would be lost; and systems without `/proc` cannot do it.
    """
    mode = os.fstat(fd).st_mode
    if not (S_ISFIFO(mode) or S_ISCHR(mode)):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
