"""Capabilities: the rights of root's processes beyond its files. The warden drops them all."""

from __future__ import annotations

import ctypes
import os
import struct

_CAP_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_CAPBSET_READ, _PR_SET_SECUREBITS, _PR_CAP_AMBIENT = 24, 23, 28, 47
_CAP_AMBIENT_CLEAR_ALL = 4
_ROOT_IS_NOBODY = 0b101111  # NOROOT, NO_SETUID_FIXUP and KEEP_CAPS off for good: being uid 0 grants nothing

_libc = ctypes.CDLL(None, use_errno=True)


def drop_capabilities() -> None:
    """Drop every capability, in all sets and for all children. Raises `OSError` if one is left."""
    if status_of(os.getpid())["CapPrm"] != 0:
        capability = 0
        while _prctl(_PR_CAPBSET_READ, capability) >= 0:
            _prctl(_PR_CAPBSET_DROP, capability)
            capability += 1
        _prctl(_PR_SET_SECUREBITS, _ROOT_IS_NOBODY)
        _prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
        header, nothing = struct.pack("<Ii", _CAP_VERSION_3, 0), bytes(24)
        _libc.capset(header, nothing)
    status = status_of(os.getpid())
    left = [name for name in ("CapPrm", "CapEff", "CapInh", "CapAmb") if status[name]]
    if left:
        raise OSError(f"capabilities could not be given up: {', '.join(left)}")


def status_of(pid: int) -> dict[str, int]:
    """The kernel's status of a process: its capability sets, `NoNewPrivs`, `Seccomp`, `Seccomp_filters`."""
    found: dict[str, int] = {}
    with open(f"/proc/{pid}/status") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.startswith("Cap"):
                found[name] = int(value, 16)
            elif name.startswith(("Seccomp", "NoNewPrivs")):
                found[name] = int(value)
    return found


def _prctl(option: int, argument: int) -> int:
    return int(_libc.prctl(option, *map(ctypes.c_ulong, (argument, 0, 0, 0))))
