"""Nodes whose tools park, print, crash and count, so that tests can say when each of it happens."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from rrext import Node, ToolContext, ToolError, tool_function

print("imported: this must not reach the client")
os.write(1, b"imported: nor may this\n")


class Gates:
    """Places where calls wait until a test lets them go on, and what became of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._arrived: Counter[str] = Counter()
        self._open: set[str] = set()
        self.counts: Counter[str] = Counter()

    def arrive(self, name: str) -> None:
        print(f"arrived at {name}", file=sys.stderr)
        with self._changed:
            self._arrived[name] += 1
            self._changed.notify_all()

    def release(self, name: str) -> None:
        with self._changed:
            self._open.add(name)
            self._changed.notify_all()

    def is_open(self, name: str) -> bool:
        return name in self._open

    def wait_arrived(self, name: str, times: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._arrived[name] >= times)

    def park(self, name: str) -> None:
        """Block until released, deaf to everything else. A path names a fifo that the test opens to release."""
        self.arrive(name)
        if name.startswith("/"):
            with open(name, "rb") as fifo:
                fifo.read()
            return
        with self._changed:
            self._changed.wait_for(lambda: name in self._open)

    def count(self, name: str) -> int:
        with self._changed:
            self.counts[name] += 1
            return self.counts[name]


gates = Gates()
kept: list[Any] = []
"""What lives as long as the process."""


