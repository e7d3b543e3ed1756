"""Landlock: a process gives up, for itself and all its children, every right that it does not need. By system call.

See landlock(7) and Documentation/userspace-api/landlock.rst of the kernel.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

NEEDED_ABI = 6
"""The ABI of Linux 6.12, the first that also isolates signals and abstract sockets."""

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_ALL_FILE_RIGHTS = (1 << 16) - 1  # all rights of ABI 5; ABI 6 added none
_ALL_NET_RIGHTS = 0b11  # bind and connect
_ALL_SCOPES = 0b11  # abstract sockets and signals

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The Landlock version of this kernel; 0 if it has none."""
    version = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(int(version), 0)


def confine(
    *, execute: Iterable[str] = (), read: Iterable[str] = (), names: Iterable[str] = (), write: Iterable[str] = ()
) -> None:
    """Confine this process, which must have only one thread, to the given paths.

    `execute` and `read` allow all below a directory, `names` only to list it, `write` allows to read and write the
    named files. No network, no signal and no abstract socket reaches beyond this process and its children. Missing
    paths are ignored. Raises `OSError` if any part of the confinement fails.
    """
    rules = struct.pack("<QQQ", _ALL_FILE_RIGHTS, _ALL_NET_RIGHTS, _ALL_SCOPES)
    ruleset = _call(_CREATE, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint(0))
    try:
        for paths, rights in (
            (execute, _EXECUTE | _READ_FILE | _READ_DIR),
            (read, _READ_FILE | _READ_DIR),
            (names, _READ_DIR),
            (write, _WRITE_FILE | _READ_FILE | _TRUNCATE),
        ):
            for path in paths:
                _allow(ruleset, path, rights)
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
