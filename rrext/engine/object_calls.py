"""Objects of clients: `open`, `write`, `close`, and what becomes of a pipe that nobody closes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rrext.engine.bridge import Nobody, PipeBridge
from rrext.engine.failures import failure_of
from rrext.engine.gate import Pass
from rrext.engine.host import Host, claim
from rrext.engine.intake import Intake
from rrext.engine.interface import Call, Close, Open, Operation, Write
from rrext.engine.jobs import LEARN_BELOW
from rrext.engine.lanes import choose_lane
from rrext.engine.lease import Lease
from rrext.engine.node import Entry
from rrext.engine.objects import NodeObjects
from rrext.engine.pipes import Pipe, Pipes
from rrext.engine.places import Place
from rrext.engine.task import Task
from rrext.errors import Cancelled, InvalidArguments, PipeFailed, ResultTooLarge, RrextError, ToolError
from rrext.tools.context import CancelToken
from rrext.tools.results import NotJson, encode_json

if TYPE_CHECKING:
    from rrext.engine.host import Ticket

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
            entry, intake = self._entry(task, operation)
        except RrextError as error:
            call.fail(error)
            return
        place = task.places.take()
        self._begin(call, task, operation, place, lambda token: self._open(call, task, entry, intake, place, token))

    def write(self, call: Call, operation: Write) -> None:
        """Begin a `write`: it stands in the pipe's line before this returns."""
        try:
            data = _data_of(operation, call.data)
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
        if operation.data is not None or operation.data_base64 is not None or pipe.failed or pipe.leftovers:
            return False
        place, turn = pipe.task.sync_places.take(), pipe.gate.enter(exclusive=True)
        if not (place.granted and turn.granted):
            place.release()
            turn.release()
            return False
        token, lease = CancelToken(), Lease(pipe.task, turn, pipe)

        def stop(reason: Any) -> None:
            token.cancel(reason)
            pipe.fail(Cancelled("a write was cancelled"))
            lease.spoil()

        call.stop = stop
        failure: RrextError | None = None
        try:
            pipe.objects.write_blocking(data, PipeBridge(self._host, call, pipe, token))
        except BaseException as error:
            failure = self._told(error, call, f"Pipe {pipe.id} failed")
            pipe.fail(failure)
        place.release()
        lease.drop()
        if failure is None:
            call.succeed(b"{}")
        else:
            call.fail(failure)
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
        self._begin(call, pipe.task, operation, turn, lambda token: self._close(call, pipe, turn, token), pipe)

    def reclaim(self, pipe: Pipe, idle: float | None = None) -> None:
        """Free a pipe that nobody will close: idle for `idle` seconds, or its owner or its task is gone."""
        if idle is not None:
            self._pipes.expire(pipe, idle)
        else:
            self._pipes.remove(pipe)
        turn = pipe.gate.enter(exclusive=True)
        self._host.spawn(self._abandon(pipe, turn), f"reclaim pipe {pipe.id}")

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
                if not call.fail(Cancelled("a node cancelled the operation from inside")):
                    raise
            except RrextError as error:
                call.fail(error)
            finally:
                task_of_call.active.discard(call)
                if pipe is not None:
                    ticket.release()

        task = self._host.spawn(run(), f"{type(operation).__name__.lower()} {call.request_id}")

        def stop(reason: Any) -> None:
            token.cancel(reason)
            if claim(unclaimed):
                task_of_call.active.discard(call)
                ticket.release()
                if pipe is not None and isinstance(operation, Write):
                    pipe.fail(PipeFailed("a write was cancelled before it began"))
                elif pipe is not None:
                    self.reclaim(pipe)
            task.cancel()

        call.stop = stop

    def _entry(self, task: Task, operation: Open) -> tuple[Entry, Intake]:
        source = task.source_class
        given = operation.object or {}
        mime_type = operation.mime_type or "application/octet-stream"
        if operation.provider and operation.provider != source.provider:
            raise InvalidArguments.at(
                "/provider", f'You are looking for a "{operation.provider}", but this pipeline isn\'t it: it begins at a '
                f'"{source.provider}"'
            )  # fmt: skip
        _check_method(task, mime_type)
        lane = choose_lane(mime_type, task.plan.listens)
        entry = Entry(
            _text(given, "name"),
            path=_text(given, "path") or "",
            mime_type=mime_type,
            size=given.get("size") if isinstance(given.get("size"), int) else None,
            metadata=given.get("metadata") if isinstance(given.get("metadata"), dict) else None,
        )
        return entry, Intake(lane, mime_type)

    async def _open(self, call: Call, task: Task, entry: Entry, intake: Intake, place: Place, token: CancelToken) -> None:
        host = self._host
        pipe: Pipe | None = None
        try:
            await host.granted(place)
            for component in task.components.values():
                await component.ensure(host, trusted=call.caller.trusted)
            objects = NodeObjects(task.plan, task.make_object, trusted=call.caller.trusted)
            pipe = Pipe(self._pipes.next_id(), task, call.caller, objects, entry, intake, place, task.now())
            bridge = PipeBridge(host, call, pipe, token)
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
                self.reclaim(pipe)
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
        quick = self._host.limits.quick * LEARN_BELOW

        def write() -> None:
            began = perf_counter()
            objects.write_blocking(data, bridge)
            pipe.quick = perf_counter() - began < quick

        try:
            await self._run(pipe, write, lambda: objects.write(data, bridge), turn)
        except asyncio.CancelledError:
            pipe.fail(Cancelled("a write was cancelled"))
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
        if pipe.leftovers:  # a thread still works on the node objects: they must not be touched
            pipe.fail(PipeFailed("a tool that was cancelled or timed out still runs on this pipe"))
        else:
            try:
                await self._finish(pipe, call, token, turn)
            except asyncio.CancelledError:
                self.reclaim(pipe)  # what was not closed yet still must be
                raise
        body = self._result(pipe)
        pipe.free()
        pipe.task.finished_count += 1
        call.succeed(body)

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

    def _result(self, pipe: Pipe) -> bytes:
        """The result body: what was collected, and `error` if the object failed."""
        entry = pipe.entry
        try:
            encoded = self._encoded(entry.body())
        except RrextError as error:  # what was collected cannot travel; that it failed still must
            pipe.fail(error)
            encoded = self._encoded({"name": entry.name, "path": entry.path, "objectId": entry.object_id})
        if pipe.failed is None:
            return encoded
        self._count_failure(pipe.task, pipe.failed)
        error = encode_json({"code": pipe.failed.code, "message": pipe.failed.message})
        return encoded[:-1] + b',"error":' + error + b"}"

    def _encoded(self, body: dict[str, Any]) -> bytes:
        limits = self._host.limits
        try:
            encoded = encode_json(body)
        except NotJson as error:
            raise ToolError(f"The object's result is no JSON at {error}", data={"path": error.path}) from None
        if len(encoded) > limits.max_result:
            raise ResultTooLarge.of(len(encoded), limits.max_result)
        return encoded

    async def _abandon(self, pipe: Pipe, turn: Pass) -> None:
        """Let the nodes close what they hold, without results; then the place is free."""
        call = Call(Operation(), Nobody(), caller=pipe.caller)
        bridge = PipeBridge(self._host, call, pipe, CancelToken())
        objects = pipe.objects
        try:
            await self._host.granted(turn)
            if not pipe.leftovers:
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
        task.failed_count += 1
        task.note_error(error.message)


