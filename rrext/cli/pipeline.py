"""The pipeline of a command, loaded from a file in this process or served by a running server, and signals during a run.

The first Ctrl-C or SIGTERM requests the end of the run, the second forces it.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import FrameType
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from rrext.cli.console.exit_codes import EXIT_FAILED
from rrext.cli.console.output import Results, unwritten
from rrext.engine.interface.call import ANONYMOUS, Caller, Feed
from rrext.engine.interface.operations import ListTools, Operation
from rrext.errors import RrextError, error_from_wire
from rrext.limits import CLIENT_DEFAULTS, DEFAULTS, Limits

OUTPUT_FLUSH_TIMEOUT: Final = 0.2
"""Seconds that the last output may wait for its reader."""

Absorbs: TypeAlias = Callable[[int], bool]
"""A function that handles a signal by itself, on a thread of its own; returns whether it did."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context manager on the main thread: the first signal calls `on_first`, on a thread of its own.

    After a signal the end of the block ends the process. So does a second signal, or one more second: threads cannot be
    stopped from outside, and a stuck one must not delay the user. A thread receives the signals, so this also works while the
    main thread is busy. Ignored signals stay ignored, and a signal that `absorbs` handles, as Ctrl-C at a prompt, does not
    count.
    """

    def __init__(self, on_first: Callable[[], object], absorbs: Absorbs | None = None) -> None:
        self._on_first = on_first
        self._absorbs = absorbs
        self._old_handlers: dict[signal.Signals, Any] = {}
        self._old_wakeup = self._read = self._write = -1
        self.number: int | None = None
        """The signal that came, if any."""

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects after a signal."""
        return 128 + (self.number or 0)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread can handle signals
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old_handlers[number] = signal.signal(number, _noted)
        try:
            threading.Thread(target=self._watch, args=(self._read,), name="rrext-interrupts", daemon=True).start()
        except RuntimeError:
            from rrext.threads import NoThread  # `--at` needs no other of them

            raise NoThread from None
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        if self._write >= 0:
            signal.set_wakeup_fd(self._old_wakeup)
            os.close(self._write)  # the watch ends
        if self.number is not None and (error is None or is_cancel(error)):
            end_process(self.exit_code)

    def _watch(self, fd: int) -> None:
        try:
            if not self._comes(fd, None):
                return
            try:
                self._on_first()
            except RuntimeError:
                pass  # the event loop was closed at this very moment
            if self._comes(fd, CLIENT_DEFAULTS.interrupt) is not False:
                end_process(self.exit_code)
        finally:
            os.close(fd)

    def _comes(self, fd: int, seconds: float | None) -> bool | None:
        """Wait for a signal: True; None after the timeout, False at the end of the block."""
        while select.select([fd], [], [], seconds)[0]:
            read = os.read(fd, 1)
            if not read:
                return False
            if read[0] in SIGNALS and not (self._absorbs is not None and self._absorbs(read[0])):
                self.number = self.number or read[0]
                return True
        return None


def is_cancel(error: BaseException) -> bool:
    """Whether an exception is a cancellation."""
    from asyncio import CancelledError  # `--at` avoids this import unless a call fails

    return isinstance(error, CancelledError)


def end_process(code: int) -> NoReturn:
    """End this process now, regardless of its threads."""
    flushing = threading.Thread(target=_flush, daemon=True)  # a thread may hold a stream's lock, or stderr may be full
    flushing.start()
    flushing.join(OUTPUT_FLUSH_TIMEOUT)
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed, or without a reader


def _noted(number: int, frame: FrameType | None) -> None:
    """Do nothing: the wakeup descriptor reports the signal."""


T = TypeVar("T")


class Pipeline:
    """The requests of a command to its pipeline, local or remote. Of a remote one, only the server knows the nodes.

    `caller` is that of requests which name none; at a server, it is that of the connection.
    """

    caller: Caller = ANONYMOUS

    async def ask(
        self, operation: Operation, *, data: bytes | None = None, feed: Feed | None = None, caller: Caller | None = None
    ) -> tuple[bytes, bytes | None]:
        """The encoded body of the answer, and the raw bytes of a binary result. Raises the operation's failure.

        Cancelling the caller's task cancels the operation.
        """
        raise NotImplementedError

    def cancellable(self, asked: Coroutine[Any, Any, T]) -> tuple[Awaitable[T], Callable[[], object]]:
        """A coroutine of `ask` to await, and a function that cancels it from any thread."""
        import asyncio

        task, loop = asyncio.ensure_future(asked), asyncio.get_running_loop()
        return task, lambda: loop.call_soon_threadsafe(task.cancel)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The outcome of `work`, which may block."""
        raise NotImplementedError

    def drop(self, caller: Caller) -> None:
        """Free the caller's pipes without a result. A server does that at the end of the connection."""

    def listens(self, lane: str) -> bool:
        """Whether a node receives the objects of a lane, as far as known."""
        return True

    async def owners_of(self, tools: frozenset[str]) -> dict[str, str]:
        """The nodes that have all of these tools: id → provider, empty where only the server knows it."""
        from msgspec.json import decode

        body, _ = await self.ask(ListTools())
        found: dict[str, set[str]] = {}
        for tool in decode(body)["tools"]:
            found.setdefault(tool["nodeId"], set()).add(tool["name"])
        return {name: "" for name, names in found.items() if tools <= names}

    def setup_failures(self) -> list[RrextError]:
        """The setup failures of components with tools, as far as known. Of a server, its log has them."""
        return []


Work: TypeAlias = Callable[[Pipeline, Results], Awaitable[int]]
"""The work of a command with its pipeline; returns the exit code. Raises `OSError` if stdout cannot be written.

When Ctrl-C cancels it, it prints a summary and raises.
"""


def run_work(
    args: argparse.Namespace, work: Work, *, limits: Limits = DEFAULTS, keeps_stdin: bool = False, needs_loop: bool = False
) -> int:
    """Do the work with the pipeline that `args` names; returns the exit code. Work that makes concurrent requests, or waits for
    anything besides its pipeline, `needs_loop`."""
    if args.at is not None:
        from rrext.cli.remote import run_blocking, run_remotely

        return run_remotely(args, work, keeps_stdin=keeps_stdin) if needs_loop else run_blocking(args, work)
    from rrext.cli.local import run_locally

    return run_locally(args, work, limits=limits, keeps_stdin=keeps_stdin)


async def exit_code_of(work: Awaitable[int], interrupts: Interrupts) -> int:
    """The exit code of a work, which fails if stdout cannot be written or a signal cancels it."""
    try:
        return await work
    except OSError as error:
        return unwritten(error)
    except BaseException as error:
        if interrupts.number is None or not is_cancel(error):
            raise
    return EXIT_FAILED


def named(args: argparse.Namespace) -> str:
    """The words of the command line that name the pipeline."""
    if args.at is None:
        return str(args.file)
    return f"--at {args.at}" if args.token is None else f"--at {args.at} --token {args.token}"


def failure_of(failure: dict[str, Any], result: dict[str, Any]) -> RrextError:
    """The failure in a result body."""
    error = error_from_wire(
        failure.get("code") or "pipe_failed",
        failure.get("message") or "the object failed",
        failure.get("hint"),
        failure.get("data"),
    )
    error.result = without_error(result)
    return error


def without_error(result: dict[str, Any]) -> dict[str, Any]:
    """The members of a result body beside its failure."""
    return {key: value for key, value in result.items() if key != "error"}
