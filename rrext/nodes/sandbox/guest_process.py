"""A guest process: an interpreter in sandlock's confinement, with its three pipes and its channel."""

from __future__ import annotations

import os
import resource
import signal
import socket
from typing import Any, Final

import sandlock

from rrext.nodes.sandbox.interpreter import Files, block, command
from rrext.nodes.sandbox.kernel import compile_filter, status_of

NICENESS: Final = 5
"""The priority of a guest: when processors are busy, the server comes first."""
PENDING_SIGNALS: Final = 64
"""Signals that wait in a guest: the kernel counts those of all processes of a user together, and has about 100,000."""

# Runs what it is sent: the guest's own code, compiled in the warden so that no guest compiles it again.
_BOOT = (
    "import marshal,os\n"
    "def r(n):\n"
    " b=b''\n"
    " while len(b)<n: b+=os.read(0,n-len(b)) or os._exit(125)\n"
    " return b\n"
    "n={'__name__':'guest'}\n"
    "codes,given=marshal.loads(r(int.from_bytes(r(4),'little')))\n"
    "for c in codes: exec(c,n)\n"
    "raise SystemExit(n['main'](n['encode_result'],n.get('Packages'),*given))\n"
)
_FILTERS = 2  # sandlock's and the guest's own, beside any that the server was started with


class WallMissing(Exception):
    """A required protection is missing; no code of the program has run."""


class GuestProcess:
    """Starts a guest from this process, and takes over its descriptors 0, 1 and 2. One for each process."""

    def __init__(self, files: Files, guest_code: bytes) -> None:
        self.channel, theirs = socket.socketpair()
        self.stdout, out_end = os.pipe()
        self.stderr, err_end = os.pipe()
        for end, standard in ((theirs.detach(), 0), (out_end, 1), (err_end, 2)):
            os.dup2(end, standard)
            os.close(end)
        self.process: Any = _policy(files).popen(command("-c", _BOOT))
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # only the guest holds them now, so that they close with it
            os.dup2(nothing, standard)
        self.pid: int = self.process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.send(guest_code)
        self.send(compile_filter(self.pid))

    def send(self, data: bytes) -> None:
        """Send the guest a block. No error if the guest is dead: its watcher notices that."""
        try:
            self.channel.sendall(block(data))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def bound(self, *, memory: int, open_files: int, cpu: int) -> None:
        """Set the kernel's limits: bytes of address space, descriptors, seconds of processor time."""
        for limit, value in (
            (resource.RLIMIT_AS, memory),
            (resource.RLIMIT_NOFILE, open_files),
            (resource.RLIMIT_CPU, cpu),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
            (resource.RLIMIT_SIGPENDING, PENDING_SIGNALS),
        ):
            resource.prlimit(self.pid, limit, (value, value))
        # No process may become more important without a privilege, and a server that runs under `nice` is less so already.
        os.setpriority(os.PRIO_PROCESS, self.pid, max(NICENESS, os.getpriority(os.PRIO_PROCESS, self.pid)))

    def check_walls(self) -> None:
        """Check the guest's confinement from outside, after it says `LOCKED`. Raises `WallMissing`."""
        status = status_of(self.pid)
        wrong = [name for name in ("CapPrm", "CapEff", "CapInh", "CapAmb") if status[name]]
        if status["NoNewPrivs"] != 1:
            wrong.append("NoNewPrivs")
        if status["Seccomp"] != 2 or status["Seccomp_filters"] < status_of(os.getpid())["Seccomp_filters"] + _FILTERS:
            wrong.append("Seccomp")
        if wrong:
            raise WallMissing(", ".join(wrong))

    def thread_count(self) -> int:
        """The number of the guest's threads, its first one included; 0 once it is gone."""
        try:
            return os.stat(f"/proc/{self.pid}/task").st_nlink - 2
        except OSError:
            return 0

    def memory(self) -> int:
        """The guest's memory in bytes, swapped out or not; 0 once it is gone."""
        try:
            with open(f"/proc/{self.pid}/status") as lines:
                return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("VmRSS:", "VmSwap:")))
        except OSError:
            return 0

    def kill(self) -> None:
        """Kill the guest; it has no children, and cannot prevent this."""
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait(self) -> tuple[int, int]:
        """The guest's exit status, or −1, and the signal that killed it, or 0."""
        end = self.process.wait()
        if end.reason == sandlock.ExitReason.EXITED:
            return end.exit_code, 0
        # sandlock has no number for a kill that is beyond asking: SIGKILL is the only such signal.
        return -1, end.signal if end.signal > 0 else int(signal.SIGKILL)


def _policy(files: Files) -> Any:
    return sandlock.Sandbox(
        fs_readable=[*files.roots, *files.packages],
        fs_writable=list(files.devices),
        fs_denied=list(files.hidden),
        clean_env=True,
        max_processes=1,
        cwd="/",
    )
