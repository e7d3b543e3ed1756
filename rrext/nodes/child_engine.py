"""A process with an engine in it, as the server sees it: started, asked by many threads at once, and ended."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import signal
import subprocess
import threading
import time
from typing import ClassVar, Final, cast

import msgspec

from rrext.errors import Unavailable
from rrext.nodes.child_calls import Answer, Failed, frame, receive
from rrext.nodes.children import environment
from rrext.tools.context import CancelReason, ToolContext

__all__ = ["Cancel", "ChildEngine", "Request"]

_ENDING: Final = 5.0
"""Seconds for a process that closed its end to be gone, before it is killed."""

_IN_ORDER: Final = "exit code 0"

log = logging.getLogger(__name__)


class Request(msgspec.Struct, frozen=True):
    """What is asked for. Of one that `changes` something, the answer is awaited also when nobody waits for the call."""

    changes: ClassVar[bool] = False


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Nobody waits for the call any more. This has no answer of its own."""

    reason: CancelReason


class Waiting:
    """One call, for whose answer a thread waits."""

    __slots__ = ("_answer", "changed")

    def __init__(self) -> None:
        self.changed = threading.Event()
        self._answer: Answer | None = None

    def settle(self, answer: Answer) -> None:
        """The answer is there."""
        self._answer = answer
        self.changed.set()

    def wait(self, ctx: ToolContext) -> bool:
        """Wait for the answer, as long as the call is wanted; whether it is there. Cancelling sets `changed`."""
        while self._answer is None and not ctx.cancelled and ctx.remaining() != 0.0:
            self.changed.wait(ctx.remaining())
        return self._answer is not None

    def wait_on(self) -> Answer:
        """The answer, however long it takes. It always comes, at the latest when the process ends."""
        while self._answer is None:
            self.changed.wait()
            self.changed.clear()
        return self._answer

    def __repr__(self) -> str:
        return f"<Waiting {self._answer}>"


class ChildEngine:
    """A process with an engine in it. Any number of threads may ask it at once.

    `what` names it in messages, as `the vector store in "texts"`; `crash` is the code and the hint of the error for calls
    that it did not answer before it ended, and `closed` the message for those that its own end leaves without an answer.
    """

    __slots__ = (
        "_answers", "_calls", "_child", "_closed", "_crash", "_ending", "_is_closing", "_lock", "_numbers", "_reader",
        "_requests", "_sending", "_what",
    )  # fmt: skip

    def __init__(self, command: list[str], *, what: str, crash: tuple[str, str], closed: str) -> None:
        """Start it. Raises `Unavailable` if that cannot be."""
        try:
            # What the engine has to say when it panics goes to the standard error, which is the server's.
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd="/", env=environment()
            )
        except OSError as error:
            raise Unavailable(f"The process of {what} cannot be started: {error.strerror}") from error
        self._what = what
        self._crash = crash
        self._closed = closed
        self._requests = cast(io.FileIO, self._child.stdin)  # what it is without a buffer
        self._answers = io.BufferedReader(cast(io.FileIO, self._child.stdout))
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._calls: dict[int, Waiting] = {}
        self._ending: str | None = None  # how it ended
        self._is_closing = False
        self._reader = threading.Thread(target=self._read, name=f"rrext-child-{self._child.pid}", daemon=True)
        self._reader.start()

    @property
    def id(self) -> int:
        """The id that the system knows it by."""
        return self._child.pid

    @property
    def is_over(self) -> bool:
        """Whether it is gone; it may have ended a moment ago, and nobody was told yet."""
        return self._ending is not None or self._child.poll() is not None

    def ask(self, request: Request, ctx: ToolContext) -> bytes:
        """What the process answers, JSON.

        When nobody waits for the call any more, the process hears of it. The answer to a request that changes something is
        awaited all the same: only that says what was done. Raises what the engine's side raised; `ToolError` with
        the code of `crash` if the process ends.
        """
        number = next(self._numbers)
        data = frame(number, request)
        call = Waiting()
        with self._lock:
            if self._ending is not None:
                raise self._farewell().error()
            self._calls[number] = call
        ctx.on_cancel(call.changed.set)
        try:
            self._send(data)
            if not call.wait(ctx):
                # Said by this thread and not by the one that cancels, which must not wait for a process that does not read.
                self._send(frame(number, Cancel(ctx.token.reason or "timeout")))
                if not request.changes:
                    ctx.check()
            answer = call.wait_on()
        finally:
            ctx.token.forget(call.changed.set)
            self._calls.pop(number, None)
        if isinstance(answer, Failed):
            raise answer.error()
        return answer.result

    def tell(self, message: msgspec.Struct) -> None:
        """Say something that has no answer, or whose answer nobody waits for."""
        self._send(frame(next(self._numbers), message))

    def kill(self) -> None:
        """End it at once: what it does cannot be stopped otherwise. All who wait are told."""
        log.warning("the process of %s is killed: it does not stop", self._what)
        self._child.kill()

    def close(self, patience: float) -> None:
        """Have it finish what it does and close; kill it if that takes more than so many seconds."""
        deadline = time.monotonic() + patience
        self._is_closing = True
        if self._sending.acquire(timeout=patience):
            self._requests.close()
            self._sending.release()
        self._reader.join(max(0.0, deadline - time.monotonic()))
        if self._reader.is_alive():
            log.warning("the process of %s did not end and is killed", self._what)
            self._child.kill()
            self._reader.join()

    def _send(self, data: bytes) -> None:
        """Send, whether it arrives or not: if the process is gone, `_read` tells all who wait."""
        view = memoryview(data)
        with self._sending, contextlib.suppress(OSError):
            while view and not self._requests.closed:
                view = view[self._requests.write(view) :]

    def _read(self) -> None:
        """Hand out answers until the process has ended, and see it off."""
        decoder = msgspec.msgpack.Decoder(Answer)
        try:
            with self._answers:
                while (received := receive(self._answers)) is not None:
                    answer = decoder.decode(received[1])
                    call = self._calls.pop(received[0], None)
                    if call is not None:  # else nobody waits for it any more
                        call.settle(answer)
        except Exception:
            log.exception("the process of %s said something strange and is killed", self._what)
            self._child.kill()
        ending = self._reaped()
        if not self._is_closing or ending != _IN_ORDER:
            log.warning("the process of %s ended (%s)", self._what, ending)
        with self._lock:
            self._ending = ending
            calls = list(self._calls.values())
        for call in calls:
            call.settle(self._farewell())
        with self._sending:
            self._requests.close()

    def _reaped(self) -> str:
        try:
            code = self._child.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._child.kill()
            code = self._child.wait()
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def _farewell(self) -> Failed:
        """The answer to a call that the process will never give."""
        if self._is_closing:
            return Failed("unavailable", self._closed)
        code, hint = self._crash
        return Failed(code, f"The process of {self._what} ended ({self._ending}) before it answered this call", hint)

    def __repr__(self) -> str:
        return f"<ChildEngine {self._child.pid} {self._ending or 'running'}>"
