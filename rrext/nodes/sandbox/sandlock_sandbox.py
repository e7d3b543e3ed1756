"""The engine on `sandlock`: it passes each program to its warden, or gives the reason why it cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import msgspec

from rrext.errors import Cancelled, ShuttingDown, ToolError, Unavailable
from rrext.nodes.child.blocks import block, receive, receive_rest
from rrext.nodes.sandbox.interpreter import command
from rrext.nodes.sandbox.limits import FAREWELL, OVERTIME, WARDEN_START, SandboxLimits
from rrext.nodes.sandbox.outcome import ProgramEnd, outcome
from rrext.nodes.sandbox.probe import probe, verdict
from rrext.nodes.sandbox.protocol import PythonRun

INSTALL = 'pip install "rrext[python]"'
_HERE = os.path.dirname(os.path.abspath(__file__))
_WARDEN = os.path.join(_HERE, "warden.py")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
_BOOT = "import sys; sys.path.extend(sys.argv[2:]); from rrext.nodes.sandbox.warden import main; main()"


def missing_piece() -> str | None:
    """The feature that this machine lacks, as far as known without a test; None if it lacks none.

    Imports `ctypes` to ask the kernel: call it from a worker thread.
    """
    if sys.platform != "linux":
        return "tool_python isolates programs with Linux's Landlock: it needs Linux 6.12 or newer"
    system = os.uname()
    if system.machine != "x86_64":
        return f"tool_python isolates programs on x86-64 alone, and this machine is {system.machine}"
    if _package_folder() is None:
        return f'tool_python needs the package "sandlock": {INSTALL}'
    return _missing_in_kernel(system.release)


def _missing_in_kernel(release: str) -> str | None:
    from rrext.nodes.child.landlock import NEEDED_ABI, abi

    offered = abi()
    if offered >= NEEDED_ABI:
        return None
    have = f"only Landlock ABI {offered}" if offered else "no Landlock, or it is switched off (see the boot parameter lsm=)"
    return f"tool_python needs Linux 6.12 or newer with Landlock ABI {NEEDED_ABI}, and this kernel, {release}, has {have}"


def _package_folder() -> str | None:
    from importlib.util import find_spec

    spec = find_spec("sandlock")
    if spec is None or spec.origin is None:
        return None
    return os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))


class SandlockSandbox:
    """A `PythonSandbox`. Costs nothing until the first program, which starts the warden and tests the confinement.

    `alone`: the kernel also granted namespaces, so that names of the host's files are hidden.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the test of the confinement is a call, too
        self._warden: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._missing: str | None = None
        self._checked = False
        self._closed = False
        self.alone = False

    def run(
        self, code: str, limits: SandboxLimits, on_cancel: Callable[[Callable[[], object]], None] | None = None
    ) -> PythonRun:
        """See `PythonSandbox.run`."""
        self._check()
        return self._call(code, limits, on_cancel)

    def close(self) -> None:
        """End the warden and all its children."""
        with self._lock:
            self._closed = True
            self._end_warden()

    def _check(self) -> None:
        """Test the confinement, once. Raises `Unavailable`."""
        if not self._checked:
            with self._lock:
                if not self._checked:
                    self._missing = missing_piece() or self._try_walls()
                    self._checked = True
        if self._missing is not None:
            raise Unavailable(self._missing)

    def _try_walls(self) -> str | None:
        try:
            wrong = verdict(self._call(probe(_WARDEN), SandboxLimits(), None))
        except Unavailable as error:
            return error.message
        return f"This machine does not isolate programs: {wrong}" if wrong else None

    def _call(self, code: str, limits: SandboxLimits, on_cancel: Callable[[Callable[[], object]], None] | None) -> PythonRun:
        ours, theirs = socket.socketpair()
        cancelled = False

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True
            _hang_up(ours)

        with ours:
            with theirs, self._lock:
                self._hand_over(theirs)
            ours.settimeout(limits.timeout + OVERTIME)
            try:
                ours.sendall(block(msgspec.json.encode({"code": code, **limits._asdict()})))
                if on_cancel is not None:
                    on_cancel(cancel)
                answer, report = receive(ours), receive_rest(ours)
            except (EOFError, ConnectionError) as error:
                raise self._lost(cancelled) from error
            except TimeoutError as error:
                raise ToolError("The sandbox did not answer in time; the program was given up") from error
        return outcome(msgspec.json.decode(answer, type=ProgramEnd), report, limits)

    def _lost(self, cancelled: bool) -> Exception:
        if cancelled:
            return Cancelled()
        if self._closed:
            return ShuttingDown("The sandbox was closed; the program was killed")
        return ToolError("The sandbox ended before the program did; the program was killed")

    def _hand_over(self, link: socket.socket) -> None:
        """Pass a call's socket to the warden; start the warden if it does not run."""
        if self._closed:
            raise ShuttingDown("The sandbox is closed")
        for _ in range(2):
            control = self._control or self._start_warden()
            try:
                socket.send_fds(control, [b"C"], [link.fileno()])
                return
            except (BrokenPipeError, ConnectionResetError):
                self._end_warden()
        raise ToolError("The sandbox's warden does not stay alive")

    def _start_warden(self) -> socket.socket:
        folder = _package_folder()
        if folder is None:
            raise Unavailable(f'tool_python needs the package "sandlock": {INSTALL}')
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._warden = subprocess.Popen(
                command("-c", _BOOT, str(theirs.fileno()), _ROOT, folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a terminal's Ctrl-C is the server's to handle
            )
        self._control = ours
        greeting = _greeting(ours)
        if greeting.missing is not None:
            self._end_warden()
            raise Unavailable(f"This machine cannot isolate programs: {greeting.missing}")
        self.alone = greeting.alone
        return ours

    def _end_warden(self) -> None:
        control, self._control = self._control, None
        warden, self._warden = self._warden, None
        if control is not None:
            control.close()
        if warden is not None:
            try:
                warden.wait(FAREWELL)
            except subprocess.TimeoutExpired:
                warden.kill()
                warden.wait()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "idle" if self._warden is None else f"warden {self._warden.pid}"
        return f"<SandlockSandbox {state}>"


class _Greeting(msgspec.Struct, frozen=True):
    missing: str | None
    alone: bool = False


def _greeting(control: socket.socket) -> _Greeting:
    """Read the warden's first message."""
    control.settimeout(WARDEN_START)
    try:
        word = control.recv(65_536)
    except TimeoutError:
        return _Greeting("the warden did not start in time")
    control.settimeout(None)
    return msgspec.json.decode(word, type=_Greeting) if word else _Greeting("the warden did not start")


def _hang_up(link: socket.socket) -> None:
    """Tell the supervisor that the call is cancelled; it kills the guest and ends, which ends the wait for its answer."""
    try:
        link.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the call has ended
