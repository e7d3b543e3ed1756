"""The profiler of a server: it samples the stacks of all threads, and reports where their time went."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections import defaultdict
from time import perf_counter, time
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.interface import rare_operations as operations
from rrext.engine.views.loop_watch import stacks_of_threads
from rrext.errors import InternalError, InvalidArguments, Unavailable

if TYPE_CHECKING:
    from rrext.clock import Clock, Timer
    from rrext.engine.interface.call import Caller


MAX_PROFILE_TIME: Final = 3600.0
"""Seconds after which a session of the profiler ends by itself."""

MAX_REPORTED_FUNCTIONS: Final = 200
"""Lines of the report of a profile."""

_PACKAGES: Final = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
"""Also those of the user and of the system's own Python."""

SYSTEM: Final = tuple(
    {path + os.sep for path in (*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), *_PACKAGES)}
)
"""The folders of Python and of installed packages."""

NO_REPORT: Final = "No profile yet: start a session, and stop it"


class Profiler:
    """Samples the process while a session runs.

    A session of the server ends with its connection, one of a task when any connection stops it; each after
    `MAX_PROFILE_TIME`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owner = ""
        self._session = ""
        self._sampler: StackSampler | None = None
        self._last: StackSampler | None = None
        self._timer: Timer | None = None

    def body(self, caller: Caller, operation: operations.ProfileOperation) -> dict[str, Any]:
        """The body of the answer. Raises `Unavailable` for a caller who may not look at all that runs here."""
        if not caller.trusted:
            raise Unavailable("Only trusted clients may profile the server: it shows what others do")
        owner = caller.connection_id if operation.target is None else f"task {operation.target}"
        match operation:
            case operations.StartProfile():
                return self._start(owner, operation.session)
            case operations.StopProfile():
                return self._stop(owner)
            case operations.ProfileStatus():
                return self._status()
            case operations.ProfileReport():
                return {"report": NO_REPORT + "\n" if self._last is None else report_of(self._last)}
            case operations.ProfileTree():
                return self._tree(operation)
            case operations.ProfileThreads():
                return self._threads()
            case _:
                raise InternalError(f"no profiler runs a {type(operation).__name__}")

    def disconnect(self, connection_id: str) -> None:
        """End the session of a connection that ended."""
        if self._owner == connection_id:
            self._end()

    def _start(self, owner: str, session: str | None) -> dict[str, Any]:
        if self._sampler is not None:
            return _error(f'the session "{self._session}" of {self._owner} runs already')
        self._owner, self._session = owner, session or "profile"
        self._sampler = StackSampler()
        self._timer = self._clock.call_later(MAX_PROFILE_TIME, self._end)
        return {"status": "started", "session": self._session, "owner": owner, "start_time": time()}

    def _stop(self, owner: str) -> dict[str, Any]:
        if self._sampler is None:
            return _error("no session runs")
        if self._owner != owner:
            return _error(f'the session "{self._session}" is that of {self._owner}, who alone may stop it')
        session = self._session
        self._end()
        assert self._last is not None
        return {"status": "stopped", "session": session, "runtime": self._last.runtime}

    def _end(self) -> None:
        sampler, self._sampler = self._sampler, None
        self._owner = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if sampler is not None:
            sampler.stop()
            self._last = sampler

    def _status(self) -> dict[str, Any]:
        sampler, has_report = self._sampler, self._last is not None
        if sampler is None:
            return {"active": False, "owner": None, "session": None, "runtime": 0.0, "has_report": has_report}
        runtime = perf_counter() - sampler.began
        return {"active": True, "owner": self._owner, "session": self._session, "runtime": runtime, "has_report": has_report}

    def _tree(self, asked: operations.ProfileTree) -> dict[str, Any]:
        if asked.max_depth < 1:
            raise InvalidArguments.at("/max_depth", "expected a depth above 0")
        if self._last is None:
            return {**_error(NO_REPORT), "error": NO_REPORT}
        chosen = list(self._last.threads.values())
        if asked.thread is not None:
            chosen = chosen[asked.thread : asked.thread + 1] if asked.thread >= 0 else []
            if not chosen:
                problem = f"no thread {asked.thread} was profiled"
                return {**_error(problem), "error": problem}
        root = CallNode()
        for times in chosen:
            _merge(root, times.root)
        if not asked.include_system:
            root = _own_code(root)
        total = root.sum_up()
        shown = _shown(root, ("<root>", "", 0), total * asked.min_pct / 100, asked.max_depth)
        return {"tree": shown, "total_time": total, "total_calls": sum(calls for calls, _ in _functions(root).values())}

    def _threads(self) -> dict[str, Any]:
        if self._last is None:
            return {"threads": [], "error": NO_REPORT}
        rows = []
        for number, times in enumerate(self._last.threads.values()):
            functions = _functions(times.root)
            calls = sum(count for count, _ in functions.values())
            row = {
                "id": number,
                "name": times.name,
                "tid": times.tid,
                "ttot": times.root.sum_up(),
                "sched_count": times.samples,
            }
            rows.append({**row, "functions": len(functions), "calls": calls})
        return {"threads": sorted(rows, key=lambda row: -row["ttot"])}


def report_of(sampler: StackSampler) -> str:
    """The functions that used most of the processor, one a line."""
    root = CallNode()
    for times in sampler.threads.values():
        _merge(root, times.root)
    found = sorted(_functions(root).items(), key=lambda item: -item[1][1])
    lines = [
        f"{root.sum_up():.3f} s of processor time in {sampler.runtime:.3f} s, sampled; calls are those that samples saw",
        "",
    ]
    lines.append(f"{'calls':>8}  {'seconds':>9}  function")
    for (name, file, line), (calls, seconds) in found[:MAX_REPORTED_FUNCTIONS]:
        lines.append(f"{calls:>8}  {seconds:>9.3f}  {name} ({file}:{line})")
    return "\n".join(lines) + "\n"


def _error(message: str) -> dict[str, Any]:
    """The form in which RocketRide's clients expect the failure of a session."""
    return {"status": "error", "message": message}


