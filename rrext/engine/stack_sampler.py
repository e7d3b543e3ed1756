"""A sampling profiler: which functions use the processor, in every thread, at a cost that nobody else notices."""

from __future__ import annotations

import threading
from time import perf_counter
from types import FrameType
from typing import Final

from rrext.engine.loop_watch import stacks_of_threads

PROFILE_INTERVAL: Final = 0.01
"""Seconds between two samples of a profile: a look at twenty threads takes a third of a millisecond."""
MAX_PROFILE_NODES: Final = 20_000
"""Functions in the tree of a profile, which is some megabytes then; the time of more is that of their callers."""
MAX_PROFILE_DEPTH: Final = 150
"""Calls within each other in a profile: readers of JSON do not take trees of any depth."""

Place = tuple[str, str, int]
"""Name, file and first line of a function."""


class CallNode:
    """A function in the tree of calls. `calls` counts the calls that samples saw, `seconds` are those of its own code."""

    __slots__ = ("calls", "children", "seconds", "total")

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.total = 0.0
        """The seconds of its code and of all that it called, after `sum_up`."""
        self.children: dict[Place, CallNode] = {}

    def sum_up(self) -> float:
        """Compute the totals of the tree; returns that of its root."""
        self.total = self.seconds + sum(child.sum_up() for child in self.children.values())
        return self.total


class ThreadTimes:
    """What samples saw of one thread: `root` is the tree of its calls."""

    __slots__ = ("before", "name", "root", "samples", "stack", "tid")

    def __init__(self, name: str, tid: int, before: float) -> None:
        self.name = name
        self.tid = tid
        self.before = before
        """The processor time of the thread at the last sample."""
        self.samples = 0
        self.root = CallNode()
        self.stack: list[int] = []
        """The identities of the frames of the last sample."""


class StackSampler:
    """Looks at the stacks of all threads a hundred times a second, and gives each the processor time that it used.

    Only on systems with `/proc`; elsewhere threads have the time that has passed, also while they wait.
    """

    def __init__(self) -> None:
        self.threads: dict[int, ThreadTimes] = {}
        self.began = perf_counter()
        self.runtime = 0.0
        self._nodes = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rrext profiler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the session; nothing is sampled after this."""
        self._stopped.set()
        self._thread.join()
        self.runtime = perf_counter() - self.began

    def _run(self) -> None:
        self._sample(first=True)
        while not self._stopped.wait(PROFILE_INTERVAL):
            self._sample()

    def _sample(self, *, first: bool = False) -> None:
        names = {thread.ident: (thread.name, thread.native_id or 0) for thread in threading.enumerate()}
        for ident, stack in stacks_of_threads().items():
            name, tid = names.get(ident, (f"thread {ident}", 0))
            if ident == self._thread.ident:
                continue
            used = _processor_seconds(tid)
            times = self.threads.get(ident)
            if times is None or times.tid != tid:
                times = self.threads[ident] = ThreadTimes(name, tid, used if first else 0.0)
            seconds, times.before = used - times.before, used
            if seconds > 0 and not first:
                self._note(times, stack, seconds)

    def _note(self, times: ThreadTimes, stack: list[FrameType], seconds: float) -> None:
        node, before, is_same = times.root, times.stack, True
        outermost_first = stack[::-1][:MAX_PROFILE_DEPTH]
        for depth, frame in enumerate(outermost_first):
            code = frame.f_code
            place = (code.co_qualname, code.co_filename, code.co_firstlineno)
            child = node.children.get(place)
            if child is None:
                if self._nodes >= MAX_PROFILE_NODES:
                    break
                self._nodes += 1
                child = node.children[place] = CallNode()
            is_same = is_same and depth < len(before) and before[depth] == id(frame)
            child.calls += not is_same
            node = child
        node.seconds += seconds
        times.samples += 1
        times.stack = [id(frame) for frame in outermost_first]


def _processor_seconds(tid: int) -> float:
    """The processor time of a thread; where the system does not tell it, the time that has passed."""
    try:
        with open(f"/proc/self/task/{tid}/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return perf_counter()
