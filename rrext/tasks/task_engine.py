"""The engine of a server whose tasks run in worker processes: it knows the tasks, and routes calls to their workers.

`ReferenceRoutes` finds the worker of a call by reference. `WorkerQuestions` answers the questions of workers, whose tools may
call those of other tasks, and `WorkerStderr` passes on what they write to stderr.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rrext.engine.base_engine import BaseEngine, EndReason
from rrext.engine.host.host import Host
from rrext.engine.interface import operations
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.engine import CallBatch
from rrext.engine.interface.operations import CallTool, ResolveTools
from rrext.errors import Cancelled, InvalidArguments, PipeNotOpen, RrextError, ToolNotFound, Unavailable
from rrext.limits import LAST_CALLS_TIMEOUT, MAX_KEPT_SECRETS
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.resources import NO_RESOURCES, Resources
from rrext.references import CallRef, CallRefNames, ReferenceReader
from rrext.secrets.redaction import Redactor
from rrext.server.journal.logs import keep_lines
from rrext.tasks.call_gate import CallGate
from rrext.tasks.families import MEMORY_INTERVAL, Families, Sweeps, kill, sweep
from rrext.tasks.remote_tasks import STOP_MARGIN, LocalLinks, OperatorFiles, RemoteLoader, RemoteTask, WorkerPool
from rrext.tasks.worker import ANSWER_PATIENCE
from rrext.tasks.worker_engine import ASKED, PIPE_BITS, TextType
from rrext.threads import shielded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rrext.connections import Connections
    from rrext.engine.interface.call import AnswerSink
    from rrext.engine.interface.totals import Totals
    from rrext.engine.tasks.registry import FinishedTask
    from rrext.files.file_store import FileStoreSettings
    from rrext.tasks.remote_tasks import WorkerLinks
    from rrext.tasks.settings import WorkerSettings
    from rrext.tasks.worker import Worker
    from rrext.tools.context import CancelReason


LOOKS_AT_ONCE: Final = 32
"""Workers that are asked for their status at once: a few milliseconds of the loop."""

LOOK_PATIENCE: Final = 0.01
"""Seconds in which a list of many tasks waits for their statuses; it tells the last one of a task whose turn has not come."""

REST: Final = 2.0
"""Seconds after a call until the status of a task is looked at again: its rates and its load have changed since."""

LONG_REST: Final = 10.0
"""Seconds between two looks at the status of a task that nobody uses: its process may work for itself."""

log: Final = logging.getLogger("rrext.tasks")


class WorkerBatch(CallBatch):
    """The workers that got calls in the current batch, whose requests leave together."""

    __slots__ = ()

    jobs: set[Worker]

    def end(self) -> None:
        while self.jobs:
            self.jobs.pop().flush()


class TaskEngine(BaseEngine[RemoteTask]):
    """Runs each task in a process of its own. `settings` are those of the workers, `links` makes what starts their processes,
    by default on this machine. Made on the loop's thread.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        environment: Environment,
        settings: WorkerSettings,
        connections: Connections | None = None,
        store: FileStoreSettings | None = None,
        links: Callable[[Host], WorkerLinks] = LocalLinks,
    ) -> None:
        host = Host(asyncio.get_running_loop(), limits=settings.limits, connections=connections, redactor=environment.redactor)
        super().__init__(host, catalog=catalog, environment=environment, root=settings.root, store=store, refresh=self._refresh)
        self.pool = WorkerPool(host, self, settings, links(host))
        self.loader = RemoteLoader(self)
        self.outside_links: WorkerLinks | None = None
        """Where the worker of what requests name without a task runs, if not with all others."""
        self.files = OperatorFiles(self)
        self._references = ReferenceRoutes(self, KnownReferences())
        self._questions = WorkerQuestions(self)
        self.stderr = WorkerStderr(environment, host.connections, self.limits.max_log_text)
        self._workers_of_batch = WorkerBatch(set())
        self.batch = self._workers_of_batch
        self._visits: dict[str, set[Worker]] = {}
        """Connection → the workers that have something of it."""
        self._looking: asyncio.Task[None] | None = None
        """The look at all tasks that changed, for all who ask meanwhile."""
        self._sweeps = Sweeps(lambda work: host.spawn(work, "what workers left behind"), partial(host.in_thread, sweep))
        self._watching_memory: asyncio.Task[None] | None = None
        if self.limits.task_memory:
            self.watch_memory()
        host.events.when_changed(lambda: host.post(self._subscribe_all))

    # -- calls

    def start(self, call: Call, *, alone: bool = False) -> bool:
        if not call.unsettled:
            return False
        call.redact = call.redact or self.environment.redactor.error
        operation = call.operation
        try:
            if call.caller.authorization is not None:
                self.host.redactor.learn("authorization", call.caller.authorization)
            match operation:
                case operations.Tool(pipe_id=None) | operations.ListTools() | operations.ListStores() | operations.Open():
                    task = self.tasks.get(operation.token, call.caller)
                    task.last_used = self.host.clock.now()
                    self.run_in(task.worker, call)
                    if isinstance(operation, operations.ListTools | operations.ListStores):
                        self.host.clock.call_later(ANSWER_PATIENCE, lambda: self._watch_answer(task.worker, call))
                case operations.Tool() | operations.Write() | operations.Close():
                    assert operation.pipe_id is not None
                    self.run_in(self._worker_of_pipe(operation.pipe_id), call)
                case operations.ProfileOperation(target=str(token)):
                    self.run_in(self.tasks.get(token, call.caller).worker, call)
                case operations.ResolveTools() | operations.CallTool():
                    self._references.start(call)
                case _:
                    if self.host.events.watches_calls:
                        self._watch(call)
                    self._answer_later(call)
        except Exception as error:
            self.refuse(call, error)
        return False

    def withdraw(self, operation: operations.Operation, caller: Caller, reason: CancelReason = "cancelled") -> None:
        assert isinstance(operation, operations.Write | operations.Close)
        with suppress(PipeNotOpen):
            self._worker_of_pipe(operation.pipe_id).withdraw(operation, caller, reason)

    def run_in(self, worker: Worker, call: Call) -> None:
        """Give a call to a worker, and watch its deadline."""
        if self.times is not None and worker.task is not None:
            self.times.begin(call, worker.task.name)
        if call.operation.timeout is not None:
            self.host.limit(call)
            self.host.watch(call)
        if CallGate.is_for(call):
            worker.gate.run(call, partial(self._pass_on, worker))
        else:
            self._pass_on(worker, call)

    def _pass_on(self, worker: Worker, call: Call) -> None:
        batch = self._workers_of_batch
        worker.run(call, batched=batch.is_collecting)
        if batch.is_collecting:
            batch.jobs.add(worker)

    def _watch_answer(self, worker: Worker, call: Call) -> None:
        """Watch a call that every living process answers soon."""
        if not call.settled:
            self.host.spawn(worker.cut_off(call), f"silence of worker {worker.number}")

    def _worker_of_pipe(self, pipe_id: int) -> Worker:
        worker = self.pool.workers.get(pipe_id >> PIPE_BITS)
        if worker is None or worker.task is None or worker.task.stopping:
            raise PipeNotOpen.of(pipe_id)
        return worker

    # -- operations of the server

    async def _body(self, call: Call, operation: operations.Operation) -> Any:
        match operation:
            case operations.TaskStatus():
                found = self._views.find(operation.token, call.caller)
                if isinstance(found, RemoteTask):
                    await self._ask_status(found)
            case operations.ListTaskRows() | operations.Dashboard() | operations.Monitor():  # with the status of all tasks
                await self._refresh(self.tasks.visible(call.caller))
            case _:
                pass
        return await super()._body(call, operation)

    async def _loaded(
        self, pipeline: dict[str, Any] | str | bytes, *, replaces: RemoteTask | FinishedTask | None = None, **options: Any
    ) -> RemoteTask:
        return await self.loader.load(pipeline, replaces=replaces, **options)

    def _unavailable(self, task: RemoteTask) -> list[dict[str, Any]]:
        return task.unavailable

    def _status_of(self, task: RemoteTask) -> dict[str, Any]:
        return task.latest

    def begin(self, task: RemoteTask) -> None:
        if task.worker.is_over:
            raise task.worker.error()
        super().begin(task)

    async def _replace(self, before: RemoteTask | FinishedTask, task: RemoteTask) -> None:
        try:
            await super()._replace(before, task)
        except BaseException:
            self.loader.drop(task.worker)
            raise

    def drop(self, task: RemoteTask) -> None:
        self.loader.drop(task.worker)

    async def load_file(self, text: bytes, *, token: str, name: str, folder: str, partial: bool) -> list[dict[str, Any]]:
        """Load a pipeline of the operator, which comes back if its process is lost; the components that are unavailable, with
        the reasons.
        """
        task = await self.files.load(pipeline=text, token=token, name=name, folder=folder, partial=partial)
        return task.unavailable

    async def prepare(self, pipeline: Any, options: Mapping[str, Any]) -> tuple[Resources, dict[str, Any]]:
        """What the worker of a pipeline needs, and what it is told beside the pipeline. On one machine both are nothing."""
        return NO_RESOURCES, {}

    async def load_again(self, token: str, text: bytes | None) -> None:
        await self.files.load_again(token, text)

    async def try_code(self) -> None:
        await self.pool.renew()

    async def _is_busy(self, task: RemoteTask) -> bool:
        worker = task.worker
        if worker.is_called:
            return True
        try:
            told = await worker.status()
        except RrextError:
            return not worker.is_over
        if told is not None:
            task.take_statuses(told)
        return told is None or task.open_pipes > 0 or worker.is_called

    # -- the end of a task

    async def unload(self, task: RemoteTask, reason: EndReason = "terminated", patience: float | None = None) -> None:
        """End a task and its process: gracefully, then by a kill."""
        worker = task.worker
        patience = self.limits.drain if patience is None else patience
        self._retire(task)
        worker.expects_end = True
        worker.cancel_all(lambda: Cancelled("cancelled: the pipeline was terminated"))
        try:
            async with asyncio.timeout(2 * patience + STOP_MARGIN):
                await worker.ask_living("worker_unload", {"reason": reason, "patience": patience})
        except (TimeoutError, RrextError) as error:
            log.warning("%s does not end by itself: %s", task.name, str(error) or "it is stuck")
            worker.kill()
        await worker.stop(STOP_MARGIN)
        self._finish(task, reason)

    def _finish(self, task: RemoteTask, reason: EndReason, **more: Any) -> None:
        if task.is_finished:
            return
        task.is_finished = True
        self._note_end(task, reason, **more)
        if task not in self.leaving:
            self.files.ended(task, reason)

    # -- what workers tell

    def note_sources(self, paths: list[str]) -> None:
        self.late_sources.update(paths)

    def _leave(self, task: RemoteTask) -> None:
        super()._leave(task)
        self._references.forget(task.worker)

    def task_retired(self, worker: Worker, status: dict[str, Any], totals: dict[str, int]) -> None:
        if worker.task is not None:
            worker.task.take_status(status, totals)
            self._retire(worker.task)

    def task_ended(self, worker: Worker, reason: Any, status: dict[str, Any]) -> None:
        task = worker.task
        if task is None:
            return
        task.latest = status
        if not worker.expects_end:
            worker.expects_end = True
            self.host.spawn(self._ended_by_itself(task, reason), f"end of {task.name}")

    async def _ended_by_itself(self, task: RemoteTask, reason: EndReason) -> None:
        self._finish(task, reason)
        await task.worker.stop(STOP_MARGIN)

    def publish(self, event: Any) -> None:
        self.host.events.publish(event)

    def write_stderr(self, worker: Worker, text: bytes) -> None:
        self.stderr.write(worker.number, text)

    def redacted(self, text: str) -> str:
        return self.stderr.redacted(text)

    def watch_memory(self) -> None:
        """Look at the memory of the workers from now on, as one of them has a limit."""
        if self._watching_memory is None:
            self._watching_memory = self.host.spawn(self._watch_memory(), "memory of workers")

    async def _watch_memory(self) -> None:
        """Kill workers that use too much memory with their children."""
        families = Families(lambda: self.pool.links.parent)
        while True:
            await asyncio.sleep(MEMORY_INTERVAL)
            limited = {
                number: worker for number, worker in self.pool.workers.items() if worker.memory_limit and worker.link.is_here
            }
            if not limited:
                continue
            workers = {number: (worker.link.pid, worker.link.mark) for number, worker in limited.items()}
            limits = {number: worker.memory_limit for number, worker in limited.items()}
            try:
                for excess in await self.host.in_thread(families.over, workers, limits):
                    worker = self.pool.workers.get(excess.family)
                    if worker is not None and not worker.is_over:
                        worker.note_excess(excess)
                        worker.kill()
                        kill(excess.pids)
            except Exception:
                log.exception("the memory of workers cannot be read")

    def lost(self, worker: Worker) -> None:
        self.pool.workers.pop(worker.number, None)
        self._sweeps.add(worker.link.mark)
        self.stderr.end(worker.number)
        self._questions.cancel_all(worker)
        self._references.lost(worker)
        for connection_id in worker.connections:
            if (visited := self._visits.get(connection_id)) is not None:
                visited.discard(worker)
        error = worker.error(shows_stderr=False)  # what all see who may use the pipeline
        for event in worker.begun.ends(error):
            self.publish(event)
        task = worker.task
        if worker.expects_end:
            return
        words = worker.error().message
        if worker.ready.done():  # else who waits for its start tells why
            log.error("%s", words)
        if task is not None and (task.stopping or task in self.leaving or self.tasks.running(task.token, task.scope) is task):
            self._retire(task)
            reason: EndReason = "restarted" if task in self.leaving else "lost"
            told = {"exitCode": worker.link.exit_code, "exitMessage": error.message}
            self._finish(task, reason, **told, errors=[*task.latest["errors"], words])

    def note_connection(self, worker: Worker, connection_id: str) -> None:
        self._visits.setdefault(connection_id, set()).add(worker)

    def asked(self, worker: Worker, body: bytes, tail: bytes | None) -> None:
        self._questions.begin(worker, body, tail)

    def ask_cancelled(self, worker: Worker, number: int) -> None:
        self._questions.cancel(worker, number)

    # -- looks at the tasks

    async def _refresh(self, tasks: list[RemoteTask]) -> None:
        """Look at the status of those of the tasks that may have changed. Many are looked at a few at a time, once for all who
        ask; of a task whose turn does not come soon, the last status stays."""
        changed = self._changed(tasks)
        if len(changed) <= LOOKS_AT_ONCE:
            await asyncio.gather(*map(self._ask_status, changed))
            return
        if self._looking is None:
            self._looking = self.host.spawn(self._ask_all(), "statuses of tasks")
        await asyncio.wait([self._looking], timeout=LOOK_PATIENCE)

    def _changed(self, tasks: Iterable[RemoteTask]) -> list[RemoteTask]:
        now = self.host.clock.now()
        return [task for task in tasks if task.worker.is_used or task.open_pipes or task.active or now >= task.worker.next_look]

    async def _ask_all(self) -> None:
        try:
            changed = self._changed(self.tasks)
            for first in range(0, len(changed), LOOKS_AT_ONCE):
                await asyncio.gather(*map(self._ask_status, changed[first : first + LOOKS_AT_ONCE]))
        finally:
            self._looking = None

    async def _ask_status(self, task: RemoteTask) -> None:
        """Ask a worker for the status of its task; if it does not answer soon, the last one stays."""
        worker = task.worker
        if worker.outbox.is_full:
            return
        was_used, worker.is_used = worker.is_used, False
        try:
            told = await worker.status()
        except RrextError:
            return
        if told is None:
            worker.is_used = True
            return
        worker.next_look = self.host.clock.now() + (REST if was_used else LONG_REST)
        task.take_statuses(told)

    async def totals(self) -> Totals:
        tasks = list(self.tasks)
        await self._refresh(tasks)
        return self.tasks.totals(sum(task.open_pipes for task in tasks))

    # -- events

    def _subscribe_all(self) -> None:
        for worker in list(self.pool.workers.values()):
            self.subscribe_worker(worker)

    def subscribe_worker(self, worker: Worker) -> None:
        """Let a worker tell the events that somebody wants."""
        kinds, data = self.host.events.wanted
        own = {"task_begun", "task_ended"}
        worker.order("worker_subscribe", {"kinds": sorted(kinds - own), "data": sorted(data - own)})

    # -- life

    def disconnect(self, connection_id: str) -> None:
        for worker in self._visits.pop(connection_id, ()):
            worker.disconnect(connection_id)
        super().disconnect(connection_id)
        self._references.disconnect(connection_id)

    async def aclose(self) -> None:
        """End all tasks and their processes. Stuck ones are killed."""
        try:
            ends = [self.unload(task, "closed", LAST_CALLS_TIMEOUT) for task in self.tasks]
            await asyncio.gather(*ends, self._end_leaving())
            await self.pool.close(STOP_MARGIN)
        finally:
            for worker in list(self.pool.workers.values()):
                worker.kill()
        await self._sweeps.done(STOP_MARGIN)
        await self.pool.links.close(STOP_MARGIN)
        await super().aclose()


