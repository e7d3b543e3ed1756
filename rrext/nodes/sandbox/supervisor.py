"""One program from start to end, in a process of its own: it starts the guest, checks its confinement, watches, reports.

The warden forks a supervisor for each call. Over `host`, a socket to the server, it gets one block of JSON, `{code,
timeout, memory, total_memory, threads, open_files, output, result}`, and answers with one, `{why, exit_code, signal,
stdout, stderr}`, followed by the guest's own report, unread. If the server closes its end, or dies, the guest is killed.

The guest is an interpreter in the confinement of an engine (`Walls`), with two pipes and a channel (`GuestProcess`).
"""

from __future__ import annotations

import json
import marshal
import os
import resource
import select
import signal
import socket
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from rrext.nodes.sandbox.grant import Share
from rrext.nodes.sandbox.guest import LOCKED
from rrext.nodes.sandbox.interpreter import block, receive
from rrext.nodes.sandbox.kernel import compile_filter, status_of
from rrext.nodes.sandbox.outcome import Capture

GUEST_START: Final = 30.0
"""Seconds for the interpreter to start; a loaded machine needs a few."""

GLANCE: Final = 0.05
"""Seconds between two checks of the number of threads, and of the memory of all guests."""

READ_AT_ONCE: Final = 65_536
"""Bytes of one read from a pipe of the guest."""

ENVELOPE: Final = 1024
"""Bytes of a report beside the result itself: the exit code, and a word of up to 100 characters."""


class Walls(ABC):
    """An engine in the warden. The warden makes it, with what programs may read, and is confined by `enclose`."""

    @abstractmethod
    def enclose(self) -> bool:
        """Confine the warden, which has one thread, as far as the engine can then still work. Returns whether names of files
        are hidden from guests. Raises `OSError` if that fails."""

    @abstractmethod
    def start(self) -> GuestProcess:
        """Start the guest of this process, a supervisor."""


def supervise(host: socket.socket, walls: Walls, guest_code: bytes, share: Share) -> None:
    """Serve the one request of `host`; write the guest's memory use to `share`.

    Raises `EOFError` if it is given up before it is made.
    """
    request: dict[str, Any] = json.loads(receive(host))
    try:
        guest = walls.start()
        guest.send(guest_code)
        guest.send(compile_filter(guest.inside))
    except Exception as error:
        _answer(host, {"why": f"walls: {error or type(error).__name__}"})
        return
    try:
        _GuestWatch(host, request, guest, share).serve()
    except Exception as error:
        guest.kill()
        _answer(host, {"why": f"broken: {type(error).__name__}: {error}"})


def _answer(host: socket.socket, answer: dict[str, Any], report: bytes = b"") -> None:
    try:
        host.sendall(block(json.dumps(answer).encode()) + report)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server has cancelled the call


