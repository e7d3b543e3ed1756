"""The engine on Landlock: a domain around the warden, and in it, for each program, another one with a filter, by `sandlock`.

Where the kernel grants namespaces, the warden moves into some of its own first (`kernel.move_out`).
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from rrext.nodes.child.landlock import WHOLE_ABI, abi, confine
from rrext.nodes.sandbox.interpreter import Files, command
from rrext.nodes.sandbox.kernel import drop_capabilities, move_out
from rrext.nodes.sandbox.supervisor import BOOT, GuestProcess, Walls


class LandlockWalls(Walls):
    """The walls of this engine; `folder` has the package `sandlock`."""

    def __init__(self, files: Files, folder: str) -> None:
        sys.path.append(folder)
        os.environ["HOME"] = "/"  # it asks for the home of its user, and a user whom only a number names has none
        import sandlock

        del os.environ["HOME"]
        self._files = files
        self._sandlock: Any = sandlock

    def enclose(self) -> bool:
        """Move out, where that is granted, drop capabilities, enter the outer domain."""
        files = self._files
        alone = move_out((*files.roots, *files.devices, "/proc"), files.installed, files.packages)
        drop_capabilities()
        confine(execute=files.execute, read=(*files.read, "/proc"), names=files.names, write=files.devices)
        return alone

    def start(self) -> GuestProcess:
        """Start the guest in the inner domain."""
        return _LandlockGuest(self._sandlock, self._files)


class _LandlockGuest(GuestProcess):
    filters = 2  # sandlock's and the guest's own

    def __init__(self, sandlock: Any, files: Files) -> None:
        self._sandlock = sandlock
        self._files = files
        super().__init__()

    def start(self) -> tuple[int, int]:
        self._process = _policy(self._sandlock, self._files).popen(command("-c", BOOT))
        return self._process.pid, self._process.pid

    def wait(self) -> tuple[int, int]:
        end = self._process.wait()
        if end.reason == self._sandlock.ExitReason.EXITED:
            return end.exit_code, 0
        # sandlock has no number for a kill that is beyond asking: SIGKILL is the only such signal.
        return -1, end.signal if end.signal > 0 else int(signal.SIGKILL)


def _policy(sandlock: Any, files: Files) -> Any:
    # The guest's own filter refuses every call that an older Landlock does not judge.
    degraded = list(sandlock.Protection) if abi() < WHOLE_ABI else []
    return sandlock.Sandbox(
        allow_degraded=degraded,
        fs_readable=[*files.roots, *files.packages],
        fs_writable=list(files.devices),
        fs_denied=list(files.hidden),
        clean_env=True,
        max_processes=1,
        cwd="/",
    )