class Worker(Node):
    """Tools of every kind."""

    provider = "life_worker"

    @tool_function
    def add(self, a: int, b: int = 1) -> int:
        """Add, at once."""
        return a + b

    @tool_function
    async def add_later(self, a: int, b: int = 1) -> int:
        """Add, after a turn of the loop."""
        await asyncio.sleep(0)
        return a + b

    @tool_function
    async def add_on_loop(self, a: int, b: int = 1) -> int:
        """Add, on the loop and at once."""
        return a + b

    @tool_function
    def quick_or_parked(self, gate: str = "") -> str:
        """Return at once, or park: the server cannot know before."""
        if gate:
            gates.park(gate)
        return gate

    @tool_function
    def spin(self, gate: str) -> int:
        """Keep the interpreter busy until released."""
        gates.arrive(gate)
        turns = 0
        while not gates.is_open(gate):
            turns += sum(range(1000)) > 0
        return turns

    @tool_function
    def park(self, gate: str) -> str:
        """Block a thread until released; cannot be cancelled."""
        gates.park(gate)
        gates.count(f"{gate} returned")
        return gate

    @tool_function
    def park_until_cancelled(self, gate: str, *, ctx: ToolContext) -> None:
        """Block a thread until the call is cancelled."""
        stopped = threading.Event()
        ctx.on_cancel(stopped.set)
        gates.arrive(gate)
        stopped.wait()
        gates.count(f"{gate} cancelled")
        print(f"{gate} was cancelled", file=sys.stderr)
        ctx.check()

    @tool_function
    async def wait(self, gate: str) -> None:
        """Wait on the loop until cancelled."""
        gates.arrive(gate)
        try:
            await asyncio.Event().wait()
        finally:
            gates.count(f"{gate} cancelled")

    @tool_function
    async def wait_deaf(self, gate: str) -> None:
        """Wait on the loop, and go on when cancelled."""
        gates.arrive(gate)
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                gates.count(f"{gate} cancelled")

    @tool_function
    async def wait_and_release(self, gate: str, then: str) -> None:
        """Wait on the loop until cancelled, then open another gate."""
        gates.arrive(gate)
        try:
            await asyncio.Event().wait()
        finally:
            gates.release(then)

    @tool_function
    async def adds_signal_handler(self, number: int = signal.SIGUSR1, remove: bool = False) -> None:
        """What some libraries do; asyncio's own loop takes Python's wake-up descriptor for signals then."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(number, lambda: print(f"a tool heard {number}", file=sys.stderr))
        if remove:
            assert loop.remove_signal_handler(number)
            assert not loop.remove_signal_handler(number)

    @tool_function
    async def hears_usr1(self) -> None:
        """A signal of the tool's own; its number comes on Python's wake-up descriptor, too."""
        signal.signal(signal.SIGUSR1, lambda *_: None)

    @tool_function
    async def block_loop(self, gate: str) -> None:
        """The mistake of many: block the loop's own thread."""
        gates.park(gate)

    @tool_function
    def hold_gil(self, seconds: float) -> float:
        """Keep the interpreter's lock inside of C."""
        print("arrived at hold_gil", file=sys.stderr)
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
        return seconds

    @tool_function
    def hold_gil_after(self, gate: str, seconds: float) -> None:
        """The same, later."""
        gates.park(gate)
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))

    @tool_function
    def backtracks(self) -> None:
        """An expression that would take years."""
        print("arrived at backtracks", file=sys.stderr)
        re.match(r"(a+)+$", "a" * 50 + "b")

    @tool_function
    def reads_address_0(self) -> None:
        """What a broken library does."""
        ctypes.string_at(0)

    @tool_function
    async def cancels_all_tasks(self) -> None:
        """What some libraries do when they clean up."""
        for task in asyncio.all_tasks():
            task.cancel()

    @tool_function
    async def stops_loop(self) -> None:
        """The same."""
        asyncio.get_running_loop().stop()

    @tool_function
    async def when_released(self, gate: str, tool: str) -> None:
        """Call another one on the loop when a gate opens, however often this is cancelled before."""
        gates.arrive(gate)
        while not gates.is_open(gate):
            await asyncio.sleep(0.01)
        await getattr(self, tool)()

    @tool_function
    async def exits_in_a_task(self) -> None:
        """A task of its own that wants to end the program."""

        async def leave() -> None:
            sys.exit(3)

        kept.append(asyncio.create_task(leave()))
        await asyncio.sleep(0.01)

    @tool_function
    def loses_streams(self) -> None:
        """What a daemon library does."""
        sys.stdout = sys.stderr = None

    @tool_function
    def returns_from_fork(self) -> int:
        """The child returns as well."""
        return os.fork()

    @tool_function
    async def returns_from_fork_on_loop(self, suspends: bool) -> int:
        """The same, on the loop's thread."""
        pid = os.fork()
        if suspends:
            await asyncio.sleep(0.001)
        return pid

    @tool_function(thread="main")
    def park_main(self, gate: str) -> None:
        """Block the main thread, as its author wanted."""
        gates.park(gate)

    @tool_function
    def begun(self, name: str, times: int = 1) -> None:
        """Return when so many calls arrived at a gate."""
        gates.wait_arrived(name, times)

    @tool_function
    def release(self, gate: str) -> None:
        """Open a gate for good."""
        gates.release(gate)

    @tool_function
    def count(self, name: str) -> int:
        """Count one more."""
        return gates.count(name)

    @tool_function
    def counts(self) -> dict[str, int]:
        """What was counted."""
        return dict(gates.counts)

    @tool_function
    def text(self, size: int) -> str:
        """So many characters."""
        return "x" * size

    @tool_function
    def blob(self, size: int) -> bytes:
        """So many bytes."""
        return bytes(range(256)) * (size // 256)

    @tool_function
    def echo(self, value: str) -> str:
        """The same."""
        return value

    @tool_function
    def report(self, times: int, gate: str = "", *, ctx: ToolContext) -> int:
        """Report progress so many times."""
        for value in range(1, times + 1):
            ctx.progress(value, times, "x" * 200)
        if gate:
            gates.park(gate)
        return times

    @tool_function
    def chunks(self, times: int, size: int) -> Iterator[str]:
        """So many chunks of so many characters."""
        for _ in range(times):
            yield "x" * size

    @tool_function
    def raises(self, kind: str) -> None:
        """Raise what should not be raised."""
        raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "generator": GeneratorExit, "stop": StopIteration}[kind](3)

    @tool_function
    def fails_at_length(self, message: int = 1, hint: int = 0, data: int = 0, code: int = 3) -> None:
        """Fail with parts of so many characters."""
        raise ToolError("m" * message, code="c" * code, hint="h" * hint, data={"data": "d" * data})

    @tool_function
    def threads(self) -> int:
        """Threads of this process."""
        return len(os.listdir("/proc/self/task"))

    @tool_function
    def descriptors(self) -> int:
        """Open descriptors of this process."""
        return len(os.listdir("/proc/self/fd"))

    @tool_function
    def modules(self) -> list[str]:
        """What is imported."""
        return list(sys.modules)


def _square(number: int) -> int:
    print("from a pool", number)
    return number * number