class WorkerQuestions:
    """Answers the questions of workers, as the callers of the calls behind them."""

    def __init__(self, engine: TaskEngine) -> None:
        self._engine = engine
        self._works: dict[tuple[int, int], asyncio.Task[None]] = {}

    def begin(self, worker: Worker, body: bytes, tail: bytes | None) -> None:
        """Begin to answer."""
        given = msgspec.json.decode(body)
        key = (worker.number, given["ask"])
        work = self._works[key] = self._engine.host.spawn(self._answer(worker, given, tail), f"question {key}")
        work.add_done_callback(lambda _: self._works.pop(key, None))

    def cancel(self, worker: Worker, number: int) -> None:
        """Stop the work for a question."""
        if (work := self._works.get((worker.number, number))) is not None:
            work.cancel()

    def cancel_all(self, worker: Worker) -> None:
        """Stop the work for a worker that has ended."""
        for key, work in list(self._works.items()):
            if key[0] == worker.number:
                work.cancel()

    async def _answer(self, worker: Worker, given: dict[str, Any], tail: bytes | None) -> None:
        answer: dict[str, Any] = {"ask": given["ask"]}
        raw = None
        try:
            caller = worker.caller_of(given["caller"])
            if caller is None:
                raise Unavailable("the server does not know the connection of this call any more")
            operation: Any = msgspec.convert(given["arguments"], ASKED[given["operation"]])
            if isinstance(operation, TextType):
                answer["body"] = {"type": await self._engine.text_type(operation.token or "", caller)}
            else:
                body, raw = await self._engine.ask(operation, caller, data=tail)
                answer["body"] = msgspec.Raw(body)
        except RrextError as error:
            answer["error"] = [error.code, error.message, error.hint, error.data]
        worker.order("worker_answered", answer, raw)


