"""An open file description of one's own for a descriptor that others share."""

from __future__ import annotations

import os
from stat import S_ISCHR, S_ISFIFO

__all__ = ["reopen"]


def reopen(fd: int, flags: int) -> int | None:
    """The pipe or terminal behind `fd`, opened anew and non-blocking; None where that is impossible.

    Whether a write blocks is a property of the open file description, which a descriptor shares with every process that
    inherited it, or gave it: switching it there would hit strangers, and strangers may switch it back. Sockets cannot be
    opened anew; a file must not be, since its position would be lost; and systems without `/proc` cannot do it at all.
    """
    mode = os.fstat(fd).st_mode
    if not (S_ISFIFO(mode) or S_ISCHR(mode)):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
