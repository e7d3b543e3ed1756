"""The base of engines that keep loaded pipelines, in this process or in worker processes: the registry with its views, the
begin and the end of a task, and the operations that are no calls of a pipeline, such as `execute`, `terminate` and `restart`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from abc import abstractmethod
from time import time
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from rrext.engine.calls.run import TaskWork
from rrext.engine.calls.store_calls import StoreCalls
from rrext.engine.interface import operations
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.engine import Engine
from rrext.engine.interface.failures import internal_error
from rrext.engine.interface.task_identity import TaskIdentity, ToolNames
from rrext.engine.tasks.foreign import require_loading, require_owner
from rrext.engine.tasks.registry import FinishedTask, Tasks, already_running
from rrext.engine.views.task_views import TaskViews, loaded_of
from rrext.errors import InvalidArguments, RrextError, TaskAlreadyRunning, TaskError, TaskNotRegistered, ToolError, near_matches
from rrext.limits import LAST_CALLS_TIMEOUT
from rrext.threads import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from rrext.engine.events.hub import EventSink, Subscription
    from rrext.engine.events.records import Filter
    from rrext.engine.host.host import Host
    from rrext.files.file_store import FileStoreSettings
    from rrext.limits import Limits
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.loaded_pipeline import LoadedPipeline
    from rrext.pipefile.text.problems import Problem


T = TypeVar("T", bound=TaskIdentity)

CHANGE_REFUSED: Final = "a change of its files does not count, as they are broken; the server's log says why"
"""The warning for callers who may not see files of the operator."""

EndReason: TypeAlias = Literal["terminated", "idle", "closed", "restarted", "lost"]

LEAVING_INTERVAL: Final = 0.2
"""Seconds between two looks at a task whose last calls and pipes end where they are, as another one has its place."""

LEAVING_TIME: Final = 600.0
"""Seconds that such a task has, if nothing hurries: calls of models take minutes, and each one left keeps its memory."""

MAX_LEAVING: Final = 8
"""Such tasks of one pipeline: each keeps its memory, and many saves during one long call would fill it. The oldest one ends."""

REMOTE_TTL: Final = 900.0
"""Idle seconds until a pipeline of a network client ends, if the client names none: RocketRide's default."""

log: Final = logging.getLogger("rrext.engine")


