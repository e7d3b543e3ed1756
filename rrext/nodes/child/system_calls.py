"""Filters of system calls (seccomp), written step by step, and the one of processes that read what is not trusted.

x86-64 only: the numbers are another machine's own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from typing import Final

LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
EPERM, ENOSYS = 1, 38

_X86_64 = 0xC000003E
_X32_BIT = 0x40000000

Step = tuple[int, int, int, int]


def assembled(steps: Iterable[Step]) -> bytes:
    """The filter as an array of `struct sock_filter`; `steps` begin with the number of the call. Calls in the manner of other
    machines kill the process.
    """
    head: list[Step] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, _X86_64),
        give(KILL_PROCESS),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, _X32_BIT),
        give(KILL_PROCESS),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in (*head, *steps))


def one_of(argument: int, values: tuple[int, ...]) -> list[Step]:
    """Allow if the argument, an `int` of the call, is one of the values."""
    tests = [(EQUAL, len(values) - 1 - index, 0, value) for index, value in enumerate(values)]
    return [word(argument), *tests[:-1], (EQUAL, 0, 1, values[-1]), *verdict()]


def zero(argument: int) -> list[Step]:
    """Allow if the argument, a pointer, is null."""
    return [word(argument), (EQUAL, 0, 3, 0), word(argument, high=True), (EQUAL, 0, 1, 0), *verdict()]


def verdict() -> list[Step]:
    """Allow, or, one step further, refuse."""
    return [give(ALLOW), give(ERRNO | EPERM)]


def give(value: int) -> Step:
    """End with this."""
    return (RETURN, 0, 0, value)


def word(argument: int, *, high: bool = False) -> Step:
    """Load a half of an argument."""
    return (LOAD, 0, 0, 16 + 8 * argument + (4 if high else 0))


OUTSIDE: Final = {
    "socket": 41, "connect": 42, "bind": 49, "listen": 50, "sendmmsg": 307, "io_uring_setup": 425, "truncate": 76, "chmod": 90,
    "chown": 92, "lchown": 94, "utime": 132, "setxattr": 188, "lsetxattr": 189, "removexattr": 197, "lremovexattr": 198,
    "utimes": 235, "fchownat": 260, "futimesat": 261, "fchmodat": 268, "utimensat": 280, "fchmodat2": 452, "ptrace": 101,
    "rt_sigqueueinfo": 129, "tkill": 200, "rt_tgsigqueueinfo": 297, "process_vm_readv": 310, "process_vm_writev": 311,
    "pidfd_send_signal": 424, "pidfd_getfd": 438, "execve": 59, "execveat": 322, "mount": 165, "unshare": 272, "setns": 308,
    "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203, "sched_setattr": 314,
    "ioprio_set": 251, "migrate_pages": 256, "move_pages": 279, "process_madvise": 440, "process_mrelease": 448, "kcmp": 312,
    "perf_event_open": 298, "bpf": 321, "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66,
    "semtimedop": 220, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "mq_open": 240, "mq_unlink": 241,
    "add_key": 248, "request_key": 249, "keyctl": 250,
}  # fmt: skip
"""Calls by which a process reaches others, the network, or what no or not every Landlock keeps of files."""

_IOCTL, _SENDTO, _SOCKETPAIR, _KILL, _FCNTL, _TGKILL = 16, 44, 53, 62, 72, 234
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_FCNTLS = (0, 1, 2, 3, 4, 1030, 1032)  # F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_DUPFD_CLOEXEC F_GETPIPE_SZ
PRLIMIT64: Final = 302
_STREAMS = (0x1, 0x801, 0x80001, 0x80801)  # SOCK_STREAM, with SOCK_NONBLOCK and SOCK_CLOEXEC: they reach their other end alone
_SECCOMP, _MODE_FILTER, _ALL_THREADS = 317, 1, 1
_PR_SET_NO_NEW_PRIVS = 38


def to_itself(pid: int) -> list[tuple[int, list[Step]]]:
    """Rules by which the process `pid` signals itself alone: by no descriptor either, which can have an owner who gets a signal
    when it is ready (F_SETOWN, FIOSETOWN). Nothing is sent to an address, only to the other end of a socket pair.
    """
    return [
        (_IOCTL, one_of(1, _IOCTLS)),
        (_SENDTO, zero(4)),
        (_KILL, one_of(0, (pid,))),
        (_FCNTL, one_of(1, _FCNTLS)),
        (_TGKILL, one_of(0, (pid,))),
    ]


def refuse_outside() -> None:
    """Refuse the calls of `OUTSIDE` to this process with all its threads, and signals and limits to any but itself. It holds
    without Landlock, and with an older one, which refuses less.

    Raises `OSError` if it fails; nothing happens where the kernel has no filters, or on another processor.
    """
    if os.uname().sysname != "Linux" or os.uname().machine != "x86_64":
        return
    steps = [step for number in OUTSIDE.values() for step in ((EQUAL, 0, 1, number), give(ERRNO | EPERM))]
    pid = os.getpid()
    for number, rules in (*to_itself(pid), (_SOCKETPAIR, one_of(1, _STREAMS)), (PRLIMIT64, one_of(0, (0, pid)))):
        steps += [(EQUAL, 0, len(rules), number), *rules]
    filters = assembled([*steps, give(ALLOW)])

    class _Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    program = ctypes.byref(_Program(len(filters) // 8, filters))
    if libc.syscall(ctypes.c_long(_SECCOMP), ctypes.c_ulong(_MODE_FILTER), ctypes.c_ulong(_ALL_THREADS), program):
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, f"filter: {os.strerror(number)}")
