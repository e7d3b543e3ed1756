"""The numbers of a task: objects, bytes, words, rates and times of what it has processed, and what its process uses."""

from __future__ import annotations

import os
from collections import deque
from heapq import heappushpop
from time import monotonic, process_time, time
from typing import TYPE_CHECKING, Any, Final

from rrext.limits import MIB

if TYPE_CHECKING:
    from rrext.engine.tasks.pipes import OpenPipe


RATE_WINDOW: Final = 5
"""Seconds over which the rates in the status of a task are averaged: enough for slow objects, and still current."""

MAX_SLOW_OBJECTS: Final = 10
"""The slowest objects in the status of a task, as in the reference server's."""

MAX_SLOW_NAME: Final = 200
"""Characters of the name of such an object, as in the reference server's."""


class Throughput:
    """Counts the objects of one task, from the begin of the first one. On the loop's thread; times are the clock's."""

    __slots__ = (
        "_ends", "_idle_since", "_open", "_order", "_slowest", "completed_size", "completion_seconds", "failed_size",
        "idle_longest_at", "idle_longest_seconds", "idle_seconds", "words_count", "words_size",
    )  # fmt: skip

    def __init__(self) -> None:
        self.completed_size = 0
        self.failed_size = 0
        self.words_size = 0
        self.words_count = 0
        self.completion_seconds = 0.0
        self.idle_seconds = 0.0
        self.idle_longest_seconds = 0.0
        self.idle_longest_at = 0.0
        self._idle_since: float | None = None
        self._open = 0
        self._order = 0
        self._ends: deque[tuple[int, int, int]] = deque()
        self._slowest: list[tuple[float, int, dict[str, Any]]] = []

    def begin(self, now: float) -> None:
        """Count an object that begins."""
        self._open += 1
        if self._idle_since is not None:
            idle, self._idle_since = now - self._idle_since, None
            self.idle_seconds += idle
            if idle > self.idle_longest_seconds:
                self.idle_longest_seconds = idle
                self.idle_longest_at = time() - idle

    def end(self, pipe: OpenPipe, now: float, *, is_complete: bool) -> None:
        """Count an object that ended, with what its client sent."""
        intake, seconds = pipe.intake, now - pipe.began
        self._open -= 1
        if not self._open:
            self._idle_since = now
        self.words_size += intake.text_size
        self.words_count += intake.words
        if not is_complete:
            self.failed_size += intake.size
            return
        self.completed_size += intake.size
        self.completion_seconds += seconds
        self._note_rate(int(now), intake.size)
        self._order += 1
        entry = (seconds, -self._order, {"name": pipe.entry.name[:MAX_SLOW_NAME], "elapsed": round(seconds, 2)})
        entry[2].update(beginTime=time() - seconds, beginSeq=None)
        if len(self._slowest) < MAX_SLOW_OBJECTS:
            self._slowest.append(entry)
            self._slowest.sort()  # a sorted list is a heap
        else:
            heappushpop(self._slowest, entry)

    def _note_rate(self, second: int, size: int) -> None:
        ends = self._ends
        if ends and ends[-1][0] == second:
            _, count, bytes_before = ends.pop()
            ends.append((second, count + 1, bytes_before + size))
        else:
            ends.append((second, 1, size))
        while ends[0][0] <= second - RATE_WINDOW:
            ends.popleft()

    def counters(self, pipes: list[OpenPipe], now: float) -> dict[str, Any]:
        """The members of a task's status; `pipes` are the task's open ones."""
        recent = [(count, size) for second, count, size in self._ends if second > int(now) - RATE_WINDOW]
        arriving = sum(max(pipe.intake.size, pipe.entry.size or 0) for pipe in pipes)
        return {
            "totalSize": self.completed_size + self.failed_size + arriving,
            "completedSize": self.completed_size,
            "failedSize": self.failed_size,
            "wordsSize": self.words_size + sum(pipe.intake.text_size for pipe in pipes),
            "wordsCount": self.words_count + sum(pipe.intake.words for pipe in pipes),
            "rateSize": sum(size for _, size in recent) // RATE_WINDOW,
            "rateCount": round(sum(count for count, _ in recent) / RATE_WINDOW),
            "slowestDocs": [entry for *_, entry in sorted(self._slowest, key=lambda slow: (-slow[0], -slow[1]))],
            "completionSeconds": round(self.completion_seconds, 2),
            "idleSeconds": round(self.idle_seconds, 2),
            "idleLongestSeconds": round(self.idle_longest_seconds, 2),
            "idleLongestAt": self.idle_longest_at,
        }


METRICS_INTERVAL: Final = 0.25
"""Seconds over which processor time is measured at least: the clock of the kernel is coarser than shorter times."""

_PROCESSORS: Final = os.cpu_count() or 1
SAME_LOOK: Final = 0.01
"""Seconds in which a look at the process is not repeated: the list of a thousand tasks would be a thousand looks."""

_seen: tuple[tuple[float, float], float] = ((float("-inf"), 0.0), 0.0)


class ProcessMetrics:
    """Measures the process that runs a task, when it is asked, from the begin of the task.

    All tasks of a process share its numbers. 100 percent are all processors.
    """

    __slots__ = ("_began", "_latest", "_memory", "_peak_memory", "_peak_percent", "_percent", "_samples")

    def __init__(self) -> None:
        self._began = self._latest = (monotonic(), process_time())
        self._percent = 0.0
        self._peak_percent = 0.0
        self._memory = 0.0
        self._peak_memory = 0.0
        self._samples = 0

    def measured(self) -> dict[str, Any]:
        """The metrics of now, in percent and megabytes."""
        now, memory = _process()
        if not self._samples or now[0] - self._latest[0] >= METRICS_INTERVAL:
            self._percent = _percent(self._latest, now)
            self._latest = now
            self._peak_percent = max(self._peak_percent, self._percent)
        self._memory += memory
        self._samples += 1
        self._peak_memory = max(self._peak_memory, memory)
        return {
            "cpu_percent": self._percent,
            "cpu_memory_mb": memory,
            "gpu_memory_mb": 0.0,
            "peak_cpu_percent": self._peak_percent,
            "peak_cpu_memory_mb": self._peak_memory,
            "peak_gpu_memory_mb": 0.0,
            "avg_cpu_percent": _percent(self._began, now),
            "avg_cpu_memory_mb": round(self._memory / self._samples, 2),
            "avg_gpu_memory_mb": 0.0,
        }


def _percent(since: tuple[float, float], now: tuple[float, float]) -> float:
    seconds = now[0] - since[0]
    return 0.0 if seconds <= 0 else round(min(100.0, 100 * (now[1] - since[1]) / seconds / _PROCESSORS), 2)


def _process() -> tuple[tuple[float, float], float]:
    """The time and the processor time of a moment, and the memory; one look serves all tasks of a list."""
    global _seen
    at = monotonic()
    if at - _seen[0][0] >= SAME_LOOK:
        _seen = ((at, process_time()), _memory_mb())
    return _seen


def _memory_mb() -> float:
    """The resident memory; on systems without `/proc` its peak."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            pages = int(file.read().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / MIB, 2)
    except OSError:
        import resource

        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB, 2)
