"""The processes of workers with all that they started, in /proc: their memory, and their end.

Each worker has a mark of its own. All processes that the worker's tools start inherit this mark, and keep it when they clear
their environment, begin a session or lose their parents: the mark is a limit of the system, far above the use of ordinary
processes. Where the system takes no such limit, the session of a process alone tells its worker. Without /proc no processes
are found.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Set
from contextlib import suppress
from typing import Any, Final

import msgspec

SWEEPS: Final = 5
"""How often what a dead worker left behind is looked for again, because a process that was killed had started another."""
MEMORY_INTERVAL: Final = 1.0
"""Seconds between two looks at the memory of workers: a look at a thousand takes some hundredths of one."""
HIGHEST_MARK: Final = 1 << 62
"""Microseconds of the limit that marks a worker. It is at least half as high: a process of a real-time class, which alone has
this limit, could run for a thousand centuries."""
MARKS: Final = 1 << 56
"""Numbers from which a mark is drawn: no two servers have the same. A server below a worker draws from those below its mark."""


_MARK_LINE: Final = re.compile(rb"^Max realtime timeout +\d+ +(\d+) ", re.MULTILINE)
_PAGE: Final = resource.getpagesize()

log: Final = logging.getLogger("rrext.tasks")


def set_mark(pid: int) -> int:
    """Mark a process before it starts others; the mark, 0 if the system has none."""
    try:
        _, most = resource.prlimit(pid, resource.RLIMIT_RTTIME)
        mark = (HIGHEST_MARK if most == resource.RLIM_INFINITY else most) - 1 - int.from_bytes(os.urandom(8)) % MARKS
        if mark < HIGHEST_MARK // 2:
            return 0
        resource.prlimit(pid, resource.RLIMIT_RTTIME, (mark, mark))
    except (AttributeError, OSError, ValueError):
        return 0
    return mark


class _Seen(msgspec.Struct, gc=False):
    """A process as it was seen last: when it began, the worker's number that it belongs to (0: none), bytes in memory."""

    began: bytes
    family: int
    resident: int


class Excess(msgspec.Struct, frozen=True):
    """A worker that uses too much: the number of the worker, the used bytes, its limit, and the processes."""

    family: int
    used: int
    maximum: int
    pids: list[int]


class Families:
    """Reads again and again what the workers and their children use. In one thread at a time.

    `parent` tells the process that starts workers.
    """

    def __init__(self, parent: Callable[[], int] = os.getpid) -> None:
        self._parent = parent
        self._seen: dict[int, _Seen] = {}

    def over(self, workers: Mapping[int, tuple[int, int]], limits: Mapping[int, int]) -> list[Excess]:
        """The workers that use more than their bytes in `limits`, of these: number → process and mark."""
        found: dict[int, list[int]] = {}
        for pid, family in self.read(workers).items():
            found.setdefault(family, []).append(pid)
        excesses = []
        for family, pids in found.items():
            limit = limits[family]
            if sum(self._seen[pid].resident for pid in pids) > limit:  # pages that processes share count for each
                used = sum(_own_share(pid) or self._seen[pid].resident for pid in pids)
                if used > limit:
                    excesses.append(Excess(family, used, limit, pids))
        return excesses

    def read(self, workers: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """The processes of these workers: process → the number of its worker."""
        before, self._seen = self._seen, {}
        sessions = {pid: number for number, (pid, _) in workers.items()}
        marks = {mark: number for number, (_, mark) in workers.items() if mark}
        for pid in _pids():
            known = before.get(pid)
            if known is not None and not known.family:
                self._seen[pid] = known
                continue
            status = _status(pid)
            if status is None:
                continue
            parent, session, began, resident = status
            if known is not None and known.began == began:
                family = known.family
            else:
                mark = _mark_of(pid)
                family = marks.get(mark) or sessions.get(session) or 0
                if not family and (mark or parent == self._parent()):
                    continue  # of a worker that starts, and is among the workers at the next look
            self._seen[pid] = _Seen(began, family, resident)
        return {pid: seen.family for pid, seen in self._seen.items() if seen.family in workers}


def kill(pids: Iterable[int]) -> None:
    """Kill processes that were read just now."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def sweep(marks: Iterable[int]) -> None:
    """Kill the processes that dead workers left behind, but for this one."""
    wanted = set(marks) - {0}
    for _ in range(SWEEPS):
        if not sum(_kill_marked(pid, wanted) for pid in _pids() if pid != os.getpid() and _mark_of(pid) in wanted):
            return


class Sweeps:
    """Looks for what dead workers left behind, one look after the other: one serves all that died meanwhile, as it reads of
    every process of the machine. On a loop. `begin` starts a task, `look` is `sweep` in a thread.
    """

    def __init__(
        self, begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]], look: Callable[[list[int]], Awaitable[None]]
    ) -> None:
        self._begin = begin
        self._look = look
        self._marks: list[int] = []
        self._work: asyncio.Task[None] | None = None

    def add(self, mark: int) -> None:
        """Look for what a worker with this mark left behind; 0 is none of this machine."""
        if mark:
            self._marks.append(mark)
            if self._work is None:
                self._work = self._begin(self._run())

    async def _run(self) -> None:
        while self._marks:
            marks, self._marks = self._marks, []
            try:
                await self._look(marks)
            except Exception:
                log.exception("what a process of a task left behind cannot be ended")
        self._work = None

    async def done(self, seconds: float | None = None) -> None:
        """Wait, at most so long, until nothing is left behind."""
        if self._work is not None:
            await asyncio.wait([self._work], timeout=seconds)


def end_family(mark: int) -> None:
    """End a worker whose server is dead, with all that it started. In the worker, or in its watchdog."""
    try:
        sweep([mark])
    finally:
        os.killpg(0, signal.SIGKILL)


def _kill_marked(pid: int, wanted: Set[int]) -> bool:
    """Kill a process if it is still the one that was read."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return False
    try:
        if _mark_of(pid) not in wanted:
            return False
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _read(path: str) -> bytes:  # a worker, which reads few files, does without `pathlib`
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _status(pid: int) -> tuple[int, int, bytes, int] | None:
    """Parent, session, begin and bytes in memory of a process."""
    try:
        fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    except OSError:
        return None
    return int(fields[1]), int(fields[3]), fields[19], int(fields[21]) * _PAGE


def _mark_of(pid: int) -> int:
    """The mark of a process; 0 for none, and for a process that has ended."""
    try:
        limits = _read(f"/proc/{pid}/limits")
    except OSError:
        return 0
    found = _MARK_LINE.search(limits)
    return 0 if found is None else int(found[1])


def _own_share(pid: int) -> int:
    """The bytes in memory that a process uses, its part of those that it shares; 0 if that is not told."""
    try:
        lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:"))
