"""Detects `async def` tools that block the event loop: from another thread, at no cost for the loop."""

from __future__ import annotations

import inspect
import logging
import sys
import traceback
from collections.abc import Iterable
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Final

from rrext.limits import BLOCKED_LOOP_TIME

if TYPE_CHECKING:
    from rrext.engine.tasks.route import Route
    from rrext.engine.tasks.task import Task


ITERATION: Final = "_run_once"
WAITING: Final = "select"
"""Functions of asyncio and of selectors: one iteration of the loop, and its wait for events."""

log: Final = logging.getLogger("rrext.engine")


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

    def look(self) -> None:
        """Take one sample; on any thread but the loop's."""
        frames = _iteration_of(sys._current_frames().get(self._thread))
        if not frames or not self._frames or frames[-1] is not self._frames[-1]:
            self._begin(frames)
        elif not self._told and monotonic() - self._since >= BLOCKED_LOOP_TIME:
            self._told = self._tell(frames)
            if not self._told:  # many short steps in one iteration
                self._begin(frames)

    def _begin(self, frames: list[FrameType]) -> None:
        self._frames, self._since, self._told = frames, monotonic(), False

    def _tell(self, frames: list[FrameType]) -> bool:
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


def _iteration_of(frame: FrameType | None) -> list[FrameType]:
    """The frames of the current iteration of the loop, the innermost first; none while the loop waits."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        if frame.f_code.co_name == ITERATION:
            return [] if frames[0].f_code.co_name == WAITING else frames
        frame = frame.f_back
    return []