class WorkerStderr:
    """Writes whole lines without secrets. It knows every variable, because code in C prints what no redactor sees."""

    def __init__(self, environment: Environment, connections: Connections, most: int) -> None:
        self._redactor = Redactor()
        self._used = environment.redactor
        self._most = most
        self._rests: dict[int, bytes] = {}
        for name in environment.names:
            self._redactor.learn(name, environment.get(name) or "", always=True)
        connections.known_to(self._redactor)

    def learn(self, values: Mapping[str, str]) -> None:
        """Learn the values of variables of a pipeline: of very many the last ones, since the first would be forgotten again."""
        for name, value in list(values.items())[-MAX_KEPT_SECRETS:]:
            self._redactor.learn(name, value)

    def redacted(self, text: str) -> str:
        """A text without secrets."""
        return self._redactor.text(self._used.text(text))

    def write(self, number: int, piece: bytes) -> None:
        """Write the lines that a piece of a worker's stderr completes."""
        *lines, rest = (self._rests.get(number, b"") + piece).split(b"\n")
        if len(rest) > self._most:
            text = rest.decode("utf-8", "surrogateescape")
            begun = min(self._redactor.begun(text), self._used.begun(text))  # a secret may go on in the next piece
            told, rest = (part.encode("utf-8", "surrogateescape") for part in (text[:begun], text[begun:]))
            lines += [told] if told else []
        self._rests[number] = rest
        if lines:
            shown = self.redacted(b"\n".join(lines).decode("utf-8", "replace"))
            keep_lines(shown.encode().split(b"\n"))
            sys.stderr.write(f"{shown}\n")
            sys.stderr.flush()

    def end(self, number: int) -> None:
        """Write the rest of a worker that has ended."""
        if self._rests.get(number):
            self.write(number, b"\n")
        self._rests.pop(number, None)


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
            return await shielded(self._outside)
        except Exception:
            self._outside = None
            raise
        finally:
            self._engine.pool.warm_up()

    async def _begin_outside(self) -> Worker:
        worker = await self._engine.pool.take(links=self._engine.outside_links)
        self._engine.subscribe_worker(worker)
        return worker

    def disconnect(self, connection_id: str) -> None:
        """Forget a connection."""
        self._known.disconnect(connection_id)

    def forget(self, worker: Worker) -> None:
        """Forget the names that a worker knew: another one has its pipeline, or it has ended."""
        self._known.drop(worker)

    def lost(self, worker: Worker) -> None:
        """Forget a worker that has ended."""
        self.forget(worker)
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
