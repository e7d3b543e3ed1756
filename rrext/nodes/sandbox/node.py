"""`tool_python`: runs the programs of agents and other callers in a sandbox, or gives the reason why it cannot.

The child kit starts, restarts and ends the warden. The warden does not answer requests as the other children do: each call has
a socket of its own, to a supervisor that the warden forks. A fork copies what the warden has, so it has one thread, no
environment, and neither the server's queues nor msgspec, which the frames of the kit need.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from rrext.content import Content
from rrext.errors import Cancelled, InvalidArguments, ShuttingDown, ToolError, Unavailable
from rrext.nodes.base.node import Node
from rrext.nodes.child.process import launch, reap
from rrext.nodes.child.supervisor import Supervisor
from rrext.nodes.sandbox.engine import Choice, SandboxEngine, lack_of, missing_piece, told, wanted
from rrext.nodes.sandbox.grant import (
    LEAST_MEMORY,
    LONGEST_TIMEOUT,
    MIB,
    MOST_MEMORY,
    NOTHING,
    SHORTEST_TIMEOUT,
    Grant,
    SandboxLimits,
)
from rrext.nodes.sandbox.interpreter import block, command, receive, receive_rest
from rrext.nodes.sandbox.outcome import ProgramEnd, PythonRun, outcome
from rrext.tools.context import ToolContext
from rrext.tools.decorator import tool_function
from rrext.tools.results import LARGE_TEXT, JsonText, encode_json

if TYPE_CHECKING:
    from rrext.nodes.base.setup import SetupContext


DEFAULTS = SandboxLimits()

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "stdout": {"type": "string"},
        "stderr": {"type": "string", "description": "The traceback too, if the program failed."},
        "exit_code": {"type": "integer", "description": "0 fine, 1 exception, −1 timeout, else the program's own."},
        "timed_out": {"type": "boolean"},
        "result": {"description": "The program's variable `result`; absent if unset or None."},
    },
    "required": ["stdout", "stderr", "exit_code", "timed_out"],
    "additionalProperties": False,
}


class Module(msgspec.Struct, frozen=True):
    """A row of RocketRide's list."""

    moduleName: str = ""


