"""Processes that read documents for the server: kept warm, given one document at a time, killed when one will not end.

Why processes: kreuzberg lets other threads run while it works, but it cannot be stopped. Measured with a PDF of 1 MB that
unpacks to 370 MB: when its own time limit had passed, its threads went on with a full core and 1.7 GB; and where memory has
a limit, reaching it ends the process. An untrusted document must not do that to the server.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import msgspec

from rrext.errors import ShuttingDown, ToolError, Unavailable
from rrext.nodes.child.launch import module_command
from rrext.nodes.child.process import NodeProcess, ProcessLost
from rrext.nodes.documents.records import DocumentRequest, LoadParser, ParsedDocument, ReadDocument, ReaderSettings
from rrext.threads import FEW_HEAPS
from rrext.tools.context import ToolContext

START_TIMEOUT: Final = 30.0
"""Seconds for the process to start; a loaded machine needs a few."""
CLOSING_TIMEOUT: Final = 5.0
"""Seconds for an idle process to end, before it is killed."""

MIB = 1024 * 1024


class ReaderProcess(NodeProcess):
    """A process that reads one document after the other."""

    def __init__(self, memory: int) -> None:
        """Start the process, with `memory` bytes of address space at most. Raises `Unavailable`."""
        super().__init__(
            module_command("rrext.nodes.documents.worker"),
            ReaderSettings(memory),
            what="a document reader",
            crash=("document_crashed", ""),
            closed="The pipeline ends",
            variables=FEW_HEAPS,  # each arena takes address space, which is limited
        )
        self.is_ready = False

    def load(self, ctx: ToolContext) -> None:
        """Wait until the parser is loaded. Raises `Unavailable` if it cannot be."""
        if self.is_ready:
            return
        try:
            self.ask(LoadParser(), ctx, START_TIMEOUT)
        except (TimeoutError, ProcessLost) as error:
            how = error.how if isinstance(error, ProcessLost) else f"no answer within {START_TIMEOUT:g} s"
            raise Unavailable(
                f"The process that reads documents did not start ({how})",
                hint='Look whether "import kreuzberg" works, and whether "memory" of the node is enough.',
            ) from None
        self.is_ready = True


class DocumentReader:
    """Up to `processes` processes, started when needed. Methods block; call them from any number of threads.

    `memory` is the address space of each in bytes.
    """

    def __init__(self, *, processes: int, memory: int) -> None:
        self._processes = processes
        self._memory = memory
        self._changed = threading.Condition()
        self._idle: deque[ReaderProcess] = deque()
        self._running: set[ReaderProcess] = set()
        self._is_closed = False

    def read(self, data: bytes, request: DocumentRequest, ctx: ToolContext) -> ParsedDocument:
        """Read one document. Raises `ToolError` with the reason, and the error of `ctx.check` for a cancelled call.

        `request.timeout` begins when a process is free for it.
        """
        process = self._take(ctx)
        try:
            process.load(ctx)
            return msgspec.json.decode(process.ask(ReadDocument(data, request), ctx, request.timeout), type=ParsedDocument)
        except TimeoutError:
            raise ToolError(
                f"Reading it took more than {request.timeout:g} seconds (timeout)",
                code="document_timeout",
                hint='Raise "timeout" of the node, or send it in parts.',
            ) from None
        except (ProcessLost, Unavailable) as error:
            ctx.check()
            self._check_open()
            raise _crash(error.how, self._memory) if isinstance(error, ProcessLost) else error from None
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
            process.doom()
        for process in (*running, *idle):
            process.close(CLOSING_TIMEOUT)

    def _take(self, ctx: ToolContext) -> ReaderProcess:
        """Take an idle process. Waits for one; raises if the call is cancelled meanwhile."""
        ctx.on_cancel(self._wake)
        try:
            with self._changed:
                while not self._is_closed and not ctx.cancelled and len(self._running) >= self._processes:
                    self._changed.wait()
                ctx.check()
                self._check_open()
                process = self._idle_one() or ReaderProcess(self._memory)
                self._running.add(process)
                return process
        finally:
            ctx.token.forget(self._wake)

    def _idle_one(self) -> ReaderProcess | None:
        while self._idle:
            process = self._idle.pop()
            if not process.is_over:
                return process
        return None

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _give_back(self, process: ReaderProcess) -> None:
        if process.is_over:
            process.wait()
        with self._changed:
            self._running.discard(process)
            if not process.is_over and not self._is_closed:
                self._idle.append(process)
            self._changed.notify_all()  # the thread that `notify` would wake may not need the process any more

    def _check_open(self) -> None:
        if self._is_closed:
            raise ShuttingDown("The pipeline ends")


def _crash(how: str, memory: int) -> ToolError:
    """The failure of a document whose process ended."""
    return ToolError(
        f"Reading it ended the reading process ({how}): it takes more than {memory // MIB} MiB (memory), or breaks the parser",
        code="document_crashed",
        hint='If it is a document that you trust, raise "memory" of the node.',
    )
