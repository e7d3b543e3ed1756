"""What a child process gives up before it reads what is not trusted: memory, files, and its output."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import sysconfig
from pathlib import Path
from typing import Final

OPEN_FILES: Final = 64
"""Descriptors: the socket, the standard streams, and what imports need."""

STANDARD: Final = sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["platstdlib"]
"""The folders of the standard library."""

PACKAGE: Final = str(Path(__file__).parents[2])
"""The folder of rrext. Not all of sys.path may be read: it may hold the folder that the server was started in."""


def bound_memory(memory: int, files: int = OPEN_FILES) -> None:
    """Bound the address space, in bytes, and the descriptors; leave no core dump, which would hold what was read."""
    _bound(resource.RLIMIT_AS, memory)
    _bound(resource.RLIMIT_CORE, 0)
    _bound(resource.RLIMIT_NOFILE, files)


def can_lock_in() -> bool:
    """Whether the kernel can keep files from this process, which has one thread."""
    if not sys.platform.startswith("linux") or len(os.listdir("/proc/self/task")) > 1:
        return False
    from rrext.nodes.child.landlock import abi

    return abi() > 0


def lock_in(*read: str) -> None:
    """Give up, for this process and all that it starts, what the kernel can take: by Landlock, files but those below `read`; by
    a filter of system calls, the network, sockets, signals to others, their limits and priorities, memory shared with them,
    programs, and what Landlock leaves of files.

    Raises `OSError` if a wall that the kernel has cannot be raised.
    """
    if can_lock_in():
        from rrext.nodes.child.landlock import confine

        confine(read=read)
    from rrext.nodes.child.system_calls import refuse_outside

    refuse_outside()


def fall_silent(nothing: int) -> None:
    """Write no more files, and to the descriptor `nothing` what goes to the standard streams: a library that fails prints parts
    of what it reads, which must not get into the server's log.
    """
    _bound(resource.RLIMIT_FSIZE, 0)
    for number in (1, 2):
        os.dup2(nothing, number)


def _bound(what: int, most: int) -> None:
    with contextlib.suppress(OSError, ValueError):  # a lower limit holds already, or the system has none
        resource.setrlimit(what, (most, most))
