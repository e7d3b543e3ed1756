"""Running a program in the sandbox, and looking from outside at what is left of it."""

from __future__ import annotations

import os
import select
import textwrap
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rrext.nodes.sandbox.engine import LANDLOCK
from rrext.nodes.sandbox.grant import SandboxLimits
from rrext.nodes.sandbox.node import Sandbox
from rrext.nodes.sandbox.outcome import PythonRun

GONE_WITHIN = 20.0

T = TypeVar("T")


class Guests:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def run(self, code: str, **limits: Any) -> PythonRun:
        """Run the program; within what a busy machine takes for it, unless told otherwise."""
        return self.sandbox.run(textwrap.dedent(code), SandboxLimits(**{"timeout": 30.0, **limits}))

    def result(self, code: str, **limits: Any) -> Any:
        """The `result` of a program that must end well."""
        run = self.run(code, **limits)
        assert (run.exit_code, run.stderr) == (0, ""), run.stderr
        return run.result

    @property
    def warden(self) -> int:
        found = self.sandbox.warden
        assert found is not None
        return found.id

    @property
    def processes(self) -> int:
        """Processes of one program: its supervisor and itself; bubblewrap's monitor and its keeper stand between them."""
        assert self.sandbox.engine is not None
        return 2 if self.sandbox.engine is LANDLOCK else 4

    def left_behind(self) -> list[int]:
        """Processes below the warden that do not end by themselves, now that no program runs."""
        return [] if self.sandbox.warden is None else still_there(descendants(self.warden))


def still_there(pids: list[int], within: float = GONE_WITHIN) -> list[int]:
    """Those of the processes that do not end in time; returns as soon as all have."""
    return [pid for pid in pids if not _ends(pid, within)]


def _ends(pid: int, within: float) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within)[0])
    finally:
        os.close(handle)


def descendants(pid: int) -> list[int]:
    """Every process that `pid` or one of its descendants started and that has not ended; its own children first."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(parent, []).append(int(name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def wait_until(look: Callable[[], T | None], within: float = 20.0) -> T:
    """What `look` finds, as soon as it finds something: for what other processes do without telling."""
    end = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.005)
    return found
