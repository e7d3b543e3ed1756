"""What the kernel keeps from a guest: a filter of system calls, namespaces, and the capabilities of root.

The filter is an allow-list, because no list of forbidden calls is ever complete: Landlock knows nothing of `chmod`,
`utime` or `prlimit` on another process, and each kernel brings new calls. The list has the calls of the interpreter, its
standard library and threads; other calls are refused with EPERM, and calls younger than this list with ENOSYS, so that
the C library falls back. x86-64 only: the numbers are another machine's own.

In the namespaces of the warden, where the kernel grants them, no other file exists, no network, no shared IPC. Landlock
keeps files from being opened but not from being asked about: size and time of `/etc/passwd` are no secret to it. Here
there is no `/etc`. Root may always do this; others where user namespaces are allowed, which containers and some
distributions do not. It is a wall more, not one that the others lean on.

Capabilities are the rights of root's processes beyond its files. The warden drops them all.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from rrext.nodes.child.system_calls import (
    ALLOW,
    AND,
    ANY_BIT,
    AT_LEAST,
    ENOSYS,
    EPERM,
    EQUAL,
    ERRNO,
    PRLIMIT64,
    Step,
    assembled,
    give,
    one_of,
    to_itself,
    verdict,
    word,
    zero,
)

# Calls that are allowed with any argument. Landlock judges the paths.
ALLOWED = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "select": 23,
    "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "pause": 34, "nanosleep": 35,
    "getitimer": 36, "alarm": 37, "setitimer": 38, "getpid": 39, "recvfrom": 45, "shutdown": 48, "getsockname": 51,
    "getpeername": 52, "getsockopt": 55, "exit": 60, "wait4": 61, "uname": 63, "getdents": 78, "getcwd": 79,
    "readlink": 89, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102,
    "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111, "getgroups": 115,
    "getresuid": 118, "getresgid": 120, "rt_sigpending": 127, "rt_sigtimedwait": 128, "rt_sigsuspend": 130,
    "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202, "epoll_create": 213, "getdents64": 217,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231,
    "epoll_wait": 232, "epoll_ctl": 233, "waitid": 247, "openat": 257, "newfstatat": 262, "readlinkat": 267,
    "faccessat": 269, "pselect6": 270, "ppoll": 271, "set_robust_list": 273, "epoll_pwait": 281, "eventfd": 284,
    "eventfd2": 290, "epoll_create1": 291, "dup3": 292, "pipe2": 293, "preadv": 295, "pwritev": 296, "getcpu": 309,
    "getrandom": 318, "membarrier": 324, "statx": 332, "rseq": 334, "close_range": 436, "faccessat2": 439,
    "epoll_pwait2": 441,
}  # fmt: skip

_SOCKETPAIR, _CLONE, _PRCTL, _TKILL, _SCHED_GETAFFINITY = 53, 56, 157, 200, 204
_PRCTLS = (15, 16, 0x53564D41)  # PR_SET_NAME PR_GET_NAME PR_SET_VMA
_THREAD = 0x10900  # CLONE_THREAD | CLONE_SIGHAND | CLONE_VM: a thread of this process, never a process
_NAMESPACES = 0x7E020080  # all CLONE_NEW…

_FIRST_UNKNOWN = 424  # numbers from here on are common to all machines, and newer than the oldest kernel served


def compile_filter(pid: int) -> bytes:
    """The filter for the process `pid`, as an array of `struct sock_filter`."""
    steps: list[Step] = []
    for number in ALLOWED.values():
        steps += [(EQUAL, 0, 1, number), give(ALLOW)]
    for number, rules in _conditional(pid):
        steps += [(EQUAL, 0, len(rules), number), *rules]
    steps += [(AT_LEAST, 0, 1, _FIRST_UNKNOWN), give(ERRNO | ENOSYS), give(ERRNO | EPERM)]
    return assembled(steps)


def _conditional(pid: int) -> list[tuple[int, list[Step]]]:
    """Calls that depend on their arguments. Only a process's own threads are signalled, limits are read, not set."""
    return [
        *to_itself(pid),
        (_SOCKETPAIR, one_of(0, (1,))),  # AF_UNIX
        (_CLONE, [word(0), (ANY_BIT, 3, 0, _NAMESPACES), (AND, 0, 0, _THREAD), (EQUAL, 0, 1, _THREAD), *verdict()]),
        (_PRCTL, one_of(0, _PRCTLS)),
        (_TKILL, one_of(0, (pid,))),  # the main thread's id
        (_SCHED_GETAFFINITY, one_of(0, (0, pid))),
        (PRLIMIT64, [word(0), (EQUAL, 0, 5, 0), *zero(2)]),
    ]


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
    if not _may_unshare():
        return False
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


def _may_unshare() -> bool:
    """Try it in a child: where a namespace is granted and no user may be mapped into it, as on Ubuntu 24.04, this process would
    be nobody from then on.
    """
    child = os.fork()
    if child == 0:
        try:
            _unshare()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


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


SET_FILE_CAPABILITIES = 1 << 31
"""The capability CAP_SETFCAP, as a mask: without it no process of root makes a namespace in which root is somebody."""

_CAP_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_CAPBSET_READ, _PR_SET_SECUREBITS, _PR_CAP_AMBIENT = 24, 23, 28, 47
_CAP_AMBIENT_RAISE, _CAP_AMBIENT_CLEAR_ALL = 2, 4
_ROOT_IS_NOBODY = 0b101111  # NOROOT, NO_SETUID_FIXUP and KEEP_CAPS off for good: being uid 0 grants nothing


def drop_capabilities(keep: int = 0) -> None:
    """Drop every capability, in all sets and for all children, but for those of the mask `keep` which the process has; of these
    only the first 32. Raises `OSError` if another one is left.
    """
    had = status_of(os.getpid())["CapPrm"]
    keep &= had
    if had != 0:
        capability = 0
        while _prctl(_PR_CAPBSET_READ, capability) >= 0:
            if not keep >> capability & 1:
                _prctl(_PR_CAPBSET_DROP, capability)
            capability += 1
        _prctl(_PR_SET_SECUREBITS, _ROOT_IS_NOBODY)
        _prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
        _libc.capset(struct.pack("<Ii", _CAP_VERSION_3, 0), struct.pack("<6I", keep, keep, keep, 0, 0, 0))
        for capability in range(keep.bit_length()):
            if keep >> capability & 1:
                _prctl(_PR_CAP_AMBIENT, _CAP_AMBIENT_RAISE, capability)
    status = status_of(os.getpid())
    left = [name for name in ("CapPrm", "CapEff", "CapInh", "CapAmb") if status[name] & ~keep]
    if left:
        raise OSError(f"capabilities could not be given up: {', '.join(left)}")


_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parents end. Raises `OSError` if that fails."""
    _check(_prctl(_PR_SET_CHILD_SUBREAPER, 1), "subreaper")


def status_of(pid: int) -> dict[str, int]:
    """The kernel's status of a process: its capability sets, `NoNewPrivs`, `Seccomp`, `Seccomp_filters`, and its number in its
    own namespace, `NSpid`."""
    found: dict[str, int] = {}
    with open(f"/proc/{pid}/status") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.startswith("Cap"):
                found[name] = int(value, 16)
            elif name.startswith(("Seccomp", "NoNewPrivs", "NSpid")):
                found[name] = int(value.split()[-1])
    return found


def _prctl(option: int, *arguments: int) -> int:
    return int(_libc.prctl(option, *map(ctypes.c_ulong, (*arguments, 0, 0, 0)[:4])))
