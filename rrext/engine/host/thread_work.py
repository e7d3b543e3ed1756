"""Work in a thread, which the loop can abandon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadWork(Generic[T]):
    """A callable that runs at most once, and can be abandoned.

    `give_up` before the begin withdraws the work. After the begin, `given_up` asks the work to stop where it can, and
    `returned` waits for its end.
    """

    __slots__ = ("_unclaimed", "_wakers", "_work", "finished", "given_up")

    def __init__(self, work: Callable[[ThreadWork[T]], T]) -> None:
        self._work = work
        self._unclaimed = [True]
        self._wakers: list[Callable[[], None]] = []
        self.finished = False
        self.given_up = False

    def __call__(self) -> T | None:
        """Run the work, in a thread."""
        try:
            self._unclaimed.pop()  # atomic: begun or withdrawn, never both
        except IndexError:
            return None
        try:
            return self._work(self)
        finally:
            self.finished = True
            for wake in self._wakers:
                wake()

    def give_up(self) -> bool:
        """Abandon the work; True if it still runs."""
        self.given_up = True
        try:
            self._unclaimed.pop()
        except IndexError:
            return not self.finished
        return False

    async def returned(self) -> None:
        """Wait until the work no longer runs."""
        loop = asyncio.get_running_loop()
        back = asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(back.set)
            except RuntimeError:
                pass  # the loop is closed, so nobody waits on it

        # Added before `finished` is read: the thread sees the waker, or this coroutine sees `finished`.
        self._wakers.append(wake)
        if not self.finished:
            await back.wait()
