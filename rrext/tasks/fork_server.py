"""The start of workers. On Linux a fork server forks them: a process without threads that has imported what every worker
needs, and nothing else. It knows no pipeline, node, setting or secret of a task: these reach a worker through its own stdin.

The fork server is the parent of workers, and keeps each that has ended until the rrext server, which sees the end by itself,
has read the exit code. Workers live and end alike while it is stopped or gone; the next start makes another one. It ends with
the rrext server. Workers get the variables, the directory and the limits that the rrext server had at the first start.

Elsewhere each worker is a fresh interpreter: the libraries of macOS do not survive a fork without it.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Final

from rrext.threads import FEW_HEAPS
from rrext.transports.descriptors import ParentWatch

WORKER: Final = "worker_main"
FORK_SERVER: Final = "fork_server"
"""The modules of the two processes. The names have one length: a worker writes its own over the other one, for lists of
processes."""

HOME: Final = str(Path(__file__).parents[2])
PATIENCE: Final = 1.0
"""Seconds for an answer of the fork server; then it is told to go on, as somebody may have stopped it."""

MESSAGE: Final = 64
"""The maximum of bytes of a message: a number."""

STREAMS: Final = 3
"""The standard streams, whose descriptors are 0, 1 and 2."""

_STATE, _CODE_BEGINS, _ARGUMENTS_BEGIN, _EXIT_STATUS = 0, 23, 45, 49
"""Places in `/proc/PID/stat`, behind the name."""

IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that a terminal or a service manager sends to all processes. The rrext server decides their meaning."""


def _started(
    module: str, stdin: int, stdout: int, stderr: int | None = None, *, given: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """A process. No file of the working directory hides a module from it, and no argument tells anything of a pipeline."""
    code = f"import sys; sys.path.append({HOME!r}); from rrext.tasks.{module} import main; main(*{[*given]!r})"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        env={**FEW_HEAPS, **os.environ},
    )


class WorkerStarter:
    """Starts workers, from any thread. A worker leads a session of its own, so that a terminal's signals reach the server
    alone.
    """

    def __init__(self, *modules: str) -> None:
        """`modules` are what its workers need beyond what all workers do."""
        self._modules = modules
        self._lock = threading.Lock()
        self._forks = sys.platform == "linux"
        self._server: _ForkServer | None = None

    @property
    def parent(self) -> int:
        """The process whose children the workers are."""
        server = self._server
        return os.getpid() if server is None else server.pid

    def start(self) -> tuple[subprocess.Popen[bytes] | Forked, int, int, int]:
        """A new worker, and our ends of its standard streams. Raises `OSError`."""
        try:
            return self._start()
        except ConnectionError:  # the fork server was killed meanwhile, or long ago
            return self._start()

    def _start(self) -> tuple[subprocess.Popen[bytes] | Forked, int, int, int]:
        with ExitStack() as ours, ExitStack() as its:
            ends = []
            for is_input in (True, False, False):
                reads, writes = os.pipe()
                own, other = (writes, reads) if is_input else (reads, writes)
                ours.callback(os.close, own)
                its.callback(os.close, other)
                ends.append((own, other))
            with self._lock:
                process = self._process([other for _, other in ends])
            ours.pop_all()
        (stdin, _), (stdout, _), (stderr, _) = ends
        return process, stdin, stdout, stderr

    def _process(self, streams: Sequence[int]) -> subprocess.Popen[bytes] | Forked:
        if self._forks and (self._server is None or not self._server.lives):
            self.close()
            self._server = _ForkServer(self._modules)
            if not _tells_ends(self._server.pid):
                self._forks = False
                self.close()
        if self._server is not None:
            return self._server.fork(streams)
        return _started(WORKER, *streams)

    def close(self) -> None:
        """End the fork server. Workers that are left end by themselves, and nobody sees how."""
        if self._server is not None:
            self._server.end()
            self._server = None


class _ForkServer:
    """The fork server, as the rrext server sees it."""

    def __init__(self, modules: Sequence[str]) -> None:
        """Start it. Raises `OSError`."""
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            try:
                self._process = _started(FORK_SERVER, other.fileno(), subprocess.DEVNULL, given=modules)
            except BaseException:
                self._control.close()
                raise
        self.pid = self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def fork(self, descriptors: Sequence[int]) -> Forked:
        """Fork a worker; one call at a time."""
        try:
            self._wait(select.POLLOUT)
            socket.send_fds(self._control, [b"fork"], descriptors)
            self._wait(select.POLLIN)
            answer = self._control.recv(MESSAGE)
        except ConnectionError:
            answer = b""
        except BaseException:  # no memory, perhaps: the next one would read this answer
            self.end()
            raise
        if not answer:
            raise ConnectionResetError(errno.ECONNRESET, f"the fork server ended, its exit code was {self.end()}")
        number = int(answer)
        if number < 0:
            raise OSError(-number, os.strerror(-number))
        worker = Forked(number, self)
        if (
            not self.lives
        ):  # the number may have been another one's before we had a handle; the worker reads the end of its stdin
            worker.close()
            raise ConnectionResetError(errno.ECONNRESET, "the fork server ended")
        return worker

    def _wait(self, event: int) -> None:
        poll = select.poll()
        poll.register(self._control, event)
        while not poll.poll(PATIENCE * 1000):
            os.kill(self.pid, signal.SIGCONT)

    def release(self, pid: int) -> None:
        """Let a worker be forgotten that has ended. Never blocks: one that was stopped for long may keep it."""
        with suppress(OSError):
            self._control.send(b"%d" % pid, socket.MSG_DONTWAIT)

    def end(self) -> int:
        """End it, at once; its exit code."""
        self._process.kill()
        self._control.close()
        return self._process.wait()


