"""Processes that read documents for the server: kept warm, given one document at a time, killed when one will not end.

Why processes: kreuzberg lets other threads run while it works, but it cannot be stopped. Measured with a PDF of 1 MB
that unpacks to 370 MB: when its own time limit had passed, its threads went on with a full core and 1.7 GB; and where
memory has a limit, reaching it ends the process. A document that nobody vouches for must not do that to the server.
"""

from __future__ import annotations

import signal
import threading
from collections import deque

import msgspec

from rrext.errors import ShuttingDown, ToolError, Unavailable
from rrext.nodes.documents.process import ReaderProcess
from rrext.nodes.documents.records import DocumentRequest, ParsedDocument
from rrext.tools.context import ToolContext

MIB = 1024 * 1024


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
        turn = process.begin()

        def give_up() -> None:
            process.stop(turn)

        try:
            ctx.on_cancel(give_up)
            answer = process.ask(data, request)
        except TimeoutError:
            process.kill()
            ctx.check()
            raise ToolError(
                f"Reading it took more than {request.timeout:g} seconds (timeout)",
                code="document_timeout",
                hint='Raise "timeout" of the node, or send it in parts.',
            ) from None
        except (EOFError, OSError, msgspec.DecodeError):
            code = process.end()
            ctx.check()
            self._check_open()
            raise _crash(code, self._memory) from None
        finally:
            ctx.token.forget(give_up)
            process.end_turn()
            self._give_back(process)
        if answer.parsed is None:
            raise ToolError(answer.message, code=answer.code, hint=answer.hint)
        return answer.parsed

    def close(self) -> None:
        """End all processes; waiting calls fail with an error."""
        with self._changed:
            self._is_closed = True
            processes = [*self._running, *self._idle]
            self._idle.clear()
            self._changed.notify_all()
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()

    def _take(self, ctx: ToolContext) -> ReaderProcess:
        """Take an idle process. Waits for one; raises if the call is cancelled meanwhile."""
        ctx.on_cancel(self._wake)
        try:
            with self._changed:
                while not self._is_closed and not ctx.cancelled and len(self._running) >= self._processes:
                    self._changed.wait()
                ctx.check()
                self._check_open()
                process = self._idle_one() or self._new_one()
                self._running.add(process)
                return process
        finally:
            ctx.token.forget(self._wake)

    def _idle_one(self) -> ReaderProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_well:
                return process
            process.kill()
            process.wait()
        return None

    def _new_one(self) -> ReaderProcess:
        try:
            return ReaderProcess(self._memory)
        except OSError as error:
            raise Unavailable(f"No process can be started that reads documents: {error.strerror}") from None

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _give_back(self, process: ReaderProcess) -> None:
        with self._changed:
            self._running.discard(process)
            is_kept = process.is_well and not self._is_closed
            if is_kept:
                self._idle.append(process)
            self._changed.notify_all()  # the thread that `notify` would wake may not need the process any more
        if not is_kept:
            process.kill()
            process.wait()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ShuttingDown("The pipeline ends")


def _crash(exit_code: int, memory: int) -> ToolError:
    """The failure of a document whose process ended."""
    how = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
    return ToolError(
        f"Reading it ended the reading process ({how}): it takes more than {memory // MIB} MiB (memory), or breaks the parser",
        code="document_crashed",
        hint='If it is a document that you trust, raise "memory" of the node.',
    )
