"""Landlock: a process gives up, for itself and all its children, every right that it does not need. By system call.

See landlock(7) and Documentation/userspace-api/landlock.rst of the kernel.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

WHOLE_ABI = 6
"""The ABI of Linux 6.12, the first that keeps all from a process that `confine` promises."""

LACKS = ((6, "signals and abstract sockets"), (5, "commands to devices (ioctl)"), (4, "TCP"), (3, "truncating files"))
"""The ABI that is the first to keep something from a process, and what that is. What an older one cannot, filters of system
calls refuse (`system_calls`, and that of programs)."""

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILE_RIGHTS = (0, 13, 14, 15, 15, 16, 16)  # how many an ABI has: 2 added moving, 3 truncating, 5 ioctl of devices
_NET_RIGHTS = 0b11  # bind and connect
_SCOPES = 0b11  # abstract sockets and signals

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The Landlock version of this kernel; 0 if it has none."""
    version = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(int(version), 0)


def lacks(offered: int) -> list[str]:
    """What a kernel with this ABI cannot keep from a process."""
    return [what for first, what in LACKS if offered < first]


def confine(
    *, execute: Iterable[str] = (), read: Iterable[str] = (), names: Iterable[str] = (), write: Iterable[str] = ()
) -> None:
    """Confine this process, which must have only one thread, to the given paths.

    `execute` and `read` allow all below a directory, `names` only to list it, `write` allows to read and write the
    named files. No TCP, no signal and no abstract socket reaches beyond this process and its children, but for what the
    kernel `lacks`. Missing paths are ignored. Raises `OSError` if any part of the confinement fails.
    """
    offered = min(abi(), WHOLE_ABI)
    handled = (1 << _FILE_RIGHTS[offered]) - 1
    rules = struct.pack("<QQQ", handled, _NET_RIGHTS if offered >= 4 else 0, _SCOPES if offered >= 6 else 0)
    ruleset = _call(_CREATE, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint(0))
    try:
        for paths, rights in (
            (execute, _EXECUTE | _READ_FILE | _READ_DIR),
            (read, _READ_FILE | _READ_DIR),
            (names, _READ_DIR),
            (write, _WRITE_FILE | _READ_FILE | _TRUNCATE),
        ):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
            raise _error("no_new_privs")
        _call(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not os.path.isdir(path):
            rights &= ~_READ_DIR
        rule = struct.pack("<Qi", rights, target)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))
    finally:
        os.close(target)


def _call(number: int, *arguments: object) -> int:
    value = _libc.syscall(ctypes.c_long(number), *arguments)
    if value < 0:
        raise _error("landlock")
    return int(value)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