class Forked:
    """A forked worker, with those parts of a `subprocess.Popen` that are asked."""

    def __init__(self, pid: int, server: _ForkServer) -> None:
        self.pid = pid
        self.handle = handle_of(pid)
        """A descriptor that tells its end; -1 if the system has none left."""
        self._server = server

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        try:
            return _status(self.pid)[_STATE] == b"Z"
        except OSError:
            return True

    @property
    def has_number(self) -> bool:
        """Whether no other process can have its number: the fork server keeps it, or the process has not been forgotten."""
        if self.handle < 0:
            return self._server.lives
        try:
            signal.pidfd_send_signal(self.handle, 0)
        except OSError:
            return False
        return True

    def wait(self) -> int | None:
        """The exit code, None if the system has forgotten it. The worker has ended; from now on another process may have its
        number."""
        code = _exit_code(self.pid) if self.has_number else None
        self._server.release(self.pid)
        self.close()
        return code

    def close(self) -> None:
        """Close the handle."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def handle_of(pid: int) -> int:
    """A descriptor of a process, which tells its end, and never means another one; -1 if the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _exit_code(pid: int) -> int | None:
    """The exit code of a process that has ended, and whose parent does not know it yet."""
    with suppress(OSError):
        status = _status(pid)
        if status[_STATE] == b"Z":
            return os.waitstatus_to_exitcode(int(status[_EXIT_STATUS]))
    return None


def _tells_ends(pid: int) -> bool:
    """Whether the system tells this process the end of another one, which is no child, and its exit code."""
    try:
        os.close(os.pidfd_open(pid))
        return _status(pid)[_CODE_BEGINS] != b"1"  # which stands for what is not told
    except (AttributeError, OSError):
        return False


def _status(pid: int | str) -> list[bytes]:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return file.read().rpartition(b") ")[2].split()


# -- the fork server itself


def main(*modules: str) -> None:
    """Fork a worker for each request, until the rrext server is gone; and be each of these workers. `modules` are imported for
    all of them."""
    from rrext.tasks.worker_main import import_usual
    from rrext.tasks.worker_main import main as work

    gc.disable()
    import_usual()
    for module in modules:
        import_module(module)
    gc.freeze()  # no worker looks for garbage here, which writes to pages that all workers share
    parent = os.getppid()
    _serve(socket.socket(fileno=0), parent)
    _rename()
    work(ParentWatch(parent, is_parent=False))


def _serve(control: socket.socket, parent: int) -> None:
    """Serve the rrext server to its end, and return in each worker."""
    inherited = {number: signal.getsignal(number) for number in (*IGNORED, signal.SIGCHLD)}
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else no exit code is kept
    poll = select.poll()
    poll.register(control, select.POLLIN)
    with suppress(OSError):  # it is gone, which the socket tells too
        poll.register(os.pidfd_open(parent), select.POLLIN)  # for a copy of its socket in another process
    while True:
        request, descriptors = b"", list[int]()
        if all(fd == control.fileno() for fd, _ in poll.poll()):
            with suppress(ConnectionError):
                request, descriptors, _, _ = socket.recv_fds(control, MESSAGE, STREAMS)
        if not request:
            os._exit(0)
        if request.isdigit():
            with suppress(ChildProcessError):
                os.waitpid(int(request), 0)
            continue
        try:
            answer = _fork(descriptors)
        except OSError as error:
            answer = -(error.errno or errno.EAGAIN)
        if answer == 0:
            control.detach()
            for number, handler in inherited.items():
                signal.signal(number, handler)
            _take(descriptors)
            return
        for fd in descriptors:
            os.close(fd)
        with suppress(ConnectionError):  # read above
            control.send(b"%d" % answer)


def _fork(descriptors: Sequence[int]) -> int:
    """The number of a new worker, after it has taken the descriptors or has ended; 0 in the worker."""
    if len(descriptors) < STREAMS:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    taken, takes = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(takes)
        os.close(taken)
        raise
    if pid:
        os.close(takes)
        os.read(taken, 1)
        os.close(taken)
    return pid


def _take(descriptors: Sequence[int]) -> None:
    """In a worker: lead a session, with these standard streams and no other descriptor."""
    os.setsid()
    for number, fd in enumerate(descriptors):
        os.dup2(fd, number)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd >= STREAMS:
            with suppress(OSError):  # the one of the list
                os.close(fd)


def _rename() -> None:
    """In a worker: stand in lists of processes as one."""
    own, other = WORKER.encode(), FORK_SERVER.encode()
    threading.main_thread()._native_id = os.getpid()  # type: ignore[attr-defined] # CPython 3.11 leaves the parent's
    sys.orig_argv = [word.replace(FORK_SERVER, WORKER) for word in sys.orig_argv]
    with (
        suppress(OSError, ValueError),
        open("/proc/self/cmdline", "rb") as words,
        open("/proc/self/mem", "r+b", buffering=0) as memory,
    ):
        memory.seek(int(_status("self")[_ARGUMENTS_BEGIN]) + words.read().index(other))
        memory.write(own)
