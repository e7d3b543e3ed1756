"""What a Python sandbox is asked, and what it answers. No engine is named here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

MIB = 1024 * 1024


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one program. Each is enforced from outside the program."""

    timeout: float = 20.0
    """Seconds of wall-clock time; then the program is killed. RocketRide's default."""
    memory: int = 512 * MIB
    """Bytes of address space, the interpreter's own 30 MiB included: room for a few million objects, while the 64
    calls of a full server stay below what a large machine has."""
    total_memory: int = 2048 * MIB
    """Bytes of memory that all programs of one sandbox use at a time, which is four programs at their limit, or the server's
    64 places full of ordinary ones; beyond it the program that uses most is killed."""
    threads: int = 64
    """Threads at a time. Ordinary pools use under 40; a thread costs the machine memory that `memory` does not count."""
    open_files: int = 64
    """Open descriptors. The program has three; an event loop needs three more. Each pipe holds 64 KiB of the kernel's."""
    output: int = 51_200
    """Characters kept of each of stdout and stderr, cut in the middle. RocketRide's figure."""
    result: int = 4 * MIB
    """Bytes of `result` as JSON: a quarter of what an answer may have."""


class PythonRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended.

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
    """Runs programs that nobody vouches for. Methods block; call them from a worker thread, any number at a time."""

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
