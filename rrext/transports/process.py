"""A child process with stdin and stdout as a byte channel, a drained stderr, and a certain end."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import weakref
from collections.abc import Callable, Mapping, Sequence

import anyio

from rrext.limits import CHILD_PIPE_SIZE, CHILD_POLL_INTERVAL, CLIENT_DEFAULTS
from rrext.transports.descriptor_channel import FdChannel, close_fd

logger = logging.getLogger("rrext.transports")


class ChildProcess(FdChannel):
    """A child in its own session, so that Ctrl-C in our terminal does not reach it.

    `stderr_tail` holds the last bytes of its stderr. The child's process group ends with it: remaining descendants are killed
    (on Linux), except those in sessions of their own. If this object is lost without `stop`, or the interpreter ends, the whole
    group is killed: no child outlives its owner.
    """

    __slots__ = ("__weakref__", "_finalizer", "_on_stderr", "_popen", "_stderr_fd", "_tail", "_tail_limit", "command")

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        rlimits: Mapping[str, int] | None = None,
        on_stderr: Callable[[bytes], object] | None = None,
        stderr_tail: int = CLIENT_DEFAULTS.stderr_tail,
    ) -> None:
        """Start `command`. `rlimits` maps names of `resource.RLIMIT_*` (`"AS"`, `"NOFILE"`) to a limit; Linux only.

        `on_stderr` receives each piece of stderr, on the event loop. Raises `OSError` if the start fails, `ValueError` for an
        unknown limit.
        """
        numbers = {_rlimit(name): value for name, value in (rlimits or {}).items()}
        self.command: list[str] = list(command)
        self._popen = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _kill_forgotten, self._popen, os.getpid())
        read_fd, write_fd, self._stderr_fd = _take_fds(self._popen)
        super().__init__(read_fd, write_fd)
        os.set_blocking(self._stderr_fd, False)
        self._tail = bytearray()
        self._tail_limit = stderr_tail
        self._on_stderr = on_stderr
        _enlarge(read_fd)
        _enlarge(write_fd)
        try:
            _limit(self._popen.pid, numbers)
        except BaseException:
            self._finalizer()  # a child without its limits must not run
            raise

    @property
    def pid(self) -> int:
        """The child's process id, and its process group's."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        return _reap(self._popen)

    @property
    def stderr_tail(self) -> str:
        """The kept end of the child's stderr."""
        return self._tail.decode("utf-8", "replace")

    async def drain_stderr(self) -> None:
        """Read stderr to its end, so that the child never blocks on it. Run it in its own task."""
        while True:
            try:
                piece = os.read(self._stderr_fd, 65536)
            except BlockingIOError:
                await anyio.wait_readable(self._stderr_fd)
                continue
            if not piece:
                return
            self._tail += piece
            del self._tail[: -self._tail_limit]
            self._pass_on(piece)

    def _pass_on(self, piece: bytes) -> None:
        if self._on_stderr is None:
            return
        try:
            self._on_stderr(piece)
        except Exception:
            logger.exception("on_stderr failed, and is not called again; stderr is still read")
            self._on_stderr = None

    async def wait(self) -> int:
        """Wait for the end of the child; returns the exit code."""
        if (code := self.returncode) is not None:
            return code
        fd = _pidfd(self.pid)
        try:
            while (code := self.returncode) is None:
                if fd < 0:
                    await anyio.sleep(CHILD_POLL_INTERVAL)
                else:
                    await anyio.wait_readable(fd)
            return code
        finally:
            if fd >= 0:
                os.close(fd)

    async def stop(self, patience: float = CLIENT_DEFAULTS.stop) -> int | None:
        """End the child: close its stdin, then SIGTERM, then SIGKILL to its group, with `patience` seconds for each.

        Cancellation does not interrupt it. Returns the exit code; None if not even SIGKILL ended the child in time.
        """
        with anyio.CancelScope(shield=True):
            self.close_write()
            for number in (signal.SIGTERM, signal.SIGKILL):
                if await self._ended(patience):
                    return self.returncode
                self.signal_group(number)
            if not await self._ended(patience):
                logger.error("process %d does not end, not even by SIGKILL", self.pid)
            return self.returncode

    async def _ended(self, patience: float) -> bool:
        with anyio.move_on_after(patience):
            await self.wait()
        return self.returncode is not None

    def signal_group(self, number: int) -> None:
        """Send a signal to the child and its children, unless it has ended."""
        _signal_group(self._popen, number)

    def close(self) -> None:
        """Close our ends of its pipes. The child continues, and is still killed with its owner."""
        super().close()
        fd, self._stderr_fd = self._stderr_fd, -1
        close_fd(fd)
        if self.returncode is not None:
            self._finalizer.detach()

    def __repr__(self) -> str:
        state = "running" if self.returncode is None else f"exited {self.returncode}"
        return f"<ChildProcess {self.pid} {state}: {shlex.join(self.command)}>"


def _take_fds(popen: subprocess.Popen[bytes]) -> tuple[int, int, int]:
    """Our ends of stdout, stdin and stderr, detached from the Popen object."""
    stdin, stdout, stderr = popen.stdin, popen.stdout, popen.stderr
    assert stdin is not None  # they are pipes, as we asked
    assert stdout is not None
    assert stderr is not None
    fds = os.dup(stdout.fileno()), os.dup(stdin.fileno()), os.dup(stderr.fileno())
    for stream in (stdin, stdout, stderr):
        stream.close()
    popen.stdin = popen.stdout = popen.stderr = None
    return fds


def _enlarge(fd: int) -> None:
    """Request a larger pipe; the default size works too."""
    try:
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, CHILD_PIPE_SIZE)
    except (ImportError, AttributeError, OSError):
        logger.debug("pipe %d keeps its default size", fd)


def _rlimit(name: str) -> int:
    import resource

    number = getattr(resource, f"RLIMIT_{name.upper().removeprefix('RLIMIT_')}", None)
    if not isinstance(number, int):
        raise ValueError(f'"{name}" is no resource limit of this system')
    return number


def _limit(pid: int, numbers: Mapping[int, int]) -> None:
    """Set limits on a child that was just started, while its interpreter still loads."""
    if not numbers:
        return
    import resource

    if not hasattr(resource, "prlimit"):
        raise ValueError("this system cannot limit another process (it has no prlimit)")
    for number, value in numbers.items():
        resource.prlimit(pid, number, (value, value))


def _pidfd(pid: int) -> int:
    """A descriptor that becomes readable at the end of the process, or −1 without support."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        return -1
    try:
        return int(opener(pid))
    except OSError:
        return -1


def _reap(popen: subprocess.Popen[bytes]) -> int | None:
    """The exit code of an ended child. Its group is killed before the reaping frees its number."""
    if popen.returncode is None and hasattr(os, "waitid"):
        try:
            ended = os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            ended = None  # other code reaped all children
        if ended is None:
            return popen.poll()
        _send(popen.pid, signal.SIGKILL)
    return popen.poll()


def _signal_group(popen: subprocess.Popen[bytes], number: int) -> None:
    if _reap(popen) is None:  # after reaping, another process may have its number
        _send(popen.pid, number)


def _send(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError) as error:
        logger.debug("signal %d reached nobody in group %d: %s", number, group, error)


def _kill_forgotten(popen: subprocess.Popen[bytes], owner: int) -> None:
    """Kill the child of a vanished owner, but not in a fork of the owner."""
    if os.getpid() != owner or _reap(popen) is not None:
        return
    _signal_group(popen, signal.SIGKILL)
    popen.wait()
