"""The processes of workers with all that they started, in /proc: their memory, and their end.

A process belongs to a worker if it is in its session or group, if its parent does, or if it has the worker's mark in its
environment: so a child that left the session is found, and after the death of its parents too. Without /proc none is found.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from rrext.tasks.limits import SWEEPS

MARK: Final = "RREXT_TASK_PROCESS"
"""The variable of a worker and of its children with the mark of that worker: it opens nothing."""
_PAGE: Final = resource.getpagesize()


class _Seen(msgspec.Struct, gc=False):
    """A process as it was seen last: when it began, the worker's number that it belongs to (0: none), bytes in memory."""

    began: bytes
    family: int
    resident: int


class Excess(msgspec.Struct, frozen=True):
    """A worker that uses too much: the number of the worker, the used bytes, and the processes."""

    family: int
    used: int
    pids: list[int]


class Families:
    """Reads again and again what the workers and their children use. In one thread at a time."""

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def over(self, workers: Mapping[int, tuple[int, str]], limit: int) -> list[Excess]:
        """The workers that use more than `limit` bytes, of these: number → process and mark."""
        found: dict[int, list[int]] = {}
        for pid, family in self.read(workers).items():
            found.setdefault(family, []).append(pid)
        excesses = []
        for family, pids in found.items():
            if sum(self._seen[pid].resident for pid in pids) > limit:  # pages that processes share count for each
                used = sum(_own_share(pid) or self._seen[pid].resident for pid in pids)
                if used > limit:
                    excesses.append(Excess(family, used, pids))
        return excesses

    def read(self, workers: Mapping[int, tuple[int, str]]) -> dict[int, int]:
        """The processes of these workers: process → the number of its worker."""
        before, self._seen = self._seen, {}
        leaders = {pid: number for number, (pid, _) in workers.items()}
        marks = {f"{MARK}={mark}".encode(): number for number, (_, mark) in workers.items()}
        parents: dict[int, int] = {}
        for pid in _pids():
            known = before.get(pid)
            if known is not None and not known.family:
                self._seen[pid] = known
                continue
            status = _status(pid)
            if status is None:
                continue
            parent, group, session, began, resident = status
            if known is not None and known.began == began:
                known.resident = resident
                self._seen[pid] = known
                continue
            family = leaders.get(session) or leaders.get(group) or leaders.get(pid) or 0
            self._seen[pid] = _Seen(began, family, resident)
            if not family:
                parents[pid] = parent
        self._find(parents, marks)
        return {pid: seen.family for pid, seen in self._seen.items() if seen.family in workers}

    def _find(self, parents: dict[int, int], marks: Mapping[bytes, int]) -> None:
        """Find the families of processes that were not seen before, by their parents and by their marks."""
        for pid in parents:
            self._seen[pid].family = _mark_of(pid, marks)
        changed = True
        while changed:
            changed = False
            for pid, parent in parents.items():
                seen, above = self._seen[pid], self._seen.get(parent)
                if not seen.family and above is not None and above.family:
                    seen.family = above.family
                    changed = True


def kill(pids: Iterable[int]) -> None:
    """Kill processes that were read just now."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def sweep(marks: Iterable[str]) -> None:
    """Kill the processes that dead workers left behind in sessions of their own."""
    wanted = {f"{MARK}={mark}".encode(): 1 for mark in marks}
    for _ in range(SWEEPS):
        killed = 0
        for pid in _pids():
            if pid != os.getpid() and _mark_of(pid, wanted):
                killed += _kill_marked(pid, wanted)
        if not killed:
            return


def _kill_marked(pid: int, wanted: Mapping[bytes, int]) -> bool:
    """Kill a process if it is still the one that was read."""
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return False
    try:
        if not _mark_of(pid, wanted):
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


def _status(pid: int) -> tuple[int, int, int, bytes, int] | None:
    """Parent, group, session, begin and bytes in memory of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return None
    return int(fields[1]), int(fields[2]), int(fields[3]), fields[19], int(fields[21]) * _PAGE


def _mark_of(pid: int, marks: Mapping[bytes, int]) -> int:
    """The number of the worker whose mark a process has; 0 for none, and for a process that may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read()
    except OSError:
        return 0
    at = variables.find(b"\0%b=" % MARK.encode()) + 1 if not variables.startswith(MARK.encode()) else 0
    return marks.get(variables[at : variables.find(b"\0", at)], 0)


def _own_share(pid: int) -> int:
    """The bytes in memory that a process uses, its part of those that it shares; 0 if that is not told."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