def _text(given: dict[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidArguments.at(f"/object/{key}", "expected a string")
    return value


def _check_method(task: Task, mime_type: str) -> None:
    """Refuse the classic mix-up of `send` and `chat`, which would end in an empty result."""
    accepts = task.source_class.accepts
    asks = mime_type.startswith("application/rocketride-question") or mime_type == "lane/questions"
    if asks and accepts and "chat" not in accepts and "questions" not in task.plan.source_lanes:
        raise InvalidArguments.at("/mimeType", f'nobody takes questions here: "{task.spec.source}" is for send()')
    if not asks and accepts == ("chat",):
        raise InvalidArguments.at("/mimeType", f'"{task.spec.source}" takes questions only: use chat() instead of send()')


def _data_of(operation: Write, raw: bytes | None) -> bytes | str:
    given = [value is not None for value in (operation.data, operation.data_base64, raw)]
    if sum(given) != 1:
        what = "No data specified" if not any(given) else "data was given twice"
        raise InvalidArguments.at("/data", f"{what}: a write takes exactly one of data (text), data_base64 and a raw tail")
    if raw is not None:
        return raw
    if operation.data is not None:
        return operation.data
    try:
        return base64.b64decode(operation.data_base64 or "", validate=True)
    except binascii.Error:
        raise InvalidArguments.at("/data_base64", "expected base64 (RFC 4648, with padding)") from None