class _GuestWatch:
    """Watches a running guest. All its output is bounded, and passed on without being parsed."""

    def __init__(self, host: socket.socket, request: dict[str, Any], guest: GuestProcess, share: Share) -> None:
        self._share = share
        self._host = host
        self._request = request
        self._guest = guest
        self._streams = {fd: Capture(request["output"]) for fd in (guest.stdout, guest.stderr)}
        self._report = bytearray()
        self._why = ""
        self._locked = False
        self._deadline = time.monotonic() + GUEST_START

    def serve(self) -> None:
        """Run the program to its end and answer the server."""
        self._watch()
        self._share.note(0)
        exit_code, signal_number = self._guest.wait()
        answer = {
            "why": self._why or ("ended" if self._locked else "walls"),
            "exit_code": exit_code,
            "signal": signal_number,
            "stdout": self._streams[self._guest.stdout].text(),
            "stderr": self._streams[self._guest.stderr].text(),
        }
        _answer(self._host, answer, bytes(self._report))

    def _watch(self) -> None:
        """Move bytes and enforce limits until the guest is dead and its pipes are empty."""
        guest, poll = self._guest, select.poll()
        sources = {fd: stream.feed for fd, stream in self._streams.items()}
        sources[guest.channel.fileno()] = self._receive_report
        for fd in sources:
            poll.register(fd, select.POLLIN)
        poll.register(guest.pidfd, select.POLLIN)
        poll.register(self._host, select.POLLIN)  # the server says nothing more: whatever comes is its end
        glance = 0.0
        while True:
            ready = [fd for fd, _ in poll.poll(GLANCE * 1000)]
            for fd in ready:
                if fd in sources and not _move(fd, sources[fd]):
                    poll.unregister(fd)
            if self._host.fileno() in ready:
                poll.unregister(self._host)
                self._stop("cancelled")
            if guest.pidfd in ready:
                break
            now = time.monotonic()
            if now >= self._deadline:
                self._stop("timeout" if self._locked else "walls")
            if now >= glance:
                glance = now + GLANCE
                self._enforce_limits()
        for fd, take in sources.items():
            os.set_blocking(fd, False)
            while _move(fd, take):
                pass

    def _enforce_limits(self) -> None:
        """Enforce the limits that the kernel does not."""
        if self._guest.thread_count() - 1 > self._request["threads"]:
            self._stop("threads")
        self._share.note(self._guest.memory())
        if self._share.is_one_too_many(self._request["total_memory"]):
            self._stop("memory")

    def _stop(self, why: str) -> None:
        self._why = self._why or why
        self._deadline = float("inf")
        self._guest.kill()

    def _receive_report(self, data: bytes) -> None:
        if not self._locked and not self._why:
            self._release(data[:1])
            data = data[1:]
        if len(self._report) <= self._request["result"] + ENVELOPE:  # a longer one is cut, which makes it unreadable
            self._report += data

    def _release(self, word: bytes) -> None:
        """Send the program to the guest, if its confinement is complete."""
        request = self._request
        try:
            if word != LOCKED:
                raise WallMissing("the guest did not lock itself in")
            cores = os.cpu_count() or 1
            # The time limit ends a program long before; this limit works even without a supervisor.
            cpu = int(request["timeout"] * cores) + 2
            self._guest.check_walls()
            self._guest.bound(memory=request["memory"], open_files=request["open_files"], cpu=cpu)
        except (WallMissing, OSError) as error:
            self._stop(f"walls: {error}")
            return
        self._locked = True
        self._deadline = time.monotonic() + request["timeout"]
        self._guest.send(marshal.dumps((request["code"], request["result"])))


def _move(fd: int, take: Any) -> bool:
    """Move available bytes; return False at the end, or if there are none."""
    try:
        data = os.read(fd, READ_AT_ONCE)
    except (BlockingIOError, ConnectionResetError):
        return False
    take(data)
    return bool(data)


NICENESS: Final = 5
"""The priority of a guest: when processors are busy, the server comes first."""

PENDING_SIGNALS: Final = 64
"""Signals that wait in a guest: the kernel counts those of all processes of a user together, and has about 100,000."""

# Runs what it is sent: the guest's own code, compiled in the warden so that no guest compiles it again.
BOOT: Final = (
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


class WallMissing(Exception):
    """A required protection is missing; no code of the program has run."""


class GuestProcess(ABC):
    """A guest of this process. It gets descriptors 0, 1 and 2 of this process, of which there is one for each guest.

    `pid` is its process id here, `inside` as the guest sees it, and `pidfd` is readable when all of it has ended.
    """

    filters: ClassVar[int] = 1
    """Filters of system calls that a guest must have beside those that the server was started with."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        self.stdout, out_end = os.pipe()
        self.stderr, err_end = os.pipe()
        for end, standard in ((theirs.detach(), 0), (out_end, 1), (err_end, 2)):
            os.dup2(end, standard)
            os.close(end)
        self.pid, self.inside = self.start()
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):  # only the guest holds them now, so that they close with it
            os.dup2(nothing, standard)
        self.pidfd = os.pidfd_open(self.pid)

    @abstractmethod
    def start(self) -> tuple[int, int]:
        """Start the interpreter with `BOOT`, and return `pid` and `inside`."""

    @abstractmethod
    def wait(self) -> tuple[int, int]:
        """The guest's exit status, or −1, and the signal that killed it, or 0."""

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
        if wrong := self.missing_walls():
            raise WallMissing(", ".join(wrong))

    def missing_walls(self) -> list[str]:
        """The names of the walls that do not stand."""
        status = status_of(self.pid)
        wrong = [name for name in ("CapPrm", "CapEff", "CapInh", "CapAmb") if status[name]]
        if status["NoNewPrivs"] != 1:
            wrong.append("NoNewPrivs")
        if status["Seccomp"] != 2 or status["Seccomp_filters"] < status_of(os.getpid())["Seccomp_filters"] + self.filters:
            wrong.append("Seccomp")
        return wrong

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
