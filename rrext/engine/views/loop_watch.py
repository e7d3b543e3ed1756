"""Looks at the stacks of threads from another one: detects `async def` tools that block the event loop, at no cost for it."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterable
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Final

from rrext.limits import BLOCKED_LOOP_TIME

if TYPE_CHECKING:
    from rrext.engine.tasks.routes import Route
    from rrext.engine.tasks.task import Task


ITERATION: Final = "_run_once"
WAITING: Final = "select"
"""Functions of asyncio and of selectors: one iteration of the loop, and its wait for events."""

log: Final = logging.getLogger("rrext.engine")

_looking: Final = threading.Lock()

os.register_at_fork(before=_looking.acquire, after_in_parent=_looking.release, after_in_child=_looking.release)


def stacks_of_threads(only: int | None = None) -> dict[int, list[FrameType]]:
    """The frames of each thread by its identity, the innermost first; those of one thread if it is given.

    No garbage is collected meanwhile. CPython 3.11 makes the object of a frame when somebody asks for it, and may collect
    garbage to do so; a finalizer then lets the other thread go on, its frame ends, and the object is written into memory that
    is in use for something else: the process crashes, there or later.
    """
    stacks: dict[int, list[FrameType]] = {}
    with _looking:
        collects = gc.isenabled()
        gc.disable()
        try:
            for ident, frame in sys._current_frames().items():
                if only is None or ident == only:
                    stack = stacks[ident] = [frame]
                    while (frame := frame.f_back) is not None:
                        stack.append(frame)
        finally:
            if collects:
                gc.enable()
    return stacks


class LoopWatch:
    """Samples the stack of the loop's thread. A tool that stays in one step for `BLOCKED_LOOP_TIME` blocks the loop.

    The tool is logged with its stack, once per step, and counted in the task's status.
    """

    def __init__(self, tasks: Iterable[Task], thread: int) -> None:
        self._tasks = tasks
        self._thread = thread
        self._frames: list[FrameType] = []
        self._since = 0.0
        self._told = False

    def check(self) -> None:
        """Take one sample; on any thread but the loop's."""
        frames = _iteration_of(stacks_of_threads(self._thread).get(self._thread, []))
        if not frames or not self._frames or frames[-1] is not self._frames[-1]:
            self._begin(frames)
        elif not self._told and monotonic() - self._since >= BLOCKED_LOOP_TIME:
            self._told = self._report(frames)
            if not self._told:  # many short steps in one iteration
                self._begin(frames)

    def _begin(self, frames: list[FrameType]) -> None:
        self._frames, self._since, self._told = frames, monotonic(), False

    def _report(self, frames: list[FrameType]) -> bool:
        """Log the tool that was in this step all the time; False if there is none."""
        by_code = {inspect.unwrap(route.spec.function).__code__: (task, route) for task, route in self._async_tools()}
        for depth, frame in enumerate(frames):
            found = by_code.get(frame.f_code)
            if found is not None and any(frame is before for before in self._frames):
                task, route = found
                task.note_block(route.label)
                steps = [(frame, frame.f_lineno) for frame in reversed(frames[: depth + 1])]
                stack = "".join(traceback.StackSummary.extract(steps).format())
                log.warning("%s blocks the event loop for more than %g ms:\n%s", route.label, BLOCKED_LOOP_TIME * 1000, stack)
                return True
        return False

    def _async_tools(self) -> Iterable[tuple[Task, Route]]:
        for task in self._tasks:
            for route in task.tools_of(None):
                if not route.spec.is_def:
                    yield task, route


def _iteration_of(stack: list[FrameType]) -> list[FrameType]:
    """The frames of the current iteration of the loop, the innermost first; none while the loop waits."""
    for depth, frame in enumerate(stack):
        if frame.f_code.co_name == ITERATION:
            return [] if stack[0].f_code.co_name == WAITING else stack[: depth + 1]
    return []
