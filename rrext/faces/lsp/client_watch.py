"""Detection of the end of the client's process, which it names in `initialize`."""

from __future__ import annotations

import os
import select

from rrext.transports.parent import ParentWatch


class ClientWatch(ParentWatch):
    """Detects by polling whether the parent or the client has ended.

    The client need not be the parent: between them may be a shell, or a program that keeps our stdin open.
    """

    def __init__(self, parent: int) -> None:
        super().__init__(parent)
        self._poll: select.poll | None = None
        self._client: int | None = None

    def watch(self, pid: int) -> None:
        """Watch a process as well. One that does not exist here is ignored: its number is from another machine or container."""
        if not hasattr(os, "pidfd_open"):
            self._client = pid if _exists(pid) else None
            return
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)  # it becomes readable at the end, also of a zombie

    def is_gone(self) -> bool:
        """Whether one of them has ended."""
        if self._poll is not None and self._poll.poll(0):
            return True
        return super().is_gone() or (self._client is not None and not _exists(self._client))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
