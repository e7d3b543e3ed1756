"""Objects of clients: `open`, `write`, `close`, and what becomes of a pipe that nobody closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rrext.engine.calls.failures import failure_of, internal_error
from rrext.engine.calls.host import Host, claim
from rrext.engine.calls.lease import Lease
from rrext.engine.calls.places import Place
from rrext.engine.flow.bridge import Nobody, PipeBridge
from rrext.engine.flow.gate import Pass
from rrext.engine.flow.intake import Intake
from rrext.engine.flow.object_input import data_of, entry_of
from rrext.engine.flow.object_result import bare_body, result_body, with_error
from rrext.engine.flow.objects import NodeObjects
from rrext.engine.flow.pipes import Pipe, Pipes
from rrext.engine.interface import Call, Close, Open, Operation, Write
from rrext.engine.node import Entry
from rrext.engine.task import AMONG_OTHERS, Task
from rrext.errors import Cancelled, PipeFailed, RrextError, ToolError, ToolTimeout
from rrext.tools.context import CancelReason, CancelToken
from rrext.workers import apart

if TYPE_CHECKING:
    from rrext.engine.calls.host import Ticket

__all__ = ["ObjectCalls"]

T = TypeVar("T")

log: Final = logging.getLogger("rrext.objects")


class ObjectCalls:
    """Starts and runs `Open`, `Write` and `Close` operations, and reclaims pipes."""

    __slots__ = ("_host", "_pipes")

    def __init__(self, host: Host, pipes: Pipes) -> None:
        self._host = host
        self._pipes = pipes

    def open(self, call: Call, task: Task, operation: Open) -> None:
        """Begin an `open`: it stands in the task's line for a place before this returns."""
        try:
            entry, intake = entry_of(task, operation, call.caller)
        except RrextError as error:
            call.fail(error)
            return
        place = task.places.take()
        self._begin(call, task, operation, place, lambda token: self._open(call, task, entry, intake, place, token))

    def write(self, call: Call, operation: Write) -> None:
        """Begin a `write`: it stands in the pipe's line before this returns."""
        try:
            data = data_of(operation, call.data)
            pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        except RrextError as error:
            call.fail(error)
            return
        call.was_quick = pipe.quick and call.data is not None
        turn = self._pipes.enter(pipe, exclusive=True, now=pipe.task.now())
        self._begin(call, pipe.task, operation, turn, lambda token: self._write(call, pipe, turn, data, token), pipe)

    def write_inline(self, call: Call, operation: Write) -> bool:
        """Run a raw write here, to its end, if this pipe's writes are quick; False if anything about it could wait."""
        data = call.data
        pipe = self._pipes.get(operation.pipe_id, call.caller.connection_id)
        if data is None or pipe is None or not pipe.quick or operation.timeout is not None:
            return False
        if operation.data is not None or operation.data_base64 is not None:
            return False
        place, turn = pipe.task.sync_places.take(), pipe.gate.enter(exclusive=True)
        # Asked inside of the gate: the loop may have failed or freed the pipe meanwhile.
        if not (place.granted and turn.granted) or pipe.failed or pipe.leftovers or self._pipes.at(pipe.id) is not pipe:
            place.release()
            turn.release()
            return False
        token, lease = CancelToken(), Lease(pipe.task, turn, pipe)

        def stop(reason: Any) -> None:
            token.cancel(reason)
            pipe.fail(_gap(reason))
            lease.spoil()

        call.stop = stop
        failure: RrextError | None = None
        try:
            apart(pipe.objects.write_blocking, data, PipeBridge(self._host, call, pipe, token))
        except BaseException as error:
            failure = self._told(error, call, f"Pipe {pipe.id} failed")
            pipe.fail(failure)
        place.release()
        lease.drop()
        if failure is None:
            call.succeed(b"{}")
        else:
            call.fail(failure)
            del failure  # its traceback leads back to here: such circles would wait for the garbage collector
        return True

    def overstayed(self, operation: Write) -> None:
        """A pipe whose writes were taken for quick is not."""
        pipe = self._pipes.at(operation.pipe_id)
        if pipe is not None:
            pipe.quick = False

    def close(self, call: Call, operation: Close) -> None:
        """Begin a `close`: it stands in the pipe's line before this returns."""
        try:
            pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        except RrextError as error:
            call.fail(error)
            return
        turn = self._pipes.enter(pipe, exclusive=True, now=pipe.task.now())
        pipe.closes += 1
        self._begin(call, pipe.task, operation, turn, lambda token: self._close(call, pipe, turn, token), pipe)

    def reclaim(self, pipe: Pipe, idle: float | None = None) -> asyncio.Task[None]:
        """Free a pipe that nobody will close: idle for `idle` seconds, or its owner or its task is gone."""
        if idle is not None:
            self._pipes.expire(pipe, idle)
        else:
            self._pipes.remove(pipe)
        turn = pipe.gate.enter(exclusive=True)
        return self._host.spawn(self._abandon(pipe, turn), f"reclaim pipe {pipe.id}")

    def _begin(
        self,
        call: Call,
        task_of_call: Task,
        operation: Operation,
        ticket: Ticket,
        work: Callable[[CancelToken], Coroutine[Any, Any, None]],
        pipe: Pipe | None = None,
    ) -> None:
        """Run `work` as a task that answers the call; a call that is settled first stops it, or keeps it from beginning."""
        token, unclaimed = CancelToken(), [True]
        self._host.watch(call)
        task_of_call.active.add(call)

        async def run() -> None:
            if not claim(unclaimed):
                return
            try:
                await work(token)
            except asyncio.CancelledError:
                if not call.fail(ToolError("a node cancelled the operation from inside")):
                    raise
            except RrextError as error:
                call.fail(error)
            except BaseException:
                log.exception("request=%s a bug of rrext", call.request_id)
                call.fail(internal_error())
            finally:
                task_of_call.active.discard(call)
                if pipe is not None:
                    ticket.release()

        task = self._host.spawn(run(), f"{type(operation).__name__.lower()} {call.request_id}")

        def stop(reason: Any) -> None:
            token.cancel(reason)
            if pipe is not None:
                self._stopped(operation, pipe, reason)
            if claim(unclaimed):
                task_of_call.active.discard(call)
                ticket.release()
            task.cancel()

        call.stop = stop

    def _stopped(self, operation: Operation, pipe: Pipe, reason: CancelReason) -> None:
        """A `write` or `close` was stopped: waiting or running, it leaves a gap in the object, or no object at all."""
        if isinstance(operation, Write):
            pipe.fail(_gap(reason))
            return
        pipe.closes -= 1
        if self._pipes.at(pipe.id) is not pipe:
            pipe.fail(Cancelled("the close was cancelled"))  # a thread that is closing must commit nothing more
        elif not pipe.closes:
            self.reclaim(pipe)  # nobody else will

    async def _open(self, call: Call, task: Task, entry: Entry, intake: Intake, place: Place, token: CancelToken) -> None:
        host = self._host
        pipe: Pipe | None = None
        try:
            await host.granted(place)
            for component in task.components.values():
                if task.plan.methods(component.id):  # the others take no part in objects
                    await component.ensure(host, trusted=call.caller.trusted)
            objects = NodeObjects(task.plan, task.make_object, trusted=call.caller.trusted)
            pipe = Pipe(self._pipes.next_id(), task, call.caller, objects, entry, intake, place, task.now())
            bridge = PipeBridge(host, call, pipe, token)
            # A thread that opens nodes then stops at the next one, and goes on to close them.
            token.on_cancel(partial(pipe.fail, Cancelled("the open was cancelled")))
            await self._run(
                pipe,
                lambda: objects.open_blocking(entry, intake, bridge),
                lambda: objects.open(entry, intake, bridge),
            )
            if call.settled:
                raise asyncio.CancelledError
        except BaseException as error:
            if pipe is None:
                place.release()
            else:
                self._let_go(pipe)
            if isinstance(error, asyncio.CancelledError):
                raise
            told = self._told(error, call, "The object could not be opened")
            self._count_failure(task, told)
            raise told from (None if told is error else error)
        pipe.last_used = task.now()
        self._pipes.add(pipe)
        call.succeed(b'{"pipe_id":%d}' % pipe.id)

    async def _write(self, call: Call, pipe: Pipe, turn: Pass, data: bytes | str, token: CancelToken) -> None:
        await self._host.granted(turn)
        self._pipes.find(pipe.id, call.caller.connection_id).check_writable()
        bridge = PipeBridge(self._host, call, pipe, token)
        objects = pipe.objects
        quick = self._host.limits.quick * AMONG_OTHERS

        def write() -> None:
            began = perf_counter()
            objects.write_blocking(data, bridge)
            pipe.quick = perf_counter() - began < quick

        try:
            await self._run(pipe, write, lambda: objects.write(data, bridge), turn)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            told = self._told(error, call, f"Pipe {pipe.id} failed")
            pipe.fail(told)
            raise told from (None if told is error else error)
        finally:
            pipe.last_used = pipe.task.now()
        turn.release()
        call.succeed(b"{}")

    async def _close(self, call: Call, pipe: Pipe, turn: Pass, token: CancelToken) -> None:
        await self._host.granted(turn)
        self._pipes.find(pipe.id, call.caller.connection_id)
        self._pipes.remove(pipe)
        try:
            if pipe.leftovers:  # a thread still works on the node objects: they must not be touched before it returns
                pipe.fail(PipeFailed("a tool that was cancelled or timed out still runs on this pipe"))
            else:
                await self._finish(pipe, call, token, turn)
            body = self._result(pipe, call)
        finally:
            self._let_go(pipe)
        if pipe.failed is None:
            pipe.task.finished_count += 1
        call.succeed(body)

    def _let_go(self, pipe: Pipe) -> None:
        """The pipe is over: free it, or let its nodes be closed first if one is still open."""
        if pipe.leftovers or not pipe.objects.closed:
            self.reclaim(pipe)
        else:
            pipe.free()

    async def _finish(self, pipe: Pipe, call: Call, token: CancelToken, turn: Pass) -> None:
        bridge = PipeBridge(self._host, call, pipe, token)
        objects = pipe.objects
        try:
            failure = await self._run(pipe, lambda: objects.finish_blocking(bridge), lambda: objects.finish(bridge), turn)
            if failure is not None:
                pipe.fail(failure)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            pipe.fail(self._told(error, call, f"Pipe {pipe.id} failed while closing"))

    def _result(self, pipe: Pipe, call: Call) -> bytes:
        try:
            body = result_body(pipe.entry, self._host.limits)
        except Exception as error:  # what was collected cannot travel; that it failed still must
            pipe.fail(self._told(error, call, f"The result of pipe {pipe.id} failed"))
            body = bare_body(pipe.entry)
        if pipe.failed is None:
            return body
        self._count_failure(pipe.task, pipe.failed)
        return with_error(body, pipe.failed)

    async def _abandon(self, pipe: Pipe, turn: Pass) -> None:
        """Let the nodes close what they hold, once no thread works on them any more; then the place is free."""
        bridge = PipeBridge(self._host, Call(Operation(), Nobody(), caller=pipe.caller), pipe, CancelToken())
        objects = pipe.objects
        plan = pipe.task.plan
        try:
            await self._host.granted(turn)
            await self._host.woken(pipe.when_threads_returned)
            if any("close" in plan.methods(node_id) for node_id in plan.closing):
                await self._run(pipe, lambda: objects.abandon_blocking(bridge), lambda: objects.abandon(bridge), turn)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.warning("closing the nodes of reclaimed pipe %d failed", pipe.id, exc_info=error)
        finally:
            turn.release()
            pipe.free()

    async def _run(
        self,
        pipe: Pipe,
        blocking: Callable[[], T],
        on_loop: Callable[[], Coroutine[Any, Any, T]],
        turn: Pass | None = None,
    ) -> T:
        """Run one step of the object: whole in a thread where every method is `def`, else on the loop."""
        if pipe.task.plan.needs_loop:
            return await on_loop()
        lease = Lease(pipe.task, turn or Place.free(), pipe)
        try:
            return await self._host.in_thread(blocking, places=pipe.task.sync_places, lease=lease)
        finally:
            lease.drop()

    def _told(self, error: BaseException, call: Call, what: str) -> RrextError:
        return failure_of(
            error,
            what=what,
            node_id="",
            tool=None,
            request_id=call.request_id,
            trusted=call.caller.trusted,
            limits=self._host.limits,
        )

    def _count_failure(self, task: Task, error: RrextError) -> None:
        self._host.redactor.error(error)
        task.failed_count += 1
        task.note_error(error.message)


def _gap(reason: CancelReason) -> RrextError:
    """Why an object of which a write is missing failed."""
    return ToolTimeout("a write did not finish in time") if reason == "timeout" else Cancelled("a write was cancelled")
