"""Processes of rrext that start in a few milliseconds: a process that has imported rrext forks for each of them.

    process = Forked(["python", "-m", "rrext", "serve"], stdin=PIPE, stdout=PIPE)

`Forked` is a `subprocess.Popen`: such a process has a pid, a session, descriptors, a folder, arguments and variables of its
own, and ends by signals or exit codes. It shares with the others what every process of rrext does first, most of the time of
a short test: the start of the interpreter, and the imports. Tests of these, of variables that Python reads at its start, and
of what the system says about a process (`/proc`, its parent), take `subprocess.Popen`.

`process` chooses. Run as a program, this file is the process that forks.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import signature
from io import TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

__all__ = ["FORKING", "Forked", "completed", "process"]

ROOT: Final = Path(__file__).resolve().parents[1]
PATIENCE: Final = 50.0
"""Seconds until a process that should end is killed."""
MESSAGE: Final = 1 << 20
DESCRIPTORS: Final = 32
HIGH: Final = 200
"""Descriptors on their way are moved above those of a process's own."""
MODULES: Final = {
    "rrext": ("anyio._backends._asyncio", "rrext.cli", "rrext.client", "rrext.engine", "rrext.server", "rrext.nodes.base"),
    "lsp": ("rrext.editor", "rrext.faces.lsp"),
    "mcp": ("rrext.faces.mcp",),
    "--ws": ("rrext.faces.ws",),
    "rrext.nodes.graph.ladybug_worker": ("rrext.nodes.graph", "ladybug"),
    "rrext.nodes.sql.duckdb.worker": ("rrext.nodes.sql.duckdb", "duckdb"),
    "rrext.nodes.vectors.edge.worker": ("rrext.nodes.vectors.edge", "qdrant_edge"),
}
"""Word of a command → what is imported before a fork for it. Not numpy, which starts threads: a fork loses them."""
INHERITED: Final = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
"""The signals that a process ignores if it was started so, and what Python does at them else."""
LOCALE: Final = ("LC_ALL", "LC_CTYPE", "LANG")
OF_START: Final = ("PYTHON", "MALLOC_", "LD_")
"""Variables that are read at the start of a process begin so."""
HARMLESS: Final = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
"""Variables of Python that are heeded, or decide nothing that a test sees."""


