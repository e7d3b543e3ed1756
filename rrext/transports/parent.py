"""Detection of the end of the parent process, or of another one that a server serves."""

from __future__ import annotations

import os
import select


class ParentWatch:
    """Detects by polling whether the process that started us is still our parent, and whether another one that we serve lives:
    between that one and us may be a shell, or a program that keeps our stdin open.

    An orphan gets another parent at once, so a changed parent id is sufficient. Linux could send a signal instead
    (`PR_SET_PDEATHSIG`), but it would kill us before pending requests are answered, it fires at the end of the *thread* that
    started us, and it is lost when a program with other rights is executed.
    """

    def __init__(self, parent: int | None = None) -> None:
        """Watch `parent`, by default the present parent. A parent that has already ended is detected only if it is named."""
        self.pid = os.getppid() if parent is None else parent
        self._poll: select.poll | None = None
        self._client: int | None = None

    def watch(self, pid: int) -> bool:
        """Watch a process as well. False for one that does not exist here: it has ended, or its number is from another machine
        or container.
        """
        if not hasattr(os, "pidfd_open"):
            self._client = pid if _exists(pid) else None
            return self._client is not None
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, OverflowError):  # no process has a number that is too large for the system
            return False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)  # it becomes readable at the end, also of a zombie
        return True

    def is_gone(self) -> bool:
        """Whether one of them has ended."""
        if os.getppid() != self.pid or (self._poll is not None and self._poll.poll(0)):
            return True
        return self._client is not None and not _exists(self._client)

    def __repr__(self) -> str:
        return f"<ParentWatch of {self.pid}>"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
