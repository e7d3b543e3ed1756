"""A pipeline of a running server, for commands with concurrent requests."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from rrext.cli.interrupts import Interrupts, end_process
from rrext.cli.operations import arguments_of, body_and_tail, feed_event, in_words_of_options
from rrext.cli.pipeline import EXIT_FAILED, EXIT_USAGE, Work, as_task
from rrext.cli.report import print_error, print_unwritten
from rrext.cli.results_stdout import Results
from rrext.client.client import Client
from rrext.engine.interface.call import ANONYMOUS, Caller, Feed
from rrext.engine.interface.operations import Operation
from rrext.errors import RrextError

T = TypeVar("T")


class RemotePipeline:
    """One pipeline of a server, reached through the SDK client."""

    def __init__(self, client: Client, token: str | None) -> None:
        self._client = client
        self._token = token

    async def ask(
        self, operation: Operation, *, data: bytes | None = None, feed: Feed | None = None, caller: Caller = ANONYMOUS
    ) -> tuple[bytes, bytes | None]:
        """The encoded body of the answer, and the raw bytes of a binary result. Raises the operation's failure."""
        arguments = arguments_of(operation, self._token)
        on_event = None if feed is None else partial(feed_event, feed)
        try:
            return body_and_tail(await self._client.request("rrext_process", arguments, data, on_event=on_event))
        except RrextError as error:
            raise in_words_of_options(error) from None

    def cancellable(self, asked: Coroutine[Any, Any, T]) -> tuple[Awaitable[T], Callable[[], object]]:
        """The coroutine as a task, and the function that cancels it."""
        return as_task(asked)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The outcome of `work`, which may block."""
        return await asyncio.to_thread(work)

    def drop(self, caller: Caller) -> None:
        """Do nothing: the caller's pipes end without a result at the end of the connection."""

    def listens(self, lane: str) -> bool:
        """True: only the server knows its nodes."""
        return True

    def setup_failures(self) -> list[RrextError]:
        """None: only the server's log has them."""
        return []


def run_remotely(args: argparse.Namespace, work: Work, *, keeps_stdin: bool = False) -> int:
    """Do the work with the pipeline `args.token` of the server at `args.at`; returns the exit code."""
    with Results(keeps_stdin=keeps_stdin) as results, asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(_run(args, work, results))


async def _run(args: argparse.Namespace, work: Work, results: Results) -> int:
    me, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert me is not None  # this coroutine runs in it
    code = EXIT_FAILED
    with Interrupts(lambda: loop.call_soon_threadsafe(me.cancel)) as interrupts:
        try:
            async with Client.connect(args.at) as client:
                try:
                    code = await work(RemotePipeline(client, args.token), results)
                except OSError as error:
                    print_unwritten(error)
        except RrextError as error:
            print_error(error)
            return EXIT_USAGE
        except asyncio.CancelledError:
            if interrupts.number is None:
                raise
    if interrupts.number is not None:
        end_process(interrupts.exit_code)
    return code
