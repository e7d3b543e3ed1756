"""Noticing that the parent process is gone."""

from __future__ import annotations

import os

__all__ = ["ParentWatch"]


class ParentWatch:
    """Tells whether the process that started us still is our parent; the caller asks now and then.

    An orphan is given another parent at once, so a parent id that has changed says it all. Linux could send a signal
    instead (`PR_SET_PDEATHSIG`), and that is not used: it would kill us before requests already read are answered, it
    fires when merely the *thread* ends that started us, and it is lost when we run a program with other rights.
    """

    __slots__ = ("pid",)

    def __init__(self, parent: int | None = None) -> None:
        """Watch `parent`, by default whoever is the parent now. One that is gone already is only noticed if it is named."""
        self.pid = os.getppid() if parent is None else parent

    def is_gone(self) -> bool:
        """Whether somebody else is the parent by now."""
        return os.getppid() != self.pid

    def __repr__(self) -> str:
        return f"<ParentWatch of {self.pid}>"
