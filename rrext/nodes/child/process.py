"""The server's side of a child process: it starts the process, sends requests from many threads, and ends it.

A child imports the same modules as the server, and gets none of its secrets: they are neither in its environment nor in
its arguments, which every user of the machine can read. Requests keep their order, and no caller waits for a process that
does not read.

`supervisor` replaces a process that has ended, and repeats the calls that lost their answers by no fault of their own. A
family of nodes says only what differs: the command, the settings, the patience with each kind of request, the messages.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import ClassVar, Final, cast

import msgspec

from rrext.errors import RrextError, ToolError, Unavailable
from rrext.nodes.child.worker import Answer, Failed, frame, receive
from rrext.threads import Workers
from rrext.tools.context import CancelReason, ToolContext

ENDING_TIMEOUT: Final = 5.0
"""Seconds between the moment at which a process closes its socket and the kill of a process that has not ended."""

SETTLING_TIMEOUT: Final = 2.0
"""Seconds that a process gets, before it is killed, to answer requests that change data."""

SETTLING_TURN: Final = 0.01
"""Seconds between checks whether those requests have their answers."""

LOGGED_LINE: Final = 4096
"""Bytes of one logged line; the rest becomes the next log record."""

_ALLOCATOR: Final = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=200"}
"""Databases plan a statement in thousands of small pieces, and glibc caches only 7 of a size for each thread."""

_IN_ORDER: Final = "exit code 0"

log = logging.getLogger(__name__)


class ChildRequest(msgspec.Struct, frozen=True):
    """A request to a child process.

    `changes`: the request changes data. Its answer alone tells the result, so `ask` waits for it even after a cancel.
    `begins`: the request runs no statement of the caller yet, so repeating it is always harmless.
    `patience`: seconds that a cancelled request gets to stop before its process is killed; 0: killed at once; None: never.
    """

    changes: ClassVar[bool] = False
    begins: ClassVar[bool] = False
    patience: ClassVar[float | None] = None


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Cancels a call: the caller no longer wants its answer. This message has no answer of its own."""

    reason: CancelReason