def process(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a process: a forked one if it can be."""
    is_program = command[0] == sys.executable and (command[1] in ("-m", "-c", "-P") or command[1].endswith(".py"))
    can_fork = sys.platform == "linux" and is_program and options.get("preexec_fn") is None
    is_alike = start_of(options.get("env") or os.environ) == start_of(os.environ)
    return (Forked if can_fork and is_alike else subprocess.Popen)(command, **options)


def completed(command: Sequence[str], stdin: Any = subprocess.DEVNULL, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a process to its end. `stdin` is what it reads, or a descriptor."""
    given = subprocess.PIPE if isinstance(stdin, bytes) else stdin
    with process(command, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as started:
        try:
            out, err = started.communicate(stdin if isinstance(stdin, bytes) else None, timeout=PATIENCE)
        finally:
            started.kill()
    return subprocess.CompletedProcess(command, started.returncode, out, err)


def start_of(variables: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """What a process reads of these variables at its start: the locale, and those of Python and the system's libraries."""
    locale = next((variables[name] for name in LOCALE if variables.get(name)), "C.UTF-8")
    own = {name: value for name, value in variables.items() if name.startswith(OF_START) and name not in HARMLESS}
    return locale, own


FORKING: Final = SimpleNamespace(**{**vars(subprocess), "Popen": process})
"""Stands in for the module `subprocess` in a module that starts processes of rrext."""


class _Forker:
    """The process that forks, and the way to it. It ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE)
        command = [sys.executable, "-P", __file__, str(other.fileno())]
        with other, open(os.devnull, "r+b") as nothing:
            variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            self._process = subprocess.Popen(command, stdin=nothing, stdout=nothing, pass_fds=[other.fileno()], env=variables)
        atexit.register(self._end)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """The pid of a new process."""
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            return int(self._socket.recv(100))


class Forked(subprocess.Popen[bytes]):
    """A process that runs `python -m MODULE`, `python -c CODE` or `python FILE.py` without the start of Python."""

    _forker: _Forker | None = None
    _status: int
    """A pipe whose other end gets the status of the process."""

    def _execute_child(self, *given: Any) -> None:
        inherited = super()._execute_child
        arguments = signature(inherited).bind(*given).arguments
        words, variables = [os.fspath(word) for word in arguments["args"]], arguments["env"]
        if Forked._forker is None:
            Forked._forker = _Forker()
        self._status, reported = os.pipe()
        passed = sorted(arguments["pass_fds"])
        standard = [
            own if number == -1 else number
            for own, number in enumerate((arguments["p2cread"], arguments["c2pwrite"], arguments["errwrite"]))
        ]
        request = {
            "words": words[1:],
            "folder": os.path.abspath(arguments["cwd"] or "."),
            "variables": dict(os.environ if variables is None else variables),
            "is_leader": arguments["start_new_session"],
            "ignored": [number for number in INHERITED if signal.getsignal(number) is signal.SIG_IGN],
            "passed": passed,
        }
        try:
            self.pid = Forked._forker.fork(request, [reported, *standard, *passed])
            self._child_created = True
        finally:
            os.close(reported)
            names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(arguments[name] for name in names))

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            self._ended(0.0)
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        raise NotImplementedError("Popen asks `_wait`")

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None and not self._ended(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _ended(self, timeout: float | None) -> bool:
        select.select([self._status], [], [], timeout)
        with self._waitpid_lock:
            if self.returncode is None and select.select([self._status], [], [], 0.0)[0]:
                status = os.read(self._status, 100)
                os.close(self._status)
                self.returncode = os.waitstatus_to_exitcode(int(status)) if status else -signal.SIGKILL
        return self.returncode is not None


def serve(control: socket.socket) -> None:
    """Fork for each request until the tests are gone."""
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reported: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control, awake], [], [])
        if awake in ready:
            os.read(awake, 100)
            report(reported)
        if control not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE, DESCRIPTORS)
        if not message:
            return
        request = json.loads(message)
        prepare(request["words"])
        pid = os.fork()
        if pid == 0:
            for number in (awake, wake, *reported.values(), descriptors[0]):
                os.close(number)
            become(request, descriptors[1:], control)
        reported[pid] = descriptors[0]
        for number in descriptors[1:]:
            os.close(number)


@cache
def imported(name: str) -> None:
    """Import a module, and those of our own below it but the programs."""
    module = importlib.import_module(name)
    own = getattr(module, "__path__", ()) if name.startswith("rrext") else ()
    for below in pkgutil.walk_packages(own, f"{name}."):
        if not below.name.endswith((".worker", "_worker", ".__main__")):
            importlib.import_module(below.name)
    gc.collect()
    gc.freeze()


def prepare(words: Sequence[str]) -> None:
    """Import what a command needs, unless an earlier one did."""
    for word in ("rrext", *words):
        for name in MODULES.get(word, ()):
            imported(name)
    assert len(os.listdir("/proc/self/task")) == 1


def report(reported: dict[int, int]) -> None:
    """Report the status of each process that has ended."""
    while reported:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        os.write(reported[pid], b"%d" % status)
        os.close(reported.pop(pid))


def become(request: dict[str, Any], descriptors: list[int], control: socket.socket) -> None:
    """Be the process of a request to its end.

    The process itself sends its pid to the tests, after it leads its session and ignores the inherited signals.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, handler in INHERITED.items():
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else handler)
    if request["is_leader"]:
        os.setsid()
    control.send(b"%d" % os.getpid())
    control.close()
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGH) for number in descriptors]
    for number in descriptors:
        os.close(number)
    for number, target in zip(moved, [0, 1, 2, *request["passed"]], strict=True):
        os.dup2(number, target)
        os.close(number)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    for name in ("rrext.cli", "rrext.cli.commands.servers.serve", "rrext.cli.commands.servers.lsp"):
        if name in sys.modules:
            sys.modules[name].PARENT = os.getppid()  # type: ignore[attr-defined]
    words = request["words"]
    is_safe = words[0] == "-P"
    words = words[is_safe:]
    if words[0] not in ("-m", "-c"):
        words.insert(0, "")  # a file is run
    first = {"-m": request["folder"], "-c": "", "": os.path.dirname(words[1])}[words[0]]
    places = [place for place in request["variables"].get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:] = [*([] if is_safe else [first]), *places, *STANDARD]
    sys.argv = [words[0] or words[1], *words[2:]]
    is_unbuffered = "PYTHONUNBUFFERED" in os.environ
    for number, name, mode in ((0, "stdin", "rb"), (1, "stdout", "wb"), (2, "stderr", "wb")):
        buffering = 0 if is_unbuffered and mode == "wb" else -1
        stream = TextIOWrapper(
            open(number, mode, buffering=buffering, closefd=False),  # noqa: SIM115
            encoding=getattr(sys, name).encoding,
            errors="backslashreplace" if name == "stderr" else "strict",
            line_buffering=name == "stderr",
            write_through=is_unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os._exit(run(words[0], words[1]))


def run(option: str, program: str) -> int:
    """Run a program as `__main__`, and end as Python does; the exit code."""
    code: Any = 0
    try:
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        elif option == "-c":
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # threads that are no daemons are waited for
    atexit._run_exitfuncs()
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except OSError:
        traceback.print_exc()
        code = 120
    return code & 0xFF


STANDARD: list[str] = []
"""The module path of Python itself."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    STANDARD[:] = sys.path
    sys.path.insert(0, str(ROOT))
    serve(control)


if __name__ == "__main__":
    main()
