"""A look at the stack of another thread: no garbage is collected meanwhile."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from rrext.engine.views.loop_watch import LoopWatch, stacks_of_threads

DEPTH = 40


class Deep:
    """A thread far down a stack, where it waits."""

    def __init__(self) -> None:
        self._is_there, self._may_go = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._sink, args=(DEPTH,))
        self._thread.start()
        self._is_there.wait()
        assert self._thread.ident is not None
        self.ident: int = self._thread.ident

    def _sink(self, depth: int) -> None:
        if depth:
            self._sink(depth - 1)
        else:
            self._is_there.set()
            self._may_go.wait()

    def stop(self) -> None:
        """Let it go."""
        self._may_go.set()
        self._thread.join()


@pytest.fixture
def deep() -> Iterator[Deep]:
    thread = Deep()
    yield thread
    thread.stop()


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The threads that collected garbage, which every second allocation does."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(threading.get_ident())

    before = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    yield seen
    gc.set_threshold(*before)
    gc.callbacks.remove(note)


def test_no_garbage_is_collected_while_the_stack_of_a_thread_is_read(deep: Deep, collections: list[int]) -> None:
    watch = LoopWatch([], deep.ident)
    collections.clear()
    watch.check()
    assert collections.count(threading.get_ident()) < DEPTH // 4  # what the frames need would be twice as many
    assert gc.isenabled()


def test_a_stack_is_read_from_the_innermost_frame(deep: Deep) -> None:
    stacks = stacks_of_threads()
    (alone,) = stacks_of_threads(deep.ident).values()
    assert alone == stacks[deep.ident]
    assert [frame.f_code.co_name for frame in alone].count("_sink") == DEPTH + 1
    assert alone[-1].f_code.co_name == "_bootstrap"
    assert threading.get_ident() in stacks
