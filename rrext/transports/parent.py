"""Detection of the parent process's end."""

from __future__ import annotations

import os


class ParentWatch:
    """Detects by polling whether the process that started us is still our parent.

    An orphan gets another parent at once, so a changed parent id is sufficient. Linux could send a signal instead
    (`PR_SET_PDEATHSIG`), but it would kill us before pending requests are answered, it fires at the end of the *thread* that
    started us, and it is lost when a program with other rights is executed.
    """

    def __init__(self, parent: int | None = None) -> None:
        """Watch `parent`, by default the present parent. A parent that has already ended is detected only if it is named."""
        self.pid = os.getppid() if parent is None else parent

    def is_gone(self) -> bool:
        """Whether the parent has changed."""
        return os.getppid() != self.pid

    def __repr__(self) -> str:
        return f"<ParentWatch of {self.pid}>"