class BaseEngine(Engine, Generic[T]):
    """An engine with a registry of tasks. Subclasses start calls of pipelines, load pipelines, and end them."""

    __slots__ = (
        "_store", "_views", "catalog", "environment", "file_tokens", "host", "late_sources", "leaving", "limits", "root",
        "tasks",
    )  # fmt: skip

    def __init__(
        self,
        host: Host,
        *,
        catalog: Catalog,
        environment: Environment,
        root: str | None,
        store: FileStoreSettings | None,
        refresh: Callable[[list[T]], Awaitable[None]] | None = None,
    ) -> None:
        """`refresh` brings the known statuses of some tasks up to date, if they are elsewhere."""
        self.host = host
        """The services for calls: loop, clock, threads and limits."""
        self.limits = host.limits
        self.catalog = catalog
        self.environment = environment
        self.root = root
        self.tasks: Tasks[T] = Tasks()
        self.leaving: dict[T, asyncio.Task[None]] = {}
        """Tasks whose place another one has, while their last calls and pipes end, with their ends."""
        self.file_tokens: set[str] = set()
        """The tokens of the pipelines of files that the operator named, until these are terminated."""
        self.late_sources: set[str] = set()
        """The files of the operator's code that was imported in other processes, as far as they tell."""
        self._refused: dict[str | None, str] = {}
        """Token of a pipeline, or None for the code of all → why a change of its files does not count."""
        self._views = TaskViews(host, self.tasks, self._told_status, self.clients, refresh)
        self._store = StoreCalls(host, store)
        host.engine = self

    # hooks of the kinds of engines

    @abstractmethod
    async def _loaded(
        self, pipeline: dict[str, Any] | str | bytes, *, replaces: T | FinishedTask | None = None, **options: Any
    ) -> T:
        """Load a pipeline, see `TaskLoader.load`. A task that `replaces` another is returned before it begins."""

    @abstractmethod
    def _unavailable(self, task: T) -> list[dict[str, Any]]:
        """The components of a task that cannot run, with the reasons."""

    @abstractmethod
    def _status_of(self, task: T) -> dict[str, Any]:
        """The whole status of a running task, as it is known here."""

    @abstractmethod
    async def unload(self, task: T, reason: EndReason = "terminated", patience: float | None = None) -> None:
        """End a task; `reason` is for the events. Calls that do not return within `patience` seconds, `limits.drain` unless
        given, are not waited for.
        """

    @abstractmethod
    async def _is_busy(self, task: T) -> bool:
        """Whether a task has calls or open pipes."""

    async def try_code(self) -> None:
        """Prove that changed code of the operator's nodes can be loaded where tasks run. Raises `RrextError`."""

    def drop(self, task: T) -> None:
        """Forget a loaded task that never begins."""

    def refusals(self, loaded: LoadedPipeline, is_remote: bool) -> Iterable[Problem]:
        """What this engine refuses of a pipeline that others may load, by the rules of where its tasks run."""
        return ()

    # -- calls

    def _answer_later(self, call: Call) -> None:
        """Begin an operation that is no call of a pipeline."""
        self.host.spawn(self._answer(call), f"{type(call.operation).__name__} {call.request_id}")

    async def _answer(self, call: Call) -> None:
        if call.settled:
            return  # cancelled before it began
        call.work = TaskWork(asyncio.current_task())
        self.host.limit(call)
        self.host.watch(call)
        try:
            if call.outlet is not None:
                await call.outlet.room()  # no answer needs to be made before there is room for it
            encoded, tail = await self._answered(call)
        except asyncio.CancelledError:
            if call.fail(ToolError("the operation was cancelled from inside")):
                return
            raise
        except RrextError as error:
            call.fail(error)
        except BaseException:  # the import of a node's module may raise anything, and must not end the loop
            log.exception("%s a bug of rrext", call.name)
            call.fail(internal_error())
        else:
            call.succeed(encoded, tail)

    async def _answered(self, call: Call) -> tuple[bytes, bytes | None]:
        operation = call.operation
        if isinstance(operation, operations.StoreOperation):
            return await self._store.answer(call, operation)
        return msgspec.json.encode(await self._body(call, operation)), None

    async def _body(self, call: Call, operation: operations.Operation) -> Any:
        """Run an operation that is neither a tool call nor an operation on a pipe, and return the body of its answer."""
        match operation:
            case operations.Execute():
                task = await self._loaded(operation.pipeline, **load_options(call, operation, self.limits))
                body = loaded_of(task)
                return {**body, "unavailable": self._unavailable(task)} if operation.partial else body
            case operations.Terminate():
                found: Any = self._views.find(operation.token, call.caller)
                if not isinstance(found, FinishedTask):
                    require_owner(found, call.caller)
                    # Shielded: a cancel ends the caller's wait, and the unload still finishes.
                    ends = [self._begin_unload(found, "terminated"), *self._end_versions(found.token, found.scope)]
                    await shielded(asyncio.gather(*ends))
                return {}
            case operations.TaskStatus() if call.caller.trusted:
                body = self._views.body(call.caller, operation)
                if CHANGE_REFUSED in body["warnings"]:
                    body["warnings"].remove(CHANGE_REFUSED)
                    body["warnings"] += self._refusals(self._views.find(operation.token, call.caller))
                return body
            case operations.Restart():
                return await self._restarted(call.caller, operation)
            case operations.Validate() | operations.Services() | operations.ResolveConfig():
                from rrext.engine.views.look_up import looked_up  # most servers are never asked

                running = ((task.pipeline, task.tool_names) for task in self.tasks)
                given = (self.catalog, self.environment, self.limits, call.caller, operation, self.root, running)
                return looked_up(*given, self.refusals)
            case _:
                return self._views.body(call.caller, operation)

    def refuse(self, call: Call, error: Exception) -> None:
        """Answer a call that cannot begin."""
        if self.host.events.watches_calls:
            self._watch(call)
        if isinstance(error, RrextError):
            call.fail(error)
        else:
            log.error("%s a bug of rrext", call.name, exc_info=error)
            call.cancel("cancelled", internal_error())  # stop the parts that have begun

    def _watch(self, call: Call) -> None:
        """Begin the events of a call."""
        from rrext.engine.calls.watched_run import watch_call

        watch_call(self.host.events, call, self._task_in_events)

    def _task_in_events(self, call: Call) -> TaskIdentity | None:
        """The task of a call, as far as it is known before the call begins."""
        try:
            return None if _names_pipe(call) else self.tasks.get(call.operation.token, call.caller)
        except TaskError:
            return None

    def subscribe(self, filter: Filter, sink: EventSink) -> Subscription:
        return self.host.events.subscribe(filter, sink)

    # -- tasks

    def begin(self, task: T) -> None:
        """Register a task, and keep it running. Raises `TaskAlreadyRunning` if another one took its token meanwhile."""
        if self.tasks.find_same(task.token, task) is not None:
            raise already_running()
        self.tasks.add(task)
        self._views.begins(task)
        if (events := self.host.events.flow) is not None:
            events.task_begun({**task.event_head, "is_restart": task.is_restarted})

    async def _restarted(self, caller: Caller, operation: operations.Restart) -> dict[str, Any]:
        """End a task and load a pipeline under its token, with its threads, ttl and variables; the body of the answer.

        The pipeline is checked first: a wrong one leaves the task as it is. A task that has ended begins again.
        """
        before: Any
        if operation.token is None and operation.project_id and operation.source:
            before = self._views.of_project(operation.project_id, operation.source, caller)
        else:
            before = self._views.find(operation.token, caller)
        require_owner(before, caller)
        if operation.pipeline is not None:
            require_loading(caller)
        pipeline = before.pipeline if operation.pipeline is None else operation.pipeline
        options = {**before.options, "token": before.token, "source": operation.source}
        task = await self._loaded(pipeline, replaces=before, **options)
        task.is_restarted = True
        # Shielded: a cancel ends the caller's wait, and the new task begins all the same.
        await shielded(self.host.spawn(self._replace(before, task), f"restart {task.name}"))
        return loaded_of(task)

    async def _replace(self, before: T | FinishedTask, task: T) -> None:
        """End a task, unless it has ended, and begin the one in its place."""
        if not isinstance(before, FinishedTask):
            await self.unload(before, "restarted")
        self.begin(task)

    def _told_status(self, task: T) -> dict[str, Any]:
        status = self._status_of(task)
        if self._refusals(task):
            status["warnings"] = [*status["warnings"], CHANGE_REFUSED]
        return status

    def _refusals(self, task: TaskIdentity | FinishedTask) -> list[str]:
        """Why changes of the files of a running task do not count."""
        if isinstance(task, FinishedTask):
            return []
        keys = (None,) if task.scope is not None else (None, task.token)
        return [self._refused[key] for key in keys if key in self._refused]

    def refuse_change(self, token: str | None, why: str) -> None:
        """Tell that a change of files does not count for the operator's task of a token, or with None for all: as a warning, of
        which callers who are trusted see why, and as output.
        """
        from rrext.engine.events.hub import EventOrigin
        from rrext.engine.events.records import Output

        self._refused[token] = why
        for task in list(self.tasks):
            if token is None or (task.token == token and task.scope is None):
                head = EventOrigin(self.host.events, task.event_head).head
                self.host.events.publish(Output(time=time(), **head, text=f"{CHANGE_REFUSED}\n"))

    def take_change(self, token: str | None) -> None:
        """Take back what `refuse_change` told: the files count."""
        self._refused.pop(token, None)

    async def load_again(self, token: str, text: bytes | None) -> None:
        """Load a changed pipeline of the operator in the place of its task, or the same again. Raises as `exchange` does."""
        await self.exchange(self.task_of_file(token), text)

    def task_of_file(self, token: str) -> T:
        """The task of a file of the operator. Raises `TaskNotRegistered` if it has ended, and `TaskAlreadyRunning` if a client
        has taken its token since.
        """
        task = self.tasks.running(token, None)
        if task is None:
            raise _has_ended()
        if not self.is_of_file(task):
            raise TaskAlreadyRunning("a client has taken the token of this pipeline")
        return task

    def is_of_file(self, task: T) -> bool:
        """Whether a task is that of a file of the operator; users may have the same token for tasks of their own."""
        return task.scope is None and task.token in self.file_tokens

    async def exchange(self, before: T, pipeline: bytes | None = None, patience: float = LEAVING_TIME) -> None:
        """Load a pipeline, by default the same, in the place of a task: new calls find the new one. Calls and open pipes end
        where they are; those that do not within `patience` seconds are cancelled.

        Raises `RrextError`, and leaves the task as it is, if the pipeline cannot be loaded or the task has ended meanwhile.
        """
        options = {**before.options, "token": before.token}
        if pipeline is None:
            task = await self._loaded(before.pipeline, replaces=before, **options, source=before.source or None)
        else:
            task = await self._loaded(pipeline, replaces=before, **options)
        if self.tasks.running(before.token, before.scope) is not before:
            self.drop(task)
            raise _has_ended()
        task.is_restarted = True
        task.public_token = before.public_token  # pages keep it
        self._leave(before)
        self.begin(task)
        self.leaving[before] = self.host.spawn(self._end_where_it_is(before, patience), f"end of what {before.name} was")
        if self._end_versions(before.token, before.scope, kept=MAX_LEAVING):
            log.warning("%s: calls of its oldest version are cancelled, as those of %d others run", before.name, MAX_LEAVING)

    def _end_versions(self, token: str, scope: str | None, kept: int = 0) -> list[asyncio.Task[None]]:
        """Begin to end the former versions of a pipeline, whose place another one has, but for the newest ones."""
        former = [task for task in self.leaving if (task.token, task.scope) == (token, scope) and not task.stopping]
        return [self._begin_unload(task, "restarted") for task in former[: max(len(former) - kept, 0)]]

    async def _end_where_it_is(self, task: T, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                while await self._is_busy(task):  # noqa: ASYNC110 – any thread may end a call, without an event
                    await asyncio.sleep(LEAVING_INTERVAL)
        except TimeoutError:
            log.warning("%s: calls of a former version are cancelled, as they did not end within %g s", task.name, patience)
        if not task.stopping:
            await self.unload(task, "restarted")
        del self.leaving[task]

    async def _end_leaving(self) -> None:
        """End the tasks that are leaving, at the end of the engine."""
        for end in self.leaving.values():
            end.cancel()
        await asyncio.gather(*self.leaving.values(), return_exceptions=True)
        await asyncio.gather(*(self.unload(task, "closed", LAST_CALLS_TIMEOUT) for task in self.leaving))

    def _begin_unload(self, task: T, reason: EndReason) -> asyncio.Task[None]:
        """Remove the task from the registry at once, so that no call finds it, and start the unload."""
        self._retire(task)
        return self.host.spawn(self.unload(task, reason), f"unload {task.name}")

    def _retire(self, task: T) -> None:
        """Remove a task that begins to end, once."""
        if not task.stopping:
            task.stopping = True
            self._leave(task)

    def _leave(self, task: T) -> None:
        """Let no new call find a task, unless another one has its place already."""
        if self.tasks.running(task.token, task.scope) is task:
            self._views.stops(task)
            self.tasks.remove(task)

    def _note_end(self, task: T, reason: EndReason, **more: Any) -> None:
        """Keep the last status of a task that has ended, and publish the end; `more` are fields of the status."""
        if task.scope is None and reason not in ("restarted", "lost") and task not in self.leaving:
            self.file_tokens.discard(task.token)
            self._refused.pop(task.token, None)  # the next task of the token has other files
        self._views.ends(task, reason, **more)
        if (events := self.host.events.flow) is not None:
            events.task_ended(task.event_head, reason, self.host.clock.now() - task.began)

    def task_with_key(self, public_token: str) -> TaskIdentity | None:
        return self.tasks.with_key(public_token)

    async def text_type(self, token: str, caller: Caller) -> str:
        return self.tasks.get(token, caller).text_type

    def tool_names(self) -> list[ToolNames]:
        return [task.tool_names for task in self.tasks]

    # -- life

    def disconnect(self, connection_id: str) -> None:
        self._views.disconnect(connection_id)
        self._store.disconnect(connection_id)

    async def aclose(self) -> None:
        await self._store.aclose()
        await self.host.aclose()


def _has_ended() -> TaskNotRegistered:
    return TaskNotRegistered("Your pipeline is not running: it has ended", hint="execute it first", data={"near": []})


def _names_pipe(call: Call) -> bool:
    return getattr(call.operation, "pipe_id", None) is not None


def load_options(call: Call, operation: operations.Execute, limits: Limits) -> dict[str, Any]:
    """The options of the `load` that an `execute` asks for. Raises `InvalidArguments`, and `Unavailable` for a caller who may
    load nothing.
    """
    if operation.threads is not None and operation.threads < 1:
        raise InvalidArguments.at("/threads", "expected a number of pipes above 0")
    if operation.ttl is not None and operation.ttl < 0:
        raise InvalidArguments.at("/ttl", "expected idle seconds, 0 for ever")
    if operation.token is not None and not operation.token.strip():
        raise InvalidArguments.at("/token", "expected a name that is not empty")
    require_loading(call.caller)
    if operation.folder is not None and not call.caller.trusted:
        raise InvalidArguments.at("/folder", "only who started the server may name a folder")
    return {
        "token": operation.token,
        "name": operation.name,
        "source": operation.source,
        "threads": None if operation.threads is None else min(operation.threads, limits.threads),
        "ttl": _ttl(call, operation),
        "owner": call.caller.user_id,
        "env": operation.env,
        "folder": None if operation.folder is None else os.path.abspath(operation.folder),
        "use_existing": bool(operation.use_existing),
        "partial": bool(operation.partial),
        "remote": not call.caller.trusted,
        "trace": _trace_level(operation.pipeline_trace_level),
    }


def _ttl(call: Call, operation: operations.Execute) -> float | None:
    """The idle seconds until a pipeline ends. A network client that names none may be gone for ever."""
    if operation.ttl is None:
        return REMOTE_TTL if call.caller.is_keyed or not call.caller.trusted else None
    return operation.ttl or None


def _trace_level(name: str | None) -> int:
    if name is None:
        return 0
    from rrext.engine.events.trace import LEVELS

    if name not in LEVELS:
        near = near_matches(name, LEVELS)
        hint = f'Did you mean "{near[0]}"?' if near else "one of " + ", ".join(LEVELS)
        raise InvalidArguments.at("/pipelineTraceLevel", f"there is no such level of traces. {hint}", hint=hint)
    return LEVELS[name]