class Printer(Node):
    """Everything that writes to descriptor 1 or reads from 0."""

    provider = "life_printer"

    @tool_function
    def prints(self, what: str = "print") -> str:
        """Print by every way there is."""
        print(what, flush=True)
        print(what, "without a newline", end="")
        sys.stdout.write(f"{what}\n")
        sys.stdout.buffer.write(b"Content-Length: 2\r\n\r\n{}\n")
        sys.stdout.flush()
        if sys.__stdout__ is not None:
            sys.__stdout__.write(f"{what} by the first stdout\n")
            sys.__stdout__.flush()
        os.write(1, b"Content-Length: 7\r\n\r\n{by fd}\n")
        return what

    @tool_function
    def prints_in_c(self) -> None:
        """C's own buffer."""
        libc = ctypes.CDLL(None)
        libc.puts(b"Content-Length: 4\r\n\r\nby C")
        libc.fflush(None)

    @tool_function
    def child_prints(self) -> int:
        """A child that inherits everything."""
        os.system("echo 'by a shell'")
        return subprocess.run(["echo", "by a child"], check=False).returncode

    @tool_function
    async def child_prints_async(self) -> int:
        """The same in asyncio's way."""
        child = await asyncio.create_subprocess_exec("echo", "by a child of the loop")
        return await child.wait()

    @tool_function
    def child_reads(self) -> list[str]:
        """What children find on stdin."""
        code = "import sys; print(repr(sys.stdin.read()))"
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        shell = subprocess.run("cat; head -c 5 /dev/stdin; read line; echo end", shell=True, stdout=subprocess.PIPE, check=True)
        return [done.stdout.decode().strip(), shell.stdout.decode().strip()]

    @tool_function
    def reads(self) -> list[str]:
        """What the process itself finds on stdin."""
        try:
            line = input("what? ")
        except EOFError:
            line = "end of file"
        return [line, sys.stdin.read(), os.read(0, 100).decode()]

    @tool_function
    def pool(self, method: str) -> list[int]:
        """Processes that are made of this one."""
        with multiprocessing.get_context(method).Pool(2) as workers:
            return workers.map(_square, [1, 2, 3])

    @tool_function
    def forks(self) -> int:
        """A child without exec, which prints and ends like a program."""
        pid = os.fork()
        if pid == 0:
            print("by a fork")
            sys.stdout.flush()
            os._exit(5)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @tool_function
    def keeps_processes(self, kind: str) -> list[int]:
        """Two processes that wait for work, as a library may keep them for the life of a program."""
        context = multiprocessing.get_context("fork")
        if kind == "pool":
            kept.append(context.Pool(2))
        else:
            executor = ProcessPoolExecutor(2, mp_context=context)
            kept.append(executor)
            list(executor.map(_square, [1, 2]))
        return [child.pid for child in multiprocessing.active_children() if child.pid is not None]

    @tool_function
    def adds_exit_handlers(self) -> None:
        """One that says something, one that never comes back."""
        atexit.register(threading.Event().wait)
        atexit.register(print, "at exit", file=sys.stderr)

    @tool_function
    def leaves_fork_behind(self) -> None:
        """A child without exec that stays until the test ends."""
        if os.fork() == 0:
            signal.pause()

    @tool_function
    def shouts(self, size: int) -> int:
        """So much on stderr, by print and by descriptor."""
        for _ in range(size // 200):
            print("e" * 99, file=sys.stderr)
            os.write(2, b"f" * 99 + b"\n") if size < 4096 else None
        return size


class Meter(Node):
    """Counts what is written; parks at `park:GATE`, fails at `fail`."""

    provider = "life_meter"
    lanes = {"tags": ("text",)}

    def open(self, entry: Any) -> None:
        self.total = 0
        self.seen: list[bytes] = []

    def write_tags(self, tag: Any) -> None:
        if tag.kind != "data":
            return
        self.total += len(tag.data)
        if len(tag.data) < 64:
            self.seen.append(tag.data)
        if tag.data.startswith(b"park:"):
            gates.park(tag.data[5:].decode())
        if tag.data == b"fail":
            raise ValueError("the meter does not like this")

    def closing(self) -> None:
        self.emit("text", f"{self.total} bytes")

    def close(self) -> None:
        print("meter closed", file=sys.stderr)

    @tool_function
    def measured(self) -> int:
        """Bytes seen on this pipe."""
        return self.total

    @tool_function
    def small_pieces(self) -> list[str]:
        """The small writes on this pipe, in order."""
        return [piece.decode() for piece in self.seen]


class Shared(Node):
    """Shares something that does not want to be left."""

    provider = "life_shared"

    @classmethod
    @asynccontextmanager
    async def setup(cls, config: Any) -> AsyncIterator[str]:
        try:
            yield "shared"
        finally:
            print("leaving setup", file=sys.stderr)
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass

    @tool_function
    def what_is_shared(self) -> str:
        """What is shared."""
        return self.shared
