"""The interface of a Python sandbox, and its results. No engine is named here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from rrext.nodes.sandbox.limits import SandboxLimits


class PythonRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a program.

    `exit_code` is 0 after a clean end, 1 after an exception, the program's own after `sys.exit(n)`, −1 when its time
    was up, and 128 + n when signal n ended it. `result` is JSON-safe; `has_result` tells a result from none.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    result: Any = None
    has_result: bool = False


class PythonSandbox(Protocol):
    """Runs programs that are not trusted. Methods block; call them from a worker thread, any number at a time."""

    def run(
        self, code: str, limits: SandboxLimits, on_cancel: Callable[[Callable[[], object]], None] | None = None
    ) -> PythonRun:
        """Run `code` as a fresh `__main__` and wait for its end.

        `on_cancel` is given a function that kills the program; the call then ends by raising `Cancelled`. Raises
        `Unavailable` where this machine cannot isolate, before anything of `code` has run.
        """
        ...

    def close(self) -> None:
        """Kill whatever still runs and free all resources. The sandbox is not used again."""
        ...
