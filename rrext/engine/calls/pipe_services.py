"""Services for the node methods of one operation on one pipe: threads, the loop, and a context."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from rrext.engine.calls.nested_calls import Nesting
from rrext.engine.calls.run import Lease, Run
from rrext.engine.calls.thread_job import in_thread
from rrext.engine.host.host import Host
from rrext.engine.host.places import Loan, Place
from rrext.engine.interface.call import Call
from rrext.engine.tasks.pipes import OpenPipe
from rrext.errors import RrextError
from rrext.tools.context import CancelToken, ToolContext

T = TypeVar("T")


class PipeServices:
    """The services of one operation. Methods that run in threads count as running sync calls of the task."""

    __slots__ = ("_call", "_host", "_pipe", "_token")

    def __init__(self, host: Host, call: Call, pipe: OpenPipe, token: CancelToken) -> None:
        self._host = host
        self._call = call
        self._pipe = pipe
        self._token = token

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        lease = Lease.of_pipe(self._pipe, Place.free())
        try:
            return await in_thread(
                self._host,
                work,
                places=self._pipe.task.sync_places,
                lease=lease,
                call=self._call,
                label=type(self._call.operation).__name__.lower(),
            )
        finally:
            lease.drop()

    def run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        with Loan(self._pipe.task.sync_places, self._call):
            return self._host.from_thread(work, self._token)

    @property
    def request(self) -> str:
        return self._call.name

    def context(self, node_id: str) -> ToolContext:
        pipe, places = self._pipe, self._pipe.task.sync_places
        caller = pipe.caller
        on_loop = asyncio._get_running_loop() is self._host.loop
        run = Run(
            self._host,
            self._call,
            Lease.of_pipe(pipe, Place.free()),
            deadline=self._call.deadline,
            token=self._token,
            trail=(node_id,),
        )
        if not on_loop:
            run.loan = Loan(places, self._call)
        return ToolContext(
            node_id=node_id,
            token=self._token,
            user_id=caller.user_id,
            space_id=caller.space_id,
            request_id=self._call.request_id,
            connection_id=caller.connection_id,
            pipe_id=self._pipe.id,
            meta=self._call.operation.meta,
            deadline=self._call.deadline,
            clock=self._host.clock.now,
            nested=Nesting(run),
            authorization=caller.authorization,
        )


class DroppedAnswer:
    """Drops the answer of a call that the engine itself made."""

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None: ...

    def fail(self, call: Call, error: RrextError) -> None: ...
