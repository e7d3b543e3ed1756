"""A pipeline of a running server, for commands with concurrent requests."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from rrext.cli.blocking_remote import COMMAND, ServerPipeline, feed_event
from rrext.cli.options import context_from, key_from
from rrext.cli.output import Results, print_error
from rrext.cli.pipeline import EXIT_USAGE, Interrupts, Work, exit_code_of
from rrext.client.client import Client
from rrext.engine.interface.call import Feed
from rrext.errors import RrextError

T = TypeVar("T")


class RemotePipeline(ServerPipeline):
    """One pipeline of a server, reached through the SDK client."""

    def __init__(self, client: Client, token: str | None) -> None:
        super().__init__(token)
        self._client = client

    async def body(self, arguments: dict[str, Any], tail: bytes | None, feed: Feed | None) -> dict[str, Any]:
        return await self._client.request(
            COMMAND, arguments, tail, on_event=None if feed is None else partial(feed_event, feed)
        )

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)


def run_remotely(args: argparse.Namespace, work: Work, *, keeps_stdin: bool = False) -> int:
    """Do the work with the pipeline `args.token` of the server at `args.at`; returns the exit code."""
    with Results(keeps_stdin=keeps_stdin) as results, asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(_run(args, work, results))


async def _run(args: argparse.Namespace, work: Work, results: Results) -> int:
    me, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert me is not None  # this coroutine runs in it
    with Interrupts(lambda: loop.call_soon_threadsafe(me.cancel)) as interrupts:
        try:
            async with Client.connect(args.at, key=key_from(args), context=context_from(args)) as client:
                return await exit_code_of(work(RemotePipeline(client, args.token), results), interrupts)
        except RrextError as error:
            print_error(error)
            return EXIT_USAGE
