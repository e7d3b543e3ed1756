"""Routes of calls by reference: to the task's worker, to the one that resolved a name, or to one for tools outside of tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from rrext.engine.interface.operations import CallTool, ResolveTools
from rrext.errors import InvalidArguments, ToolNotFound
from rrext.references import CallRef, CallRefNames, ReferenceReader

if TYPE_CHECKING:
    from rrext.engine.interface.call import AnswerSink, Call
    from rrext.errors import RrextError
    from rrext.tasks.task_engine import TaskEngine
    from rrext.tasks.worker import Worker


OUTSIDE: Final = ("pipeline", "mcp", "http", "composio")


class ReferenceRoutes:
    """Starts `ResolveTools` and `CallTool` in the worker that they mean."""

    def __init__(self, engine: TaskEngine, known: KnownReferences) -> None:
        self._engine = engine
        self._known = known
        self._outside: asyncio.Task[Worker] | None = None
        """The worker of connections and pipelines that requests name without a task."""

    def start(self, call: Call) -> None:
        """Begin a call. Raises `RrextError`."""
        operation = call.operation
        if isinstance(operation, ResolveTools):
            references = ReferenceReader().references(operation.tools, "/tools")
            if any(reference.kind in ("node", "builtin") for reference in references):
                self._resolve_in(self._engine.tasks.get(operation.token, call.caller).worker, call)
            else:
                self._start_outside(call)
            return
        assert isinstance(operation, CallTool)
        worker = self._worker_of(call, operation)
        if worker is None:
            self._start_outside(call)
        else:
            self._engine.run_in(worker, call)

    def _worker_of(self, call: Call, operation: CallTool) -> Worker | None:
        """The worker of a tool; None for one outside of all tasks. Raises as `ReferenceCalls.begin` does."""
        name, caller = operation.call_ref or operation.name, call.caller
        if not name or (operation.call_ref and operation.name):
            raise InvalidArguments.at("/call_ref", "expected either call_ref or name")
        worker = self._known.find(caller.connection_id, name)
        ref = CallRef.read(name)
        if ref is not None and ref.provider == "pipeline" and (worker is not None or not ref.names_a_wrapper):
            if caller.tools is not None and ref.text not in caller.tools:
                raise ToolNotFound(f'No handler found for tool "{ref.text}"')
            self._engine.tasks.get(ref.integration, caller)
        if worker is not None:
            return worker
        if (ref is None and operation.call_ref is None) or (
            ref is not None and ref.provider == "node" and not ref.names_a_wrapper
        ):
            return self._engine.tasks.get(operation.token, caller).worker
        if ref is None or ref.names_a_wrapper:
            known = [known for known in self._known.names(caller.connection_id) if "." in known]
            raise ToolNotFound.near(f'There is no call_ref "{name}" here: resolve the reference first.', name, known)
        if ref.provider not in OUTSIDE:
            raise ToolNotFound.near(f'There is no provider "{ref.provider}".', ref.provider, ("node", *OUTSIDE))
        return None

    def _resolve_in(self, worker: Worker, call: Call) -> None:
        call.answer = ResolvedAnswer(self._known, worker, call.answer)
        self._engine.run_in(worker, call)

    def _start_outside(self, call: Call) -> None:
        engine = self._engine

        async def start() -> None:
            try:
                worker = await self._outside_worker()
            except Exception as error:
                engine.refuse(call, error)
                return
            if isinstance(call.operation, ResolveTools):
                self._resolve_in(worker, call)
            else:
                engine.run_in(worker, call)

        engine.host.spawn(start(), f"{type(call.operation).__name__} {call.request_id}")

    async def _outside_worker(self) -> Worker:
        if self._outside is None:
            self._outside = self._engine.host.loop.create_task(self._begin_outside(), name="a worker without a task")
        try:
            return await asyncio.shield(self._outside)
        except Exception:
            self._outside = None
            raise
        finally:
            self._engine.pool.warm_up()

    async def _begin_outside(self) -> Worker:
        worker = await self._engine.pool.take()
        self._engine.subscribe_worker(worker)
        return worker

    def disconnect(self, connection_id: str) -> None:
        """Forget a connection."""
        self._known.disconnect(connection_id)

    def lost(self, worker: Worker) -> None:
        """Forget a worker that has ended."""
        self._known.drop(worker)
        outside = self._outside
        if outside is None or not outside.done() or outside.cancelled():
            return
        if outside.exception() is not None or outside.result() is worker:
            self._outside = None


class KnownReferences:
    """The worker of each name, by connection."""

    def __init__(self) -> None:
        self._workers: dict[str, dict[str, Worker]] = {}

    def find(self, connection_id: str, name: str) -> Worker | None:
        """The worker that resolved a name for a connection."""
        worker = self._workers.get(connection_id, {}).get(name)
        return None if worker is None or worker.is_over else worker

    def names(self, connection_id: str) -> tuple[str, ...]:
        """The names that a connection may use."""
        return tuple(self._workers.get(connection_id, ()))

    def keep(self, connection_id: str, worker: Worker, body: bytes) -> None:
        """Keep the names in the answer to a `rrext_tools_resolve`."""
        known = self._workers.setdefault(connection_id, {})
        for entry in msgspec.json.decode(body)["custom"]:
            ref = CallRef.read(entry["call_ref"])
            names = (entry["call_ref"],) if ref is None else CallRefNames().add(ref)
            known.update(dict.fromkeys((entry["name"], entry["call_ref"], *names), worker))

    def disconnect(self, connection_id: str) -> None:
        """Forget the names of a connection."""
        self._workers.pop(connection_id, None)

    def drop(self, worker: Worker) -> None:
        """Forget the names that a worker knew."""
        for connection_id, known in list(self._workers.items()):
            kept = {name: other for name, other in known.items() if other is not worker}
            if kept:
                self._workers[connection_id] = kept
            else:
                del self._workers[connection_id]


class ResolvedAnswer:
    """Keeps the names in an answer, and passes it on."""

    __slots__ = ("_answer", "_known", "_worker")

    def __init__(self, known: KnownReferences, worker: Worker, answer: AnswerSink) -> None:
        self._known = known
        self._worker = worker
        self._answer = answer

    def succeed(self, call: Call, body: bytes, tail: bytes | None) -> None:
        self._known.keep(call.caller.connection_id, self._worker, body)
        self._answer.succeed(call, body, tail)

    def fail(self, call: Call, error: RrextError) -> None:
        self._answer.fail(call, error)