class ProcessLost(ToolError):
    """The process ended before it answered the call.

    `suspects` is the number of calls that were running when the process ended by itself; 0 if it was killed because a call
    did not stop: the other calls did not cause that. `is_harmless`: no statement of the caller has run. `is_unknown`: a change
    may have been made, and the answer that would say so is lost. `how`: the signal or exit code of the process.
    """

    def __init__(
        self, message: str, *, code: str, hint: str, how: str, suspects: int, is_harmless: bool, is_unknown: bool
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.how = how
        self.suspects = suspects
        self.is_harmless = is_harmless
        self.is_unknown = is_unknown


class _Ended(msgspec.Struct, frozen=True):
    """Stands in place of an answer: how the process ended, and how many calls it was running; 0 if it was killed for one."""

    how: str
    at_work: int


class Waiting:
    """A call with a thread that waits for its answer."""

    __slots__ = ("_answer", "changed", "request", "settled")

    def __init__(self, request: ChildRequest) -> None:
        self.request = request
        self.changed = threading.Event()
        self.settled: threading.Event | None = None  # for a second thread that waits for the call
        self._answer: Answer | _Ended | None = None

    def settle(self, answer: Answer | _Ended) -> None:
        """Set the answer and wake the waiting threads."""
        self._answer = answer
        self.changed.set()
        if self.settled is not None:
            self.settled.set()

    def settles_within(self, seconds: float) -> bool:
        """Whether the answer comes within `seconds`. One thread may wait here while the call's own thread waits too."""
        self.settled = threading.Event()
        return self._answer is not None or self.settled.wait(seconds)

    def wait(self, ctx: ToolContext, until: float | None) -> bool:
        """Wait for the answer until the call is cancelled or late, or until a time; return whether it came. Cancelling sets
        `changed`."""
        while self._answer is None and not ctx.cancelled and (left := _left(ctx, until)) != 0.0:
            self.changed.wait(left)
        return self._answer is not None

    def wait_on(self) -> Answer | _Ended:
        """Wait for the answer without a limit. An answer always comes, at the latest when the process ends."""
        while self._answer is None:
            self.changed.wait()
            self.changed.clear()
        return self._answer


class NodeProcess:
    """A child process that answers requests. Any number of threads may send it requests at once.

    `what` names the process in messages, as `the vector store in "texts"`; `crash` is the code and the hint of the error for
    calls that a crash leaves without an answer, and `closed` the message for calls that `close` leaves without one.
    `variables` are added to the environment.
    """

    def __init__(
        self,
        command: list[str],
        settings: msgspec.Struct,
        *,
        what: str,
        crash: tuple[str, str],
        closed: str,
        inherits: Sequence[int] = (),
        variables: Mapping[str, str] = _ALLOCATOR,
    ) -> None:
        """Start the process; `settings` are its first message. It inherits the descriptors `inherits` with the same numbers.

        Raises `Unavailable` if the process cannot be started.
        """
        self._child = launch(command, what, {**environment(), **variables}, inherits)
        self._what = what
        self._crash = crash
        self._closed = closed
        self._requests = RequestQueue(cast(io.FileIO, self._child.stdin))  # an unbuffered pipe is a FileIO
        self._answers = io.BufferedReader(cast(io.FileIO, self._child.stdout))
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self.notify(settings)
        self._calls: dict[int, Waiting] = {}
        self._ending: _Ended | None = None
        self._is_closing = False
        self._is_terminating = False  # the process is killed for a call that does not stop, and takes no new calls
        self._workers = Workers()
        self._reader = threading.Thread(target=self._read, name=f"rrext-child-{self._child.pid}", daemon=True)
        self._reader.start()
        threading.Thread(target=self._listen, name=f"rrext-child-stderr-{self._child.pid}", daemon=True).start()

    @property
    def id(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def is_over(self) -> bool:
        """Whether the process has ended or is about to end, even if no thread has noticed it yet."""
        return self._ending is not None or self._is_terminating or self._child.poll() is not None

    def ask(self, request: ChildRequest, ctx: ToolContext, timeout: float | None = None) -> bytes:
        """Send a request and return its JSON answer.

        A cancelled call tells the process and raises at once, unless the request changes data: then it waits for the answer. A
        process that does not stop a cancelled request within its `patience` is killed. After `timeout` seconds the same
        happens, and `TimeoutError` is raised. Raises the error that the process answered; `ProcessLost` with the code of
        `crash` if the process ends.
        """
        number = next(self._numbers)
        data = frame(number, request)
        call = Waiting(request)
        with self._lock:
            if self._ending is not None or self._is_terminating:
                raise self._error_of_end(self._ending or _Ended("SIGKILL", 0), request, is_sent=False)
            self._calls[number] = call
        ctx.on_cancel(call.changed.set)
        is_left = False
        try:
            self._requests.send(data)
            if not call.wait(ctx, None if timeout is None else monotonic() + timeout):
                # The waiting thread sends this: the cancelling thread has other calls to cancel.
                self._requests.send(frame(number, Cancel(ctx.token.reason or "timeout")))
                patience = request.patience
                if patience == 0:
                    self.terminate()
                elif patience is not None:
                    is_left = not request.changes
                    self._workers.run(lambda: self._kill_if_stuck(number, call, patience))
                if not request.changes:
                    ctx.check()
                    raise TimeoutError
            answer = call.wait_on()
        finally:
            ctx.token.forget(call.changed.set)
            if not is_left:
                self._calls.pop(number, None)
        if isinstance(answer, _Ended):
            raise self._error_of_end(answer, request)
        if isinstance(answer, Failed):
            raise answer.error()
        return answer.result

    def notify(self, message: msgspec.Struct) -> None:
        """Send a message that has no answer or whose answer no thread waits for. Never blocks."""
        self._requests.send(frame(next(self._numbers), message))

    def close(self, patience: float) -> None:
        """Let the process finish its requests and end; kill it after `patience` seconds."""
        deadline = monotonic() + patience
        self._is_closing = True
        self._requests.close()
        self._reader.join(max(0.0, deadline - monotonic()))
        if self._reader.is_alive():
            log.warning("the process of %s did not end and is killed", self._what)
            self._child.kill()
            self._reader.join()
        self._workers.stop()

    def wait(self) -> None:
        """Wait, for a few seconds, until this object knows how the process ended."""
        self._reader.join(ENDING_TIMEOUT)

    def release(self) -> None:
        """Release resources after the end of the process; a subclass may override this."""

    def terminate(self) -> None:
        """Kill the process because work that arrived over another socket does not stop."""
        with self._lock:
            if self._is_terminating or self._ending is not None:
                return
            self._is_terminating = True
        log.warning("the process of %s is killed: it does not stop", self._what)
        self._child.kill()

    def lost(self, *, suspects: int, is_harmless: bool, is_unknown: bool) -> RrextError:
        """The error for a caller that used its own socket to the process and saw it close."""
        self.wait()
        how = "it closed a connection" if self._ending is None else self._ending.how
        return self._lost(how, suspects=suspects, is_harmless=is_harmless, is_unknown=is_unknown)

    def _kill_if_stuck(self, number: int, call: Waiting, patience: float) -> None:
        """Kill the process if a cancelled call does not stop soon. Commits get their answers before that."""
        if call.settles_within(patience):
            return
        deadline = monotonic() + SETTLING_TIMEOUT
        while not self._may_kill(call, is_late=monotonic() >= deadline):
            sleep(SETTLING_TURN)
        self._child.kill()

    def _may_kill(self, call: Waiting, *, is_late: bool) -> bool:
        """Refuse new calls before a kill, unless other calls still change data; return whether the kill may proceed."""
        with self._lock:
            if self._is_terminating or self._ending is not None:
                return True
            if not is_late and any(other.request.changes for other in self._calls.values() if other is not call):
                return False
            self._is_terminating = True
        log.warning("the process of %s is killed: it does not stop", self._what)
        return True

    def _read(self) -> None:
        """Pass answers to their calls until the process has ended, then clean up after it."""
        decoder = msgspec.msgpack.Decoder(Answer)
        try:
            with self._answers:
                while (received := receive(self._answers)) is not None:
                    answer = decoder.decode(received[1])
                    call = self._calls.pop(received[0], None)
                    if call is not None:  # else the call was cancelled and its thread has returned
                        call.settle(answer)
        except Exception:
            log.exception("the process of %s said something strange and is killed", self._what)
            self._child.kill()
        how = reap(self._child, ENDING_TIMEOUT)
        if not self._is_closing or how != _IN_ORDER:
            log.warning("the process of %s ended (%s)", self._what, how)
        with self._lock:
            calls = list(self._calls.values())
            ended = self._ending = _Ended(how, 0 if self._is_terminating else len(calls))
        for call in calls:
            call.settle(ended)
        self._requests.close()
        self.release()

    def _listen(self) -> None:
        """Log the standard error of the process, as after a panic. Such lines may contain values of the settings."""
        with io.BufferedReader(cast(io.FileIO, self._child.stderr)) as said:
            while line := said.readline(LOGGED_LINE):
                log.warning("the process of %s says: %s", self._what, line.decode("utf-8", "replace").rstrip())

    def _error_of_end(self, ended: _Ended, request: ChildRequest, *, is_sent: bool = True) -> RrextError:
        """The error of a call that the process will never answer."""
        return self._lost(
            ended.how,
            suspects=ended.at_work,
            is_harmless=request.begins or not is_sent,
            is_unknown=request.changes and is_sent,
        )

    def _lost(self, how: str, *, suspects: int, is_harmless: bool, is_unknown: bool) -> RrextError:
        if self._is_closing:
            return Unavailable(self._closed)
        code, hint = self._crash
        if self._is_terminating:
            how, hint = "killed, as another call did not stop", "Another process is started. Call again."
        return ProcessLost(
            f"The process of {self._what} ended ({how}) before it answered this call",
            code=code,
            hint=hint,
            how=how,
            suspects=0 if self._is_terminating else suspects,
            is_harmless=is_harmless,
            is_unknown=is_unknown,
        )


def _left(ctx: ToolContext, until: float | None) -> float | None:
    """The seconds until the deadline of a call and until a time; None if there is neither."""
    remaining = ctx.remaining()
    if until is None:
        return remaining
    left = max(0.0, until - monotonic())
    return left if remaining is None else min(left, remaining)


_HOME: Final = str(Path(__file__).parents[3])
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
"""Environment variables that a child process gets: language, time zone, what loads libraries; no secret."""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of rrext in a new Python. No file of its working directory hides a module."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of a child process, with this process's module path: rrext may run from a checkout."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([_HOME, *filter(None, sys.path)]))
    return kept


def launch(
    command: Sequence[str],
    what: str,
    variables: Mapping[str, str],
    inherits: Sequence[int],
    *,
    streams: int = subprocess.PIPE,
    new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a child process with the environment `variables`, which inherits descriptors with the same numbers.

    All three standard streams are `streams`. Raises `Unavailable`, in which `what` names the process.
    """
    try:
        return subprocess.Popen(
            command,
            stdin=streams,
            stdout=streams,
            stderr=streams,
            bufsize=0,
            cwd="/",
            env=variables,
            pass_fds=inherits,
            start_new_session=new_session,
        )
    except OSError as error:
        raise Unavailable(f"The process of {what} cannot be started: {error.strerror}") from error


def reap(child: subprocess.Popen[bytes], patience: float) -> str:
    """Wait for the end of a child process, kill it after `patience` seconds, and return how it ended."""
    try:
        code = child.wait(patience)
    except subprocess.TimeoutExpired:
        child.kill()
        code = child.wait()
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class RequestQueue:
    """Writes frames to a pipe. A thread of the queue writes the bytes that the pipe does not take at once."""

    def __init__(self, pipe: io.FileIO) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe
        self._lock = threading.Lock()
        self._left: deque[memoryview] = deque()
        self._is_writing = False  # whether the thread runs; then the thread closes the pipe
        self._is_closed = False

    def send(self, data: bytes | bytearray) -> None:
        """Send a frame. No error if the process is gone: the thread that reads the answers notices that."""
        view = memoryview(data)
        with self._lock:
            if self._is_closed:
                return
            if not self._is_writing:
                view = self._rest(view)
            if not view:
                return
            self._left.append(view)
            if not self._is_writing:
                self._is_writing = True
                threading.Thread(target=self._write_on, name="rrext-child-requests", daemon=True).start()

    def close(self) -> None:
        """Refuse new frames, and close the pipe when all earlier ones are written."""
        with self._lock:
            self._is_closed = True
            if not self._is_writing:
                self._pipe.close()

    def _rest(self, view: memoryview) -> memoryview:
        """Write to the pipe and return the bytes that it does not take now."""
        try:
            while view and (count := self._pipe.write(view)) is not None:
                view = view[count:]
        except OSError:  # the process is gone
            return view[:0]
        return view

    def _write_on(self) -> None:
        ready = select.poll()
        ready.register(self._pipe.fileno(), select.POLLOUT)
        while True:
            ready.poll()
            with self._lock:
                while self._left:
                    rest = self._rest(self._left[0])
                    if rest:
                        self._left[0] = rest
                        break
                    self._left.popleft()
                else:
                    self._is_writing = False
                    if self._is_closed:
                        with contextlib.suppress(OSError):
                            self._pipe.close()
                    return
