"""Objects of clients: starts `open`, `write` and `close` calls, and reclaims abandoned pipes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from rrext.engine.calls.object_input import data_of, entry_of
from rrext.engine.calls.object_runs import CloseRun, OpenRun, SettleRun, WriteRun, run_step
from rrext.engine.calls.pipe_services import DroppedAnswer, PipeServices
from rrext.engine.calls.run import Lease
from rrext.engine.host.fair_lock import LockTurn
from rrext.engine.host.host import Host
from rrext.engine.interface.call import Call
from rrext.engine.interface.operations import Close, Open, Write
from rrext.engine.tasks.component import unavailable
from rrext.engine.tasks.pipes import OpenPipe, Pipes
from rrext.engine.tasks.task import Task
from rrext.pipefile.lane_plan import LanePlan
from rrext.threads import in_empty_context
from rrext.tools.context import CancelToken

log: Final = logging.getLogger("rrext.objects")


def refuse_missing(plan: LanePlan, needed: Iterable[str]) -> None:
    """Raise `Unavailable` for the first of the needed nodes that is missing: its data would be lost."""
    for node_id in needed:
        if node_id in plan.missing:
            raise unavailable(node_id, plan.missing[node_id])


class ObjectCalls:
    """Starts `Open`, `Write` and `Close` operations, and reclaims pipes. Raises `RrextError` if one cannot begin."""

    def __init__(self, host: Host, pipes: Pipes) -> None:
        self._host = host
        self._pipes = pipes

    def open(self, call: Call, task: Task, operation: Open) -> None:
        """Begin an `open`. The call has joined the task's line for a place when this returns."""
        plan = task.plan_from(operation.source)
        if plan.missing:
            refuse_missing(plan, (plan.source,))
        entry, intake = entry_of(plan, operation, call.caller)
        if plan.missing:
            refuse_missing(plan, plan.reached(intake.lane))
        OpenRun(self._host, call, task, plan, self._pipes, self.reclaim, entry, intake).start()

    def write(self, call: Call, operation: Write) -> bool:
        """Begin a `write` from the loop, see `Engine.start`. The call has joined the pipe's line when this returns."""
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        data = data_of(operation, call.data)
        lease = Lease.of_pipe(pipe, self._pipes.enter(pipe, exclusive=True, now=pipe.task.now()))
        WriteRun(self._host, call, pipe, lease, self._pipes, self.reclaim, data, self._settle).start()
        return pipe.quick and call.data is not None

    def write_here(self, call: Call, operation: Write) -> bool:
        """Run a raw write on the thread that read it, see `Engine.start_here`. False if the write has to wait for a turn."""
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        if not pipe.quick or call.data is None:
            return False
        data = data_of(operation, call.data)
        lease = Lease.of_pipe(pipe, self._pipes.enter(pipe, exclusive=True, now=pipe.task.now()))
        place = pipe.task.sync_places.take()
        is_open = self._pipes.at(pipe.id) is pipe and not (pipe.failed or pipe.leftovers)
        # Checked while the turn is held: the loop may have failed or freed the pipe meanwhile.
        if not (place.granted and lease.turn.granted and is_open):
            place.release()
            lease.drop()
            return False
        run = WriteRun(self._host, call, pipe, lease, self._pipes, self.reclaim, data, self._settle)
        run.place = place
        if call.settled:  # answered while this thread decided
            run.stop("cancelled")
            call.work = None
        else:
            in_empty_context(run.run)
        return True

    def close(self, call: Call, operation: Close) -> None:
        """Begin a `close`. The call has joined the pipe's line when this returns."""
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        lease = Lease.of_pipe(pipe, self._pipes.enter(pipe, exclusive=True, now=pipe.task.now()))
        CloseRun(self._host, call, pipe, lease, self._pipes, self.reclaim).start()

    def _settle(self, pipe: OpenPipe) -> None:
        """End a pipe whose object failed, behind all that wait on it."""
        if self._pipes.at(pipe.id) is pipe:
            call = Call(Close(pipe_id=pipe.id), DroppedAnswer(), caller=pipe.caller)
            lease = Lease.of_pipe(pipe, pipe.lock.enter(exclusive=True))
            SettleRun(self._host, call, pipe, lease, self._pipes, self.reclaim).start()

    def reclaim(self, pipe: OpenPipe, reason: str, *, idle: float | None = None, turn: LockTurn | None = None) -> None:
        """Free an abandoned pipe: it was idle for `idle` seconds, its connection or its task has ended, or its `close`, whose
        `turn` it takes, was cancelled. New requests do not find it; those before that turn go on.
        """
        self._pipes.remove(pipe)
        if idle is not None:
            self._pipes.remember_expired(pipe, idle)
        if pipe.closed and pipe.lock.is_idle:  # it had only a result
            return
        self._host.spawn(self._abandon(pipe, reason, turn or pipe.lock.enter(exclusive=True)), f"reclaim pipe {pipe.id}")

    async def _abandon(self, pipe: OpenPipe, reason: str, turn: LockTurn) -> None:
        """Close the nodes of the pipe when no thread works on them any more, then free the pipe's place."""
        host, objects, plan = self._host, pipe.objects, pipe.objects.plan
        task, call = pipe.task, Call(Close(pipe_id=pipe.id), DroppedAnswer(), caller=pipe.caller)
        services = PipeServices(host, call, pipe, CancelToken())
        lease = Lease.of_pipe(pipe, turn)
        missing = host.left_behind(task.places)
        try:
            await host.granted(turn)
            pipe.result = None
            if not pipe.has_ended:
                pipe.has_ended, pipe.end_reason = True, reason
            await host.woken(pipe.when_threads_returned)
            if not pipe.closed and any("close" in plan.methods(node_id) for node_id in plan.closing):
                missing.add(pipe, "close", other=task.sync_places)
                await run_step(
                    host, lease, call, "close", lambda: objects.abandon_blocking(services), lambda: objects.abandon(services)
                )
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.warning("closing the nodes of reclaimed pipe %d failed", pipe.id, exc_info=error)
        finally:
            missing.remove(pipe)
            lease.drop()
            pipe.free()
