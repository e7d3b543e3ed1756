"""The numbers of an engine: sums, and how long its calls take."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rrext.engine.interface.operations import Close, Open, Operation, Tool, Write

if TYPE_CHECKING:
    from rrext.engine.interface.call import Call

BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)
"""Seconds: the upper bounds of the buckets of a histogram, from a quick tool to the longest that proxies wait for."""
MAX_SERIES: Final = 1000
"""How many series one metric has: each costs as much as a metric of its own. A histogram has one for each bucket."""
MAX_LABEL: Final = 200
"""Characters of a label: clients choose the names of their pipelines."""
SAMPLES: Final = 128
"""How many times wait to be sorted into buckets: sorting them together costs a third of sorting each by itself."""
COMMANDS: Final[dict[type[Operation], str]] = {Tool: "tool", Open: "open", Write: "write", Close: "close"}
"""The operations that are timed, with the names of their commands: those that run code of a pipeline."""
OTHER: Final = "other"
"""The user, the pipeline and the outcome of all that has no series of its own."""
DONE: Final = "done"
"""The outcome of a call that succeeded."""
NOBODY: Final = "local"
"""The user of callers without one."""

Labels: TypeAlias = tuple[str, str, str]
"""A user, a pipeline, and the command or the outcome of calls."""


class Totals(NamedTuple):
    """The numbers of an engine: of what is loaded, and of all that ever was."""

    tasks: int
    pipes: int
    running: int
    calls: int
    completed: int
    failed: int


class Times(NamedTuple):
    """How many calls took at most so long, in each bucket and in all; and the sum of their seconds."""

    reached: Sequence[int] = (0,) * (len(BUCKETS) + 1)
    seconds: float = 0.0

    def plus(self, other: Times) -> Times:
        """Both together."""
        return Times(
            [mine + more for mine, more in zip(self.reached, other.reached, strict=True)], self.seconds + other.seconds
        )


class Series:
    """The labels of a metric that have a series of their own: the first ones. A user gets at most half of those that are left,
    so that no names of one user take those of all.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._of_users: Counter[str] = Counter()
        self._known: set[Labels] = set()

    def take(self, labels: Labels) -> bool:
        """Whether these labels have a series of their own."""
        user = labels[0]
        if labels not in self._known and self._of_users[user] < self._left:
            self._of_users[user] += 1
            self._left -= 1
            self._known.add(labels)
        return labels in self._known


class TimedCalls:
    """The times of the calls with the same labels. Any thread may end a call, and most take no lock for it."""

    __slots__ = ("_home", "_now", "_samples", "_times", "failed", "labels", "outcome")

    def __init__(self, home: CallTimes, labels: Labels, outcome: Labels) -> None:
        self.labels = labels
        self.outcome = outcome
        """The labels of the calls that succeed."""
        self.failed = 0
        self._home = home
        self._now = home.now
        self._samples: list[float] = []
        self._times = Times()

    def end(self, began: float) -> None:
        """Count a call that succeeded."""
        samples = self._samples
        samples.append(self._now() - began)
        if len(samples) >= SAMPLES:
            with self._home.lock:
                self.read()

    def fail(self, began: float, code: str) -> None:
        """Count a call that failed."""
        with self._home.lock:
            self.failed += 1
            self._home.failures[self._home.outcome_of((*self.outcome[:2], code))] += 1
        self.end(began)

    def read(self) -> Times:
        """The times until now. The lock is held."""
        number = len(self._samples)  # others add to the end meanwhile
        fresh = sorted(self._samples[:number])
        del self._samples[:number]
        self._times = self._times.plus(Times([*(bisect_right(fresh, bound) for bound in BUCKETS), number], sum(fresh)))
        return self._times


class CallTimes:
    """The times and the outcomes of all calls that run code of pipelines, by users and pipelines. `now` is the clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.lock = threading.Lock()
        self.failures: Counter[Labels] = Counter()
        self._times = Series(MAX_SERIES // (len(BUCKETS) + 1) - len(COMMANDS))
        self._outcomes = Series(MAX_SERIES - 2)  # without those of all others, which succeeded or did not
        self._calls: dict[tuple[str, str | None, type[Operation]], TimedCalls] = {}
        self._others = {name: TimedCalls(self, (OTHER, OTHER, name), (OTHER, OTHER, DONE)) for name in COMMANDS.values()}

    def begin(self, call: Call, pipeline: str) -> None:
        """Time a call from now on, if it is one of those."""
        calls = self._calls.get((pipeline, call.caller.user_id, type(call.operation)))
        if calls is None:  # also for a name that is longer than a label
            calls = self._new_calls(call, pipeline[:MAX_LABEL])
        if calls is not None and call.timed is None:
            call.timed, call.began = calls, self.now()

    def _new_calls(self, call: Call, pipeline: str) -> TimedCalls | None:
        """The calls like the first one of a user, a pipeline and a command."""
        command = COMMANDS.get(type(call.operation))
        if command is None:
            return None
        user = (call.caller.user_id or NOBODY)[:MAX_LABEL]
        timed, counted = (user, pipeline, command), (user, pipeline, DONE)
        with self.lock:
            is_timed, is_counted = self._times.take(timed), self._outcomes.take(counted)
            other = self._others[command]
            if not (is_timed or is_counted):
                return other
            made = TimedCalls(self, timed if is_timed else other.labels, counted if is_counted else other.outcome)
            return self._calls.setdefault((pipeline, call.caller.user_id, type(call.operation)), made)

    def outcome_of(self, labels: Labels) -> Labels:
        """The labels that an outcome is counted under. The lock is held."""
        if self._outcomes.take(labels):
            return labels
        return OTHER, OTHER, DONE if labels[2] == DONE else OTHER

    def read(self) -> tuple[dict[Labels, Times], dict[Labels, int]]:
        """The times by users, pipelines and commands, and the numbers of calls by users, pipelines and outcomes."""
        times: dict[Labels, Times] = {}
        with self.lock:
            outcomes = Counter(self.failures)
            for calls in (*self._others.values(), *self._calls.values()):
                found = calls.read()
                times[calls.labels] = times.get(calls.labels, Times()).plus(found)
                outcomes[calls.outcome] += found.reached[-1] - calls.failed
        return {labels: each for labels, each in times.items() if each.reached[-1]}, +outcomes