class PythonNode(Node):
    """Runs Python programs in a sandbox: the whole standard library, but no file, network or process of this machine.
    Installed packages are there if the operator offers them and `allowedModules` names them.

    Each program has a fresh interpreter, bounded in time, memory, threads and output. Where the machine can isolate it
    neither with Landlock, for which the extra is, nor with bubblewrap, which needs none, the tool is unavailable; a program
    never runs unprotected.
    """

    provider = "tool_python"
    title = "Python"
    class_types = ("tool",)
    shared: Sandbox

    class Config:
        timeout: Annotated[float, "Seconds until a program is killed; taken as 1 to 1200."] = DEFAULTS.timeout
        memory: Annotated[
            int, "MiB of address space of a program, with 30 for Python and 4 for each thread; taken as 64 to 65536."
        ] = DEFAULTS.memory // MIB
        totalMemory: Annotated[
            int, "MiB that all programs of this node use at a time, at least `memory`; beyond it the largest is killed."
        ] = DEFAULTS.total_memory // MIB
        allowedModules: Annotated[
            list[Module | str],
            "Packages that programs may import beside the standard library, if the operator offers them (--python-package).",
        ] = []
        engine: Annotated[
            Choice, "What isolates programs: `landlock`, `bubblewrap`, or `auto`, the strongest of them that this machine has."
        ] = "auto"

    @classmethod
    def unavailable(cls) -> str | None:
        """The reason why this machine cannot isolate programs, if any."""
        return missing_piece()

    @classmethod
    def unmet(cls, config: Any) -> Iterator[tuple[str, str]]:
        """The engine that is demanded and cannot isolate programs here."""
        if (reason := missing_piece(config.engine)) is not None:
            yield "engine", reason

    @classmethod
    def not_offered(cls, config: Any, packages: Sequence[str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """The names in `allowedModules` that no program can import."""
        from rrext.nodes.sandbox.packages import how_to_offer, offered

        offer = offered(tuple(packages))
        for place, name in _modules(config):
            if not offer.has(name):
                yield place, f'No program can import "{name}" here: {how_to_offer(name)}.'

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any, ctx: SetupContext) -> AsyncIterator[Sandbox]:
        """Make one sandbox for all objects; it starts at the first program."""
        from rrext.nodes.sandbox.grant import NOTHING

        allowed = [name for _, name in _modules(config)]
        grant = await ctx.in_thread(_granted, ctx.packages, allowed) if ctx.packages or allowed else NOTHING
        if grant.names:
            offered = f"Python with {', '.join(grant.names)} beside the standard library."
            ctx.tool_description = f"{ctx.tool_description}\n\n{offered}".strip()
        sandbox = Sandbox(grant, config.engine)
        try:
            yield sandbox
        finally:
            sandbox.close()

    @tool_function(output_schema=OUTPUT_SCHEMA, annotations={"readOnlyHint": True, "openWorldHint": False})
    def execute(self, code: Annotated[str, msgspec.Meta(min_length=1)], *, ctx: ToolContext) -> dict[str, Any] | Content:
        """Run a Python program and answer what it printed, how it ended, and its variable `result`.

        It is a whole program, run as `__main__` with the standard library, and with the packages that are named above, if
        there are any: no other can be imported or installed. There is no network, no file, no input and no other process,
        though threads work, and nothing is kept for the next call. A program that fails is a successful call: see
        `exit_code` and `stderr`. To hand a value back, assign it to `result`: numbers, strings, lists and dicts stay what
        they are, arrays become lists, anything else becomes its `repr`. A PNG, as bytes or in base64, and a figure of
        matplotlib are shown as a picture, too.

        Args:
            code: The program.
        """
        if not code.strip():
            raise InvalidArguments.at("/input/code", "the program is empty")
        ctx.check()
        try:
            run = self.shared.run(code, limits_of(self.config), ctx.on_cancel)
        except Cancelled:
            ctx.check()  # raises the more exact reason: the deadline, or the end of the server
            raise
        answer: dict[str, Any] = {
            "stdout": run.stdout,
            "stderr": run.stderr,
            "exit_code": run.exit_code,
            "timed_out": run.timed_out,
        }
        text = run.result_text
        if text is not None:
            answer["result"] = run.result if len(text) <= LARGE_TEXT else JsonText(text)
        if run.picture is None:
            return answer
        return Content(encode_json(answer).decode(), run.picture, structured=answer)


def _modules(config: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The names in `allowedModules`, each with its place in the settings. An editor's empty rows are none."""
    for index, row in enumerate(config.allowedModules):
        name, key = (row, ()) if isinstance(row, str) else (row.moduleName, ("moduleName",))
        if name.strip():
            yield ("allowedModules", index, *key), name.strip()


def _granted(packages: Sequence[str], allowed: Sequence[str]) -> Grant:
    from rrext.nodes.sandbox.packages import offered  # it reads the metadata of what is installed

    return offered(tuple(packages)).grant(allowed)


def limits_of(config: Any) -> SandboxLimits:
    """The bounds of a component's settings, within sensible limits."""
    memory = min(max(config.memory, LEAST_MEMORY), MOST_MEMORY)
    total = min(max(config.totalMemory, memory), MOST_MEMORY)
    timeout = min(max(config.timeout, SHORTEST_TIMEOUT), LONGEST_TIMEOUT)
    return SandboxLimits(timeout=timeout, memory=memory * MIB, total_memory=total * MIB)


WARDEN_START: Final = 30.0
"""Seconds for the warden to be ready; it takes a tenth of one."""

OVERTIME: Final = 60.0
"""Seconds after which the server abandons a supervisor that should have answered."""

FAREWELL: Final = 2.0
"""Seconds for the warden to end by itself."""

_HERE = os.path.dirname(os.path.abspath(__file__))
_WARDEN = os.path.join(_HERE, "warden.py")
_ROOTS = os.path.dirname(os.path.dirname(os.path.dirname(_HERE))), os.path.dirname(os.path.dirname(msgspec.__file__))
_BOOT = "import sys; sys.path.extend(sys.argv[5:]); from rrext.nodes.sandbox.warden import main; main()"


class _Greeting(msgspec.Struct, frozen=True):
    missing: str | None
    alone: bool = False


class WardenProcess:
    """The warden, ready to take programs. `alone`: the kernel also granted namespaces, so that names of files are hidden."""

    def __init__(self, engine: SandboxEngine, grant: Grant = NOTHING) -> None:
        """Start the warden and wait until it is ready. Raises `Unavailable` if this machine cannot isolate programs."""
        piece = engine.piece()
        if piece is None:
            raise Unavailable(told({engine.name: f"it is gone: {engine.install}"}))
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, os.fdopen(os.memfd_create("grant"), "wb") as given:
            given.write(msgspec.json.encode(grant))
            given.seek(0)
            passed = theirs.fileno(), given.fileno()
            boot = command("-c", _BOOT, *map(str, passed), engine.name, piece, *_ROOTS)
            # A terminal's Ctrl-C is the server's to handle.
            self._child = launch(boot, "the sandbox", {}, passed, streams=subprocess.DEVNULL, new_session=True)
        greeting = self._greeting()
        if greeting.missing is not None:
            self.close(FAREWELL)
            raise Unavailable(f"this machine cannot isolate programs: {greeting.missing}")
        self.alone = greeting.alone

    @property
    def id(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def is_over(self) -> bool:
        """Whether the warden has ended; its socket is closed then."""
        if self._child.poll() is None:
            return False
        self._control.close()
        return True

    def take(self, link: socket.socket) -> bool:
        """Pass the socket of a call to the warden; False if the warden has ended."""
        try:
            socket.send_fds(self._control, [b"C"], [link.fileno()])
        except (BrokenPipeError, ConnectionResetError):
            self.close(FAREWELL)
            return False
        return True

    def close(self, patience: float) -> None:
        """End the warden and all its children; kill it after `patience` seconds."""
        self._control.close()
        reap(self._child, patience)

    def _greeting(self) -> _Greeting:
        """Read the first message of the warden."""
        self._control.settimeout(WARDEN_START)
        try:
            word = self._control.recv(65_536)
        except TimeoutError:
            return _Greeting("the warden did not start in time")
        self._control.settimeout(None)
        return msgspec.json.decode(word, type=_Greeting) if word else _Greeting("the warden did not start")


class Sandbox:
    """Runs programs that are not trusted. Methods block; call them from a worker thread, any number at a time.

    Programs may import the packages of `grant`. Costs nothing until the first program, which starts the warden and tests the
    confinement. `engine` is that of the first program, the strongest of the choice whose confinement holds; None before.
    """

    def __init__(self, grant: Grant = NOTHING, choice: Choice = "auto") -> None:
        self._lock = threading.RLock()  # the test of the confinement is a call, too
        self.engine: SandboxEngine | None = None
        self._wardens: Supervisor[WardenProcess] | None = None
        self._choice: Choice = choice
        self.grant = grant
        self._missing: str | None = None
        self._checked = False
        self._closed = False

    @property
    def warden(self) -> WardenProcess | None:
        """The warden; None if it does not run."""
        return None if self._wardens is None else self._wardens.running

    def run(
        self, code: str, limits: SandboxLimits, on_cancel: Callable[[Callable[[], object]], None] | None = None
    ) -> PythonRun:
        """Run `code` as a fresh `__main__` and wait for its end.

        `on_cancel` is given a function that kills the program; the call then ends by raising `Cancelled`. Raises
        `Unavailable` where this machine cannot isolate, before anything of `code` has run.
        """
        self._check()
        return self._call(code, limits, on_cancel)

    def close(self) -> None:
        """End the warden and all its children. The sandbox is not used again."""
        with self._lock:
            self._closed = True
            if self._wardens is not None:
                self._wardens.close(FAREWELL)

    def _check(self) -> None:
        """Test the confinement, once. Raises `Unavailable`."""
        if not self._checked:
            with self._lock:
                if not self._checked:
                    self._missing = self._choose_engine()
                    self._checked = True
        if self._missing is not None:
            raise Unavailable(self._missing)

    def _choose_engine(self) -> str | None:
        """Take the first engine whose walls hold; if there is none, return the reasons."""
        lacks: dict[str, str] = {}
        for engine in wanted(self._choice):
            lack = lack_of(engine) or self._try_walls(engine)
            if lack is None:
                self.engine = engine
                return None
            lacks[engine.name] = lack
        return told(lacks)

    def _try_walls(self, engine: SandboxEngine) -> str | None:
        self._wardens = Supervisor(partial(WardenProcess, engine, self.grant), closed="The sandbox is closed")
        try:
            wrong = verdict(self._call(probe(_WARDEN), SandboxLimits(), None))
            lack = f"this machine does not isolate programs: {wrong}" if wrong else None
        except Unavailable as error:
            lack = error.message
        if lack is not None:
            self._wardens.close(FAREWELL)
        return lack

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
        return outcome(msgspec.json.decode(answer, type=ProgramEnd), report, limits, self.grant)

    def _lost(self, cancelled: bool) -> Exception:
        if cancelled:
            return Cancelled()
        if self._closed:
            return ShuttingDown("The sandbox was closed; the program was killed")
        return ToolError("The sandbox ended before the program did; the program was killed")

    def _hand_over(self, link: socket.socket) -> None:
        """Pass a call's socket to the warden; start the warden if it does not run."""
        if self._closed or self._wardens is None:
            raise ShuttingDown("The sandbox is closed")
        for _ in range(2):
            if self._wardens.process().take(link):
                return
        raise ToolError("The sandbox's warden does not stay alive")

    def __repr__(self) -> str:
        warden = self.warden
        state = "closed" if self._closed else "idle" if warden is None else f"warden {warden.id}"
        return f"<Sandbox {state}>"


def _hang_up(link: socket.socket) -> None:
    """Tell the supervisor that the call is cancelled; it kills the guest and ends, which ends the wait for its answer."""
    try:
        link.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the call has ended


_TEMPLATE = """
import os, sys, _socket

def fork():
    if os.fork() == 0:
        os._exit(0)

def mode():
    os.chmod(sys.executable, os.stat(sys.executable).st_mode)  # as it is already, should it succeed

attempts = {{
    "read a file": lambda: open({path!r}).close(),
    "list a directory": lambda: os.listdir(os.path.dirname({path!r})),
    "read its environment": lambda: open("/proc/self/environ").close(),
    "write a file": lambda: os.open("/dev/shm/rrext-probe", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
    "change a file's mode": mode,
    "open a socket": lambda: _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM),
    "open a local socket": lambda: _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM),
    "signal its parent": lambda: os.kill(os.getppid(), 0),
    "start a process": fork,
    "run a program": lambda: os.execv(sys.executable, [sys.executable, "-V"]),
}}
result = []
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        continue
    result.append(name)
"""


def probe(path: str) -> str:
    """The program; `path` is a file that a guest must not be able to read, in a folder that it must not list."""
    return _TEMPLATE.format(path=path)


def verdict(run: PythonRun) -> str | None:
    """The gap in the confinement, or None if there is none."""
    if run.exit_code != 0 or not isinstance(run.result, list):
        return f"the test program did not come to its end: {run.stderr.strip()[-300:] or run.exit_code}"
    if run.result:
        return "the test program could " + ", ".join(map(str, run.result))
    return None
