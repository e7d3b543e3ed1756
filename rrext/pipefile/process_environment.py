"""The variables of this process that pipelines may read, taken out of its environment: children inherit none of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

ORDINARY: Final = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"}
)
"""Variables with which every program finds its files and its language: no secrets, and they stay where they are."""
_ENV_START: Final = 47
"""Where the start of the environment stands in /proc/self/stat, counted from behind the program's name (proc_pid_stat(5))."""


def take_variables(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """The variables with a prefix, and those of the names, which this process does not have in its environment any more.

    Names in `ORDINARY` keep their variable.
    """
    wanted = frozenset(names)
    found = {name: value for name, value in os.environ.items() if name.startswith(prefix) or name in wanted}
    taken = found.keys() - ORDINARY
    for name in taken:
        del os.environ[name]
    if taken:
        with suppress(OSError, ValueError, IndexError):  # not Linux, or a system that does not let a process do that
            _overwrite(taken)
    return found


def _overwrite(names: Collection[str]) -> None:
    """Put zeros where the process had the values when it began: /proc/PID/environ shows that to its user for ever."""
    with open("/proc/self/stat", "rb") as status:
        start, end = map(int, status.read().rpartition(b")")[2].split()[_ENV_START : _ENV_START + 2])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        at = start
        for entry in memory.read(end - start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if os.fsdecode(name) in names:
                memory.seek(at + len(entry) - len(value))
                memory.write(bytes(len(value)))
            at += len(entry) + 1
