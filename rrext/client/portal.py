"""An event loop in a thread of its own, for callers that block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from inspect import iscoroutinefunction
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeAlias, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

__all__ = ["Portal"]

P = ParamSpec("P")
R = TypeVar("R")

Step: TypeAlias = Callable[[], None]


class Portal:
    """Runs coroutines on its own thread, and their callbacks on the thread that waits for them."""

    def __init__(self, backend: str) -> None:
        self._manager = start_blocking_portal(backend)
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Portal:
        self._portal = self._manager.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._manager.__exit__(kind, error, trace)

    @property
    def _opened(self) -> BlockingPortal:
        assert self._portal is not None
        return self._portal

    def entered(self, manager: AbstractAsyncContextManager[R]) -> AbstractContextManager[R]:
        """The manager, entered and left on the loop's thread, in one task."""
        return self._opened.wrap_async_context_manager(manager)

    def run(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function to its end and return its result.

        If the wait ends early, by Ctrl-C or by what a callback raises, the coroutine is cancelled.
        """
        steps: SimpleQueue[Step | Future[Any]] = SimpleQueue()
        given = {name: self._at_home(value, steps) if callable(value) else value for name, value in kwargs.items()}
        future: Future[R] = self._opened.start_task_soon(partial(function, *args, **given))
        try:
            future.add_done_callback(steps.put)
            while not isinstance(step := steps.get(), Future):
                step()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _at_home(self, callback: Callable[..., object], steps: SimpleQueue[Any]) -> Callable[..., object]:
        """A callback for the loop that has the real one run where `run` waits, and waits for that."""
        if iscoroutinefunction(callback):
            return callback

        async def call(*values: Any) -> None:
            done = anyio.Event()

            def step() -> None:
                callback(*values)
                self._opened.start_task_soon(done.set)

            steps.put(step)
            await done.wait()

        return call
