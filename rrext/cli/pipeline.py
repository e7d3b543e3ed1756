"""The pipeline that a command asks: one of a file, in the process of the command, or one of a server that runs."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeAlias, TypeVar

from rrext.cli.results import Results
from rrext.engine.interface.call import ANONYMOUS, Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError
from rrext.limits import DEFAULTS, Limits

__all__ = ["EXIT_DONE", "EXIT_FAILED", "EXIT_USAGE", "Pipeline", "Work", "as_task", "is_cancel", "named", "run_work"]

T = TypeVar("T")

EXIT_DONE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2


class Pipeline(Protocol):
    """What a command may ask of its pipeline, wherever that runs."""

    async def ask(
        self, operation: Operation, *, data: bytes | None = None, feed: Feed | None = None, caller: Caller = ANONYMOUS
    ) -> tuple[bytes, bytes | None]:
        """The encoded body of the answer, and the raw bytes of a result that is bytes. Raises the operation's failure.

        Cancelling the caller's task cancels the operation.
        """
        ...

    def cancellable(self, asked: Coroutine[Any, Any, T]) -> tuple[Awaitable[T], Callable[[], object]]:
        """A coroutine of `ask`, to be awaited, and what cancels it from any thread."""
        ...

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What `work`, which may block, returns or raises."""
        ...

    def drop(self, caller: Caller) -> None:
        """Free the caller's pipes without a result."""
        ...

    def listens(self, lane: str) -> bool:
        """Whether a node takes the objects of a lane, as far as that is known here."""
        ...

    def setup_failures(self) -> list[RrextError]:
        """Why components with tools cannot be used, as far as that is known here."""
        ...


Work: TypeAlias = Callable[[Pipeline, Results], Awaitable[int]]
"""What a command does with its pipeline: its exit code. Raises `OSError` when stdout cannot be written to.

When it is cancelled, because of Ctrl-C, it says what was done, and raises.
"""


def run_work(
    args: argparse.Namespace, work: Work, *, limits: Limits = DEFAULTS, keeps_stdin: bool = False, needs_loop: bool = False
) -> int:
    """Do the work with the pipeline that `args` names; the exit code. Work that asks several things at a time, or waits for
    anything else than its pipeline, `needs_loop`."""
    if args.at is not None and not needs_loop:
        from rrext.cli.blocking_remote import run_blocking

        return run_blocking(args, work)
    if args.at is not None:
        from rrext.cli.remote import run_remotely

        return run_remotely(args, work, keeps_stdin=keeps_stdin)
    from rrext.cli.local import run_locally

    return run_locally(args, work, limits=limits, keeps_stdin=keeps_stdin)


def as_task(asked: Coroutine[Any, Any, T]) -> tuple[Awaitable[T], Callable[[], object]]:
    """`cancellable` of a pipeline that is asked on an event loop."""
    import asyncio

    task, loop = asyncio.ensure_future(asked), asyncio.get_running_loop()
    return task, lambda: loop.call_soon_threadsafe(task.cancel)


def is_cancel(error: BaseException) -> bool:
    """Whether what was asked was cancelled."""
    from asyncio import CancelledError  # an import that `--at` does without while all is well

    return isinstance(error, CancelledError)


def named(args: argparse.Namespace) -> str:
    """The words of the command line that name the pipeline."""
    if args.at is None:
        return str(args.file)
    return f"--at {args.at}" if args.token is None else f"--at {args.at} --token {args.token}"
