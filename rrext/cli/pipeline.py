"""The pipeline of a command: loaded from a file in this process, or served by a running server."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from rrext.cli.interrupts import Interrupts, is_cancel
from rrext.cli.output import EXIT_FAILED, Results
from rrext.cli.report import unwritten
from rrext.engine.interface.call import ANONYMOUS, Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError
from rrext.limits import DEFAULTS, Limits

T = TypeVar("T")

EXIT_DONE, EXIT_USAGE = 0, 2


class Pipeline:
    """The requests of a command to its pipeline, local or remote. Of a remote one, only the server knows the nodes.

    `caller` is that of requests which name none; at a server, it is that of the connection.
    """

    caller: Caller = ANONYMOUS

    async def ask(
        self, operation: Operation, *, data: bytes | None = None, feed: Feed | None = None, caller: Caller | None = None
    ) -> tuple[bytes, bytes | None]:
        """The encoded body of the answer, and the raw bytes of a binary result. Raises the operation's failure.

        Cancelling the caller's task cancels the operation.
        """
        raise NotImplementedError

    def cancellable(self, asked: Coroutine[Any, Any, T]) -> tuple[Awaitable[T], Callable[[], object]]:
        """A coroutine of `ask` to await, and a function that cancels it from any thread."""
        import asyncio

        task, loop = asyncio.ensure_future(asked), asyncio.get_running_loop()
        return task, lambda: loop.call_soon_threadsafe(task.cancel)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The outcome of `work`, which may block."""
        raise NotImplementedError

    def drop(self, caller: Caller) -> None:
        """Free the caller's pipes without a result. A server does that at the end of the connection."""

    def listens(self, lane: str) -> bool:
        """Whether a node receives the objects of a lane, as far as known."""
        return True

    def setup_failures(self) -> list[RrextError]:
        """The setup failures of components with tools, as far as known. Of a server, its log has them."""
        return []


Work: TypeAlias = Callable[[Pipeline, Results], Awaitable[int]]
"""The work of a command with its pipeline; returns the exit code. Raises `OSError` if stdout cannot be written.

When Ctrl-C cancels it, it prints a summary and raises.
"""


def run_work(
    args: argparse.Namespace, work: Work, *, limits: Limits = DEFAULTS, keeps_stdin: bool = False, needs_loop: bool = False
) -> int:
    """Do the work with the pipeline that `args` names; returns the exit code. Work that makes concurrent requests, or waits for
    anything besides its pipeline, `needs_loop`."""
    if args.at is not None and not needs_loop:
        from rrext.cli.blocking_remote import run_blocking

        return run_blocking(args, work)
    if args.at is not None:
        from rrext.cli.remote import run_remotely

        return run_remotely(args, work, keeps_stdin=keeps_stdin)
    from rrext.cli.local import run_locally

    return run_locally(args, work, limits=limits, keeps_stdin=keeps_stdin)


async def exit_code_of(work: Awaitable[int], interrupts: Interrupts) -> int:
    """The exit code of a work, which fails if stdout cannot be written or a signal cancels it."""
    try:
        return await work
    except OSError as error:
        return unwritten(error)
    except BaseException as error:
        if interrupts.number is None or not is_cancel(error):
            raise
    return EXIT_FAILED


def named(args: argparse.Namespace) -> str:
    """The words of the command line that name the pipeline."""
    if args.at is None:
        return str(args.file)
    return f"--at {args.at}" if args.token is None else f"--at {args.at} --token {args.token}"
