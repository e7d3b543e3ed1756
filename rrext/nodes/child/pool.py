"""`ProcessPool`: child processes that serve one call at a time each, and are kept for the next calls. `ReaderPool`: processes
that read documents or pictures of strangers, within bounds of time and memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final, Generic, TypeVar

from rrext.errors import ShuttingDown, ToolError, Unavailable
from rrext.limits import MIB
from rrext.nodes.child.process import ChildRequest, NodeProcess, ProcessLost
from rrext.tools.context import ToolContext

CLOSING_TIMEOUT: Final = 5.0
"""Seconds for an idle process to end, before it is killed."""

P = TypeVar("P", bound=NodeProcess)


class ProcessPool(Generic[P]):
    """Up to `most` processes, started by `start` when needed. Methods block; call them from any number of threads."""

    def __init__(self, start: Callable[[], P], most: int) -> None:
        self._start = start
        self._most = most
        self._changed = threading.Condition()
        self._idle: deque[P] = deque()
        self._running: set[P] = set()
        self._is_closed = False

    @contextmanager
    def lent(self, ctx: ToolContext) -> Iterator[P]:
        """A process for this call alone. Waits for one; raises the error of `ctx.check` if the call is cancelled meanwhile."""
        process = self._take(ctx)
        try:
            yield process
        finally:
            self._give_back(process)

    def close(self) -> None:
        """End all processes; waiting calls fail with an error."""
        with self._changed:
            self._is_closed = True
            running, idle = list(self._running), list(self._idle)
            self._idle.clear()
            self._changed.notify_all()
        for process in running:
            process.terminate()
        for process in (*running, *idle):
            process.close(CLOSING_TIMEOUT)

    def check_open(self) -> None:
        """Raise `ShuttingDown` after `close`."""
        if self._is_closed:
            raise ShuttingDown("The pipeline ends")

    def _take(self, ctx: ToolContext) -> P:
        ctx.on_cancel(self._wake)
        try:
            with self._changed:
                while not self._is_closed and not ctx.cancelled and len(self._running) >= self._most:
                    self._changed.wait()
                ctx.check()
                self.check_open()
                process = self._idle_one() or self._start()
                self._running.add(process)
                return process
        finally:
            ctx.token.forget(self._wake)

    def _idle_one(self) -> P | None:
        while self._idle:
            process = self._idle.pop()
            if not process.is_over:
                return process
        return None

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _give_back(self, process: P) -> None:
        if process.is_over:
            process.wait()
        with self._changed:
            self._running.discard(process)
            if not process.is_over and not self._is_closed:
                self._idle.append(process)
            self._changed.notify_all()  # the thread that `notify` would wake may not need the process any more


class ReaderProcess(NodeProcess):
    """A process that reads one document or picture after the other, once its libraries are loaded."""

    noun: ClassVar[str]
    """`document` or `picture`, in messages. Codes of failures begin with `kind`."""
    kind: ClassVar[str]
    library: ClassVar[str]
    smaller: ClassVar[str]
    """The hint to send less at once."""
    loading: ClassVar[type[ChildRequest]]
    start_timeout: ClassVar[float]
    start_hint: ClassVar[str]
    is_ready = False

    def load(self, ctx: ToolContext) -> None:
        """Wait until the libraries are loaded. Raises `Unavailable` if they cannot be."""
        if self.is_ready:
            return
        try:
            self.ask(self.loading(), ctx, self.start_timeout)
        except (TimeoutError, ProcessLost) as error:
            how = error.how if isinstance(error, ProcessLost) else f"no answer within {self.start_timeout:g} s"
            raise Unavailable(f"The process that reads {self.noun}s did not start ({how})", hint=self.start_hint) from None
        self.is_ready = True


R = TypeVar("R", bound=ReaderProcess)


class ReaderPool(ProcessPool[R]):
    """Readers, of which each has `memory` bytes of address space."""

    def __init__(self, start: Callable[[], R], most: int, memory: int) -> None:
        super().__init__(start, most)
        self._memory = memory

    def ask(self, request: ChildRequest, timeout: float, ctx: ToolContext) -> bytes:
        """The answer to a request; `timeout` begins when a process is free for it.

        Raises `ToolError` with the reason, and the error of `ctx.check` for a cancelled call.
        """
        with self.lent(ctx) as process:
            try:
                process.load(ctx)
                return process.ask(request, ctx, timeout)
            except TimeoutError:
                raise ToolError(
                    f"Reading it took more than {timeout:g} seconds (timeout)",
                    code=f"{process.kind}_timeout",
                    hint=f'Raise "timeout" of the node, or {process.smaller}.',
                ) from None
            except ProcessLost as error:
                ctx.check()
                self.check_open()
                bound = f"it takes more than {self._memory // MIB} MiB (memory), or breaks the {process.library}"
                raise ToolError(
                    f"Reading it ended the reading process ({error.how}): {bound}",
                    code=f"{process.kind}_crashed",
                    hint=f'If it is a {process.noun} that you trust, raise "memory" of the node.',
                ) from None
            except Unavailable:
                ctx.check()
                self.check_open()
                raise
