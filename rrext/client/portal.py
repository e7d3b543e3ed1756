"""An event loop in a thread of its own, beside the threads of callers that block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeAlias, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from rrext.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

Step: TypeAlias = Callable[[], None]


class Portal:
    """Runs coroutines for a blocking caller, and their callbacks on the caller's thread.

    A request needs no loop: its coroutine runs in the caller's thread (`in_caller_thread`), where its waits block. A coroutine
    that has tasks of its own, or reads files, runs as a task of the loop (`run`).
    """

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

    def in_caller_thread(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function in this thread and return its result. It waits for nothing but answers and its turn."""
        for name, value in kwargs.items():
            if callable(value):
                kwargs[name] = self._with_loop(value)
        coroutine = function(*args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        coroutine.close()
        raise UsageError("The blocking client cannot be used on its own event loop's thread, where on_stderr is called.")

    def _with_loop(self, callback: Callable[..., object]) -> Callable[..., object]:
        """A callback for `in_caller_thread`; an `async` one is awaited on the loop."""

        def call(*values: Any) -> object:
            answer = callback(*values)
            return self.run(_awaited, answer) if isawaitable(answer) else answer

        return call

    def run(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine function to its end and return its result.

        If Ctrl-C or a failing callback ends the wait early, the coroutine is cancelled.
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

        async def call(*values: Any) -> object:
            done = anyio.Event()
            answer: object = None

            def step() -> None:
                nonlocal answer
                answer = callback(*values)
                self._opened.start_task_soon(done.set)

            steps.put(step)
            await done.wait()
            return answer

        return call


async def _awaited(answer: Awaitable[R]) -> R:
    return await answer