def _merge(into: CallNode, other: CallNode) -> None:
    into.calls += other.calls
    into.seconds += other.seconds
    for place, child in other.children.items():
        _merge(into.children.setdefault(place, CallNode()), child)


def _own_code(node: CallNode) -> CallNode:
    """The tree without functions of Python and of packages: their time is that of their callers, their callees are too."""
    kept = CallNode()
    kept.calls, kept.seconds = node.calls, node.seconds
    for place, child in node.children.items():
        below = _own_code(child)
        if place[1].startswith(SYSTEM) or place[1].startswith("<"):
            kept.seconds += below.seconds
            for inner, grandchild in below.children.items():
                _merge(kept.children.setdefault(inner, CallNode()), grandchild)
        else:
            _merge(kept.children.setdefault(place, CallNode()), below)
    return kept


def _functions(node: CallNode) -> dict[Place, tuple[int, float]]:
    """The calls and the own seconds of each function in a tree."""
    found: defaultdict[Place, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    nodes = [node]
    while nodes:
        for place, child in nodes.pop().children.items():
            calls, seconds = found[place]
            found[place] = (calls + child.calls, seconds + child.seconds)
            nodes.append(child)
    return found


def _shown(node: CallNode, place: Place, least: float, depth: int) -> dict[str, Any]:
    name, file, line = place
    below = sorted(((child.total, place, child) for place, child in node.children.items()), key=lambda item: -item[0])
    return {
        "name": name,
        "file": file,
        "line": line,
        "ncalls": node.calls,
        "tottime": node.seconds,
        "cumtime": node.total,
        "children": [_shown(child, place, least, depth - 1) for total, place, child in below if total >= least and depth > 0],
    }


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
