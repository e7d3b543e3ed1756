"""Namespaces for the warden, where the kernel grants them: no other file exists, no network, no shared IPC.

Landlock keeps files from being opened but not from being asked about: size and time of `/etc/passwd` are no secret to
it. Here there is no `/etc`. Root may always do this; others where user namespaces are allowed, which containers and
some distributions do not. It is a wall more, not one that the others lean on.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_NET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE, _NOSUID, _NOEXEC = 0x1000, 0x4000, 0x40000, 0x2, 0x8
_DETACH = 2
_PIVOT_ROOT = 155
_SITE = "/tmp"  # any directory will do: what is below it is opened before it is covered

_libc = ctypes.CDLL(None, use_errno=True)


def move_out(paths: Iterable[str], empty: Iterable[str], inside: Iterable[str] = ()) -> bool:
    """Leave this process, which has one thread, with `paths` and all below them, and nothing else of the machine. The
    directories in `empty` appear empty but for the paths `inside`, which may lie there. Returns False, with all files as
    before, where the kernel does not allow it.
    """
    covered = False
    try:
        _unshare()
        places = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in paths]
        inner = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in inside]
        covers = [path for path in empty if os.path.isdir(path)]
        _mount("none", "/", None, _RECURSIVE | _PRIVATE)  # nothing below is seen outside
        _mount("none", _SITE, "tmpfs", _NOSUID | _NOEXEC)
        covered = True
        for path, handle in places:
            _bind(handle, _SITE + path)
        for path in covers:
            _mount("none", _SITE + path, "tmpfs", _NOSUID | _NOEXEC)
        for path, handle in inner:
            _bind(handle, _SITE + path)
        os.chdir(_SITE)
        _check(_libc.syscall(ctypes.c_long(_PIVOT_ROOT), b".", b"."), "pivot_root")
    except OSError:
        os.chdir("/")
        if covered:
            _check(_libc.umount2(os.fsencode(_SITE), _DETACH), "umount")
        return False
    _check(_libc.umount2(b".", _DETACH), "umount")  # the old root lies over the new one
    os.chdir("/")
    for _, handle in places + inner:
        os.close(handle)
    return True


def _unshare() -> None:
    wanted = _NEW_MOUNTS | _NEW_IPC | _NEW_NET
    user, group = os.geteuid(), os.getegid()
    if user == 0 and _libc.unshare(wanted) == 0:
        return
    _check(_libc.unshare(wanted | _NEW_USER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _bind(handle: int, target: str) -> None:
    source = f"/proc/self/fd/{handle}"
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_RDONLY, 0o444))
    _mount(source, target, None, _BIND | _RECURSIVE)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    arguments = (os.fsencode(source), os.fsencode(target), kind and kind.encode(), ctypes.c_ulong(flags), None)
    _check(_libc.mount(*arguments), f"mount {target}")


def _check(value: int, what: str) -> None:
    if value != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
