"""The processor time and memory of this process, as the status of a task has them."""

from __future__ import annotations

import os
from time import monotonic, process_time
from typing import Any, Final

from rrext.limits import MIB

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
