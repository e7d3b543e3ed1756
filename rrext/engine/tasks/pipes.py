"""Open pipes: owners, states, and idle pipes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.flow.objects import NodeObjects
from rrext.engine.host.places import FairLock, HeldPlace, LockTurn, Place
from rrext.engine.interface.call import Caller
from rrext.errors import PipeExpired, PipeFailed, PipeNotOpen, RrextError
from rrext.nodes.base.node import Entry

if TYPE_CHECKING:
    from rrext.engine.events.hub import EventOrigin
    from rrext.engine.flow.intake import Intake
    from rrext.engine.tasks.task import Task

MAX_KEPT_RESULT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the results of pipes that failed, kept for their `close`."""


class OpenPipe:
    """One open pipe: an object with its own node objects.

    What happens to the object happens in turns of `lock`, in the order in which requests arrived: a request that is stopped
    before its turn keeps it, for its effect.

    | the pipe | from | what it answers |
    |---|---|---|
    | is open | `open` | each request its own result |
    | has `failed` | a `write` that failed or was stopped | `pipe_failed`, and to `close` the result with the error |
    | `has_ended` with a `result` | the turn of the settling behind the failure | the same |
    | `has_ended` | the turn of a `close`, or of a reclaim: a stopped `close`, or nobody uses it | `pipe_not_open` |

    Only a holder of an exclusive turn sets `has_ended`, `result` and, for its own failure, `failed`. `closed` says that the
    place was given back, which may come later. `Pipes` finds a pipe until its end is certain.

    `caller` opened the pipe, and is the context of its calls. `failed` is the first error of the object. `leftovers` counts
    threads that outlived their calls; while one runs, the node objects must not be touched. `quick` says that the last write
    was so short that a hop to a thread would cost more. `end_reason` is the reason in the `PipeClosed` event; `origin` is the
    origin of its events.
    """

    def __init__(
        self,
        origin: EventOrigin,
        task: Task,
        caller: Caller,
        objects: NodeObjects,
        entry: Entry,
        intake: Intake,
        place: Place | HeldPlace,
        now: float,
    ) -> None:
        assert origin.pipe_id is not None
        self.id = origin.pipe_id
        self.task = task
        self.caller = caller
        self.objects = objects
        self.entry = entry
        self.intake = intake
        self.place = place
        self.lock = FairLock()
        self.failed: RrextError | None = None
        self.closed = False
        self.leftovers = 0
        self.last_used = self.began = now
        self.quick = False
        self.origin = origin
        self.end_reason = "closed"
        self.has_ended = False
        """Whether its end has had its turn: requests behind it come too late, those before it go on."""
        self.result: bytes | None = None
        """The answer of its `close`, kept after the end of a failed object."""
        self.has_object = True
        """Whether its object has not ended: it has not been counted yet."""
        task.throughput.begin(now)
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None

    def fail(self, error: RrextError) -> None:
        """Mark the object failed. The first error is kept, and the nodes send nothing after it."""
        if self.failed is None:
            self.failed = error.again()
        self.objects.fail(error)

    def fail_at(self, turn: LockTurn, error: RrextError) -> None:
        """Fail the object at this turn: those before it go on."""

        def fail() -> None:
            self.fail(error)
            turn.release()

        if not turn.when_granted(fail):
            fail()

    def check_open(self) -> None:
        """Raise `PipeNotOpen` if the pipe ended before this turn, and no result waits for its `close`."""
        if self.has_ended and self.result is None:
            raise PipeNotOpen.of(self.id)

    def check_usable(self) -> None:
        """Raise `PipeNotOpen`, or `PipeFailed` if the object failed."""
        self.check_open()
        if self.failed is not None:
            raise PipeFailed.of(self.id, self.failed)

    def check_writable(self) -> None:
        """`check_usable`; raise `PipeFailed` also if a thread that outlived its call still runs on the node objects."""
        self.check_usable()
        if self.leftovers:
            raise PipeFailed(
                f"Pipe {self.id} cannot be written to: a tool that was cancelled or timed out still runs on it",
                hint="close it, or wait until the tool returns",
                data={"pipe_id": self.id},
            )

    def leave_thread_behind(self) -> None:
        """Count a thread that goes on though its call was answered."""
        with self._lock:
            self.leftovers += 1

    def thread_returned(self) -> None:
        """Count a left-behind thread that returned. The last one of a closed pipe releases the pipe's place."""
        with self._lock:
            self.leftovers -= 1
            free = self.closed and not self.leftovers
            wake = None if self.leftovers else self._wake
        if free:
            self.place.release()
        if wake is not None:
            wake()

    def when_threads_returned(self, wake: Callable[[], None]) -> bool:
        """False if no thread is left behind; else True, and `wake` runs in the thread that returns last."""
        with self._lock:
            self._wake = wake
            return self.leftovers > 0

    def end_object(self, body: bytes | None) -> None:
        """Count and publish the end of the object, with a result or without; only once. On the loop's thread."""
        has_object, self.has_object = self.has_object, False
        if not has_object:
            return
        task, is_complete = self.task, body is not None and self.failed is None
        task.finished_count += is_complete
        task.failed_count += not is_complete
        task.throughput.end(self, task.now(), is_complete=is_complete)
        if (events := self.origin.events.flow) is not None:
            failure = self.failed or self.objects.failure
            events.object_ended(self.origin, self.entry, self.task.now() - self.began, failure, body)
        if (trace := self.origin.trace) is not None:
            trace.end(body, self.failed or self.objects.failure)

    def forget_object(self) -> None:
        """Free what the object of a closed pipe holds."""
        self.entry = Entry(self.entry.name)
        self.objects = NodeObjects(self.objects.plan, self.task.make_object)

    def free(self) -> None:
        """Release the place of a closed pipe, now or when the last left-behind thread returns."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            free = not self.leftovers
        self.end_object(None)
        if (events := self.origin.events.flow) is not None:
            events.pipe_closed(self.origin, self.end_reason, self.task.now() - self.began)
        if free:
            self.place.release()


class Pipes:
    """The map of open pipes, also of those that failed and gave their place back: `close` still gets the result.

    Ids count up from `first` for the life of the process and are never reused.
    """

    __slots__ = (
        "_expired", "_keep_expired", "_kept", "_kept_bytes", "_of_connection", "_of_task", "_open", "numbers", "when_refused",
    )  # fmt: skip

    def __init__(self, keep_expired: int, first: int = 1) -> None:
        self.when_refused: Callable[[OpenPipe], object] | None = None
        """Ends a pipe whose user is no member of its space any more."""
        self._kept: dict[int, int] = {}
        """Pipe with a kept result → its size, in the order in which they ended."""
        self._kept_bytes = 0
        self._open: dict[int, OpenPipe] = {}
        self._of_task: dict[Task, dict[int, OpenPipe]] = {}
        self._of_connection: dict[str, dict[int, OpenPipe]] = {}
        self.numbers = count(first)
        """The ids of the next pipes."""
        self._expired: OrderedDict[int, tuple[str, float]] = OrderedDict()
        self._keep_expired = keep_expired

    def add(self, pipe: OpenPipe) -> None:
        """Register an open pipe."""
        self._open[pipe.id] = pipe
        self._of_task.setdefault(pipe.task, {})[pipe.id] = pipe
        self._of_connection.setdefault(pipe.caller.connection_id, {})[pipe.id] = pipe

    def at(self, pipe_id: int) -> OpenPipe | None:
        """The open pipe with this id, of any connection."""
        return self._open.get(pipe_id)

    def get(self, pipe_id: int, connection_id: str) -> OpenPipe | None:
        """The caller's open pipe, or None."""
        pipe = self._open.get(pipe_id)
        return pipe if pipe is not None and pipe.caller.connection_id == connection_id else None

    def find(self, pipe_id: int, connection_id: str) -> OpenPipe:
        """The caller's open pipe. Raises `PipeExpired`, or `PipeNotOpen` also for a pipe of another connection, and the errors
        of `Task.require_member` if the space that its caller claims is closed to the user now.
        """
        pipe = self.get(pipe_id, connection_id)
        if pipe is not None:
            if pipe.caller.claims:
                self._require_member(pipe)
            return pipe
        owner, idle = self._expired.get(pipe_id, (None, 0.0))
        if owner == connection_id:
            raise PipeExpired(
                f"Pipe {pipe_id} is not open: it was reclaimed after {idle:g} idle seconds",
                hint="open a new pipe; `--pipe-idle` sets how long one may be idle",
                data={"pipe_id": pipe_id, "idle": idle},
            )
        raise PipeNotOpen.of(pipe_id)

    def _require_member(self, pipe: OpenPipe) -> None:
        try:
            if not pipe.task.require_member(pipe.caller):
                raise PipeNotOpen.of(pipe.id)  # the pipeline ends
        except RrextError:
            if self.when_refused is not None:
                self.when_refused(pipe)
            raise

    def remove(self, pipe: OpenPipe) -> None:
        """Remove a pipe from the map."""
        if self._open.pop(pipe.id, None) is not None:
            _drop(self._of_task, pipe.task, pipe.id)
            _drop(self._of_connection, pipe.caller.connection_id, pipe.id)
            self._kept_bytes -= self._kept.pop(pipe.id, 0)

    def remember_expired(self, pipe: OpenPipe, idle: float) -> None:
        """Let later uses of a removed pipe raise `PipeExpired`, while its id is among the remembered ones."""
        self._expired[pipe.id] = (pipe.caller.connection_id, idle)
        while len(self._expired) > self._keep_expired:
            self._expired.popitem(last=False)

    def keep_result(self, pipe: OpenPipe, body: bytes) -> None:
        """Keep the result of a pipe that failed and ended, and nothing else of its object, for its `close`; the oldest results
        go first.
        """
        pipe.result = body
        pipe.forget_object()
        if pipe.id in self._open:  # else only requests that wait on it get the result
            self._kept[pipe.id] = len(body)
            self._kept_bytes += len(body)
        while self._kept_bytes > MAX_KEPT_RESULT_BYTES or len(self._kept) > self._keep_expired:
            oldest = self._open[next(iter(self._kept))]
            self.remove(oldest)
            self.remember_expired(oldest, oldest.task.now() - oldest.last_used)

    def take_result(self, pipe: OpenPipe) -> bytes | None:
        """The result of a failed pipe, once."""
        body, pipe.result = pipe.result, None
        if body is not None:
            self.remove(pipe)
        return body

    def idle_since(self, deadline: float) -> list[OpenPipe]:
        """The pipes that were not used after `deadline` and are not in use."""
        return [p for p in self._open.values() if p.last_used <= deadline and p.lock.is_idle and not p.leftovers]

    def of_connection(self, connection_id: str) -> list[OpenPipe]:
        """The pipes that a connection opened."""
        return list(self._of_connection.get(connection_id, {}).values())

    def of_task(self, task: Task) -> list[OpenPipe]:
        """The open pipes of a task."""
        return list(self._of_task.get(task, {}).values())

    def forget_connection(self, connection_id: str) -> None:
        """Forget the expired pipes of a connection that ended."""
        for pipe_id in [n for n, (owner, _) in self._expired.items() if owner == connection_id]:
            del self._expired[pipe_id]

    def __iter__(self) -> Iterable[OpenPipe]:
        return iter(list(self._open.values()))

    @property
    def any_known(self) -> bool:
        """Whether there is a pipe, also one with a kept result."""
        return bool(self._open)

    def __len__(self) -> int:
        return len(self._open) - len(self._kept)


def _drop(index: dict[Any, dict[int, OpenPipe]], key: object, pipe_id: int) -> None:
    of_key = index[key]
    del of_key[pipe_id]
    if not of_key:
        del index[key]
