"""Keeps a child process running, so that a call that kills or blocks the process costs no other call its answer.

Use by a node:

    supervisor = Supervisor(start, closed="The database is closed", memory="the database")    # start() -> NodeProcess

- Each request that may hang has a `patience` (see `process.ChildRequest`). When its call is cancelled or its time is up,
  cancel the `ToolContext` that `ask` was given: `ask` raises at once, and the process is killed if the request does not
  stop within its patience. Send the message that ends the transaction with `tell`; the process does it in its turn.
- A call that only reads is `supervisor.repeated(attempt, ctx, reads=True, timeout=statement_timeout)`. `attempt(left)` gets
  the process from `supervisor.process()`, does everything from the beginning, and takes at most `left` seconds (0: no limit).
  An attempt that raises `ProcessLost` by no fault of its own is repeated on the next process. For a stream, an attempt ends
  with the first chunk: chunks that a caller has seen cannot be taken back.
- A call that may write is the same with `reads=False`: it is repeated only if no statement of the caller had run. Otherwise
  `ProcessLost` comes through; its `is_unknown` says that the process was lost during a commit.
- The committed data of a database in memory is lost with its process. Call `wrote()` after each commit: then the next call of
  each connection raises `database_lost` instead of an answer from an empty database, also of one that may only read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

from rrext.errors import ToolError, Unavailable
from rrext.nodes.child.process import ProcessLost
from rrext.tools.context import ToolContext

ATTEMPTS: Final = 5
"""The maximum number of attempts of a call."""
RUNS_ALONE_FOR: Final = 1.0
"""Seconds for which a call that may have ended the process has the next process for itself."""
WAIT_TURN: Final = 0.05
"""Seconds between checks whether a waiting call has been cancelled."""
LEAST_TIME: Final = 0.001
"""Seconds for a repeated attempt whose time is over, so that it ends with the ordinary timeout error."""
MOST_TOLD: Final = 10_000
"""Connections that are told of lost data, each once. Those that come so late have never seen the data."""

T = TypeVar("T")


class Supervised(Protocol):
    """A process as a supervisor sees it. `is_over`: it has ended, or takes no more calls."""

    @property
    def is_over(self) -> bool: ...

    def close(self, patience: float) -> None: ...


P = TypeVar("P", bound=Supervised)


class Supervisor(Generic[P]):
    """One process after the other, started when a call needs one. Thread-safe.

    `memory` names a database that is in the memory of the process alone; empty: committed data outlives the process.
    """

    def __init__(self, start: Callable[[], P], *, closed: str, memory: str = "") -> None:
        self._start = start
        self._closed = closed
        self._memory = memory
        self._lock = threading.Lock()
        self._process: P | None = None
        self._is_closed = False
        self._has_data = False  # committed data, in memory only
        self._is_lost = False
        self._content: Sequence[str] = ()  # names of what is in memory, as far as it is known
        self._gone: Sequence[str] = ()
        self._told: set[str | int | None] = set()  # the connections that know of the loss
        self._suspects = Suspects()

    def process(self) -> P:
        """The running process; starts one if there is none. Raises `Unavailable` after `close`, and what the start raises."""
        with self._lock:
            if self._is_closed:
                raise Unavailable(self._closed)
            self._drop_ended()
            if self._process is None:
                self._process = self._start()
            return self._process

    @property
    def running(self) -> P | None:
        """The running process; None if there is none."""
        process = self._process
        return None if process is None or process.is_over else process

    def wrote(self, content: Sequence[str] | None = None) -> None:
        """Record that data was committed, and what there is now, by name; None: as before."""
        self._has_data = bool(self._memory)
        if content is not None:
            self._content = content

    def repeated(self, attempt: Callable[[float], T], ctx: ToolContext, *, reads: bool, timeout: float) -> T:
        """Run `attempt` and return its result; repeat it if the process ended by no fault of the attempt.

        Raises the errors of `attempt`: `ProcessLost` if the attempt caused it, or writes; `ToolError` (`database_lost`).
        """
        since = monotonic()
        self._suspects.wait_for_suspects(ctx)
        lost: ProcessLost | None = None
        for number in range(ATTEMPTS):
            self._admit(ctx)
            is_suspect = lost is not None and lost.suspects > 0
            with self._suspects.turn(ctx) if is_suspect else nullcontext():
                left = timeout and max(LEAST_TIME, timeout - (monotonic() - since if lost else 0.0))
                try:
                    return attempt(left)
                except ProcessLost as error:
                    lost = error
                    if number == ATTEMPTS - 1 or not self._may_repeat(error, reads=reads):
                        raise
            ctx.check()
        raise AssertionError("unreachable")

    def close(self, patience: float) -> None:
        """End the process, and start no other."""
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.close(patience)

    def _drop_ended(self) -> None:
        """Drop a process that has ended, and record the loss of its data."""
        if self._process is not None and self._process.is_over:
            self._process = None
            if self._has_data:
                self._is_lost, self._has_data = True, False
                self._gone, self._content = self._content, ()
                self._told.clear()

    def _admit(self, ctx: ToolContext) -> None:
        with self._lock:
            self._drop_ended()
            if not self._is_lost or ctx.connection_id in self._told:
                return
            self._told.add(ctx.connection_id)
            self._is_lost = len(self._told) < MOST_TOLD
        gone = f". Gone: {', '.join(self._gone)}" if self._gone else ""
        raise ToolError(
            f"The data of {self._memory} is lost: it was in memory alone, and its process ended{gone}",
            code="database_lost",
            hint="Call again to begin with an empty one. A database with a path keeps what is committed.",
        )

    def _may_repeat(self, lost: ProcessLost, *, reads: bool) -> bool:
        """Whether the call may be repeated. A call that ran alone ended the process itself."""
        return lost.suspects != 1 and (reads or lost.is_harmless)


class Suspects:
    """The calls that were running when a process ended by itself. They are repeated one by one, each alone at first, so that
    the call that caused the crash harms no other; new calls wait for that."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0
        self._alone_until = 0.0

    def wait_for_suspects(self, ctx: ToolContext) -> None:
        """Wait until no suspect waits or runs alone. Raises if the call of `ctx` is cancelled or late."""
        if not self._waiting and not self._alone_until:
            return
        with self._changed:
            while self._waiting or monotonic() < self._alone_until:
                self._changed.wait(WAIT_TURN)
                ctx.check()

    @contextmanager
    def turn(self, ctx: ToolContext) -> Iterator[None]:
        """The turn of one suspect. Raises if the call of `ctx` is cancelled or late."""
        with self._changed:
            self._waiting += 1
            try:
                while monotonic() < self._alone_until:
                    self._changed.wait(WAIT_TURN)
                    ctx.check()
                mine = self._alone_until = monotonic() + RUNS_ALONE_FOR
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            with self._changed:
                if self._alone_until == mine:
                    self._alone_until = 0.0
                self._changed.notify_all()
