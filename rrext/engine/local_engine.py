"""The engine in this process: loaded pipelines, open pipes, calls.

`TaskLoader` makes tasks of the texts of pipelines; `IdleWatch` ends what nobody uses: pipelines with a time to live, and open
pipes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from rrext.clock import Clock, Timer
from rrext.engine.base_engine import BaseEngine, EndReason
from rrext.engine.calls.object_calls import ObjectCalls
from rrext.engine.calls.tool_calls import ToolCalls, ToolList, start_later
from rrext.engine.events.hub import EventOrigin
from rrext.engine.host.host import Host
from rrext.engine.interface import operations
from rrext.engine.interface.call import ANONYMOUS, Call, Caller, DroppedAnswer
from rrext.engine.interface.task_identity import TaskIdentity
from rrext.engine.interface.totals import Totals
from rrext.engine.tasks.component import components_of, references_of
from rrext.engine.tasks.foreign import PathRule, refusals
from rrext.engine.tasks.pipes import OpenPipe, Pipes
from rrext.engine.tasks.registry import FinishedTask, Tasks, already_running
from rrext.engine.tasks.task import Task
from rrext.engine.views.loop_watch import LoopWatch
from rrext.engine.views.task_views import status_of
from rrext.errors import Cancelled, InvalidArguments
from rrext.limits import DEFAULTS, LAST_CALLS_TIMEOUT, Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.tools.context import SILENT, ToolCallbacks

if TYPE_CHECKING:
    from rrext.connections import Connections
    from rrext.engine.calls.reference_calls import ReferenceCalls
    from rrext.files.file_store import FileStoreSettings
    from rrext.tools.context import CancelReason


log: Final = logging.getLogger("rrext.engine")


class LocalEngine(BaseEngine[Task]):
    """Runs every operation on one asyncio loop and its worker threads.

    Made on the loop's thread. `catalog` has the available nodes, `environment` the values of `${NAME}`. `root` is the folder
    that no node setting may leave; without it, relative paths begin at the pipeline's own folder. `wait` is the number of
    seconds that nodes wait for files locked by other processes; the default is in their settings. `connections` has the
    servers outside that pipelines may name, `packages` are the names of those that Python programs may import, `store` is for
    the files that clients keep. The numbers of pipes and of calls begin at `first`, and `paths` is the rule for paths
    of nodes on another machine than the server's.
    """

    __slots__ = ("_idle", "_known_references", "_list", "_loader", "_objects", "_pipes", "_redact", "_tools", "batch")

    def __init__(
        self,
        *,
        catalog: Catalog | None = None,
        environment: Environment | None = None,
        limits: Limits = DEFAULTS,
        clock: Clock | None = None,
        callbacks: ToolCallbacks = SILENT,
        root: str | None = None,
        wait: float | None = None,
        connections: Connections | None = None,
        packages: Sequence[str] = (),
        store: FileStoreSettings | None = None,
        first: int = 1,
        paths: PathRule | None = None,
    ) -> None:
        environment = environment or Environment()
        host = Host(
            asyncio.get_running_loop(), limits=limits, clock=clock, callbacks=callbacks, connections=connections, wait=wait,
            redactor=environment.redactor, packages=packages,
        )  # fmt: skip
        super().__init__(host, catalog=catalog or Catalog(), environment=environment, root=root, store=store)
        self.batch = host.runner
        self._redact = environment.redactor.error
        self._pipes = Pipes(limits.expired_pipes, first)
        host.events.numbers = count(first)
        self._loader = TaskLoader(host, self.tasks, self.catalog, environment, root, paths)
        self._list = ToolList(host)
        self._tools = ToolCalls(host, self._pipes, self._list)
        self._known_references: ReferenceCalls | None = None
        self._objects = ObjectCalls(host, self._pipes)
        self._pipes.when_refused = partial(host.post, self._end_refused)
        self._idle = IdleWatch(host, self.tasks, self._pipes, self._objects, partial(self._begin_unload, reason="idle"))

    def loop_watch(self) -> LoopWatch:
        """Make a watch that logs tools which block the loop; a thread calls its `look` regularly. On the loop's thread."""
        return LoopWatch(self.tasks, get_ident())

    def start(self, call: Call, *, alone: bool = False) -> bool:
        is_late = call.received is not None and self.host.is_late(call)
        if not call.unsettled or (call.caller.claims and not is_late and not self._admits(call, alone)):
            return False  # it was answered, maybe before the loop got the call from the reading thread
        try:
            operation = self._meant(call)
            if type(operation) is operations.Tool and not is_late:
                return self._tools.start(call, self._task_of(call, operation), operation, alone=alone)
            match operation:
                case operations.Write():
                    self._time(call, operation.pipe_id)
                    is_quick = self._objects.write(call, operation, is_late=is_late)
                    if not is_late:
                        return is_quick
                case operations.Close():
                    self._time(call, operation.pipe_id)
                    self._objects.close(call, operation)
                case _ if is_late:
                    pass  # the operation does not begin
                case operations.Open():
                    task = self._live(operation.token, call.caller)
                    if self.times is not None:
                        self.times.begin(call, task.name)
                    self._objects.open(call, task, operation)
                    if not self._idle.watches_pipes:
                        self._idle.watch_pipes()
                case _:
                    self._answer_later(call)
            if is_late:  # a write is stopped after it joined its pipe's line: that fails the object, which has a gap
                self.host.expire(call)
        except Exception as error:
            self.refuse(call, error)
        return False

    def withdraw(self, operation: operations.Operation, caller: Caller, reason: CancelReason = "cancelled") -> None:
        call = Call(operation, DroppedAnswer(), caller)
        self.start(call)
        call.cancel(reason, Cancelled())

    def start_here(self, call: Call, *, alone: bool = False) -> bool:
        if call.caller.claims:
            return False
        try:
            operation = self._meant(call, here=True)
            if call.received is not None and self.host.is_late(call):
                return False
            if isinstance(operation, operations.Tool):
                return self._tools.start_here(call, self._task_of(call, operation), operation, alone=alone)
            if not isinstance(operation, operations.Write):
                return False
            self._time(call, operation.pipe_id)
            return self._objects.write_here(call, operation)
        except Exception as error:
            self.refuse(call, error)
        return True

    def _admits(self, call: Call, alone: bool) -> bool:
        """Whether a call may begin whose caller claims a space: the list of members of its pipeline has the user. If not, the
        call is answered, or begins when the list is set up.
        """
        try:
            task = self._claimed_in(call, self._meant(call))
            if task is None or task.require_member(call.caller):
                return True
        except Exception as error:
            self.refuse(call, error)
            return False
        known = task.members_known(self.host, trusted=call.caller.trusted)
        begin = partial(self.start, call, alone=alone)
        self.host.spawn(start_later(self.host, call, task, known, begin), f"members for {call.name}")
        return False

    def _claimed_in(self, call: Call, operation: operations.Operation) -> Task | None:
        """The pipeline whose nodes would see the space that the caller of a call claims; None if no node sees it."""
        match operation:
            case operations.Tool(pipe_id=int(pipe_id)) | operations.Write(pipe_id=pipe_id) | operations.Close(pipe_id=pipe_id):
                return self._pipes.find(pipe_id, call.caller.connection_id).task
            case operations.Tool() | operations.Open():
                return call.task or self._usual_task(operation.token, call.caller)
            case operations.ListTools() | operations.ResolveTools() | operations.ListStores():
                return self.tasks.get(operation.token, call.caller)
            case _:
                return None

    def _end_refused(self, pipe: OpenPipe) -> None:
        if self._pipes.at(pipe.id) is pipe:
            self._objects.reclaim(pipe, "cancelled")

    def _meant(self, call: Call, *, here: bool = False) -> operations.Operation:
        """The operation of a call that begins; a call by call ref becomes that of its tool, unless the loop is needed."""
        call.redact = call.redact or self._redact
        if call.caller.authorization is not None:
            self.host.redactor.learn("authorization", call.caller.authorization)
        operation = call.operation
        if type(operation) is operations.CallTool:
            if here and self._known_references is None:
                return operation
            operation = self._references.begin(call, operation, here=here) or operation
        if self.host.events.watches_calls or (call.feed is not None and getattr(operation, "events", None)):
            self._watch(call)
        return operation

    def _time(self, call: Call, pipe_id: int) -> None:
        """Time a call on a pipe."""
        if self.times is not None and (pipe := self._pipes.get(pipe_id, call.caller.connection_id)) is not None:
            self.times.begin(call, pipe.task.name)

    def _task_in_events(self, call: Call) -> TaskIdentity | None:
        pipe_id: int | None = getattr(call.operation, "pipe_id", None)
        if pipe_id is None:
            return call.task or super()._task_in_events(call)
        pipe = self._pipes.get(pipe_id, call.caller.connection_id)
        return call.task or (None if pipe is None else pipe.task)

    def load(self, text: str | bytes | dict[str, Any], *, replaces: Task | FinishedTask | None = None, **options: Any) -> Task:
        """Load a pipeline under a token and keep it, as `TaskLoader.load` says. A task that `replaces` another is returned
        before it begins.
        """
        task = self._loader.load(text, replaces=replaces, **options)
        if replaces is None and self.tasks.running(task.token, task.scope) is not task:
            self.begin(task)
        return task

    async def load_file(self, text: bytes, *, token: str, name: str, folder: str, partial: bool) -> list[dict[str, Any]]:
        """Load a pipeline of the operator; the components that are unavailable, with the reasons."""
        task = self.load(text, token=token, name=name, folder=folder, partial=partial)
        self.file_tokens.add(token)
        return self._unavailable(task)

    async def _loaded(
        self, pipeline: dict[str, Any] | str | bytes, *, replaces: Task | FinishedTask | None = None, **options: Any
    ) -> Task:
        return self.load(pipeline, replaces=replaces, **options)

    def _unavailable(self, task: Task) -> list[dict[str, Any]]:
        return task.unavailable(self.environment.redactor.text)

    def begin(self, task: Task) -> None:
        task.publisher = EventOrigin(self.host.events, task.event_head)
        for component in task.dynamic:
            component.tools_changed = lambda changed: self._tools_changed(task, changed.id)
        super().begin(task)
        self._idle.watch_task(task)

    def _tools_changed(self, task: Task, node_id: str) -> None:
        task.update_routes()
        if (events := self.host.events.flow) is not None:
            events.tools_changed(task.token, node_id)

    async def _body(self, call: Call, operation: operations.Operation) -> Any:
        match operation:
            case operations.ResolveTools():
                return await self._references.resolve(call, operation)
            case operations.ListTools():
                task = self.tasks.get(operation.token, call.caller)
                return await self._list.listing(call, task, operation)
            case operations.ListStores():
                from rrext.engine.tasks.stores import stores_of  # few clients keep stores in step with folders

                return stores_of(self.tasks.get(operation.token, call.caller), call.caller, operation, self.root)
            case _:
                return await super()._body(call, operation)

    @property
    def _references(self) -> ReferenceCalls:
        """The references of requests; most engines get none."""
        if self._known_references is None:
            from rrext.engine.calls.reference_calls import ReferenceCalls

            self._known_references = ReferenceCalls(self.host, self.tasks, self._list)
        return self._known_references

    def task(self, token: str, caller: Caller = ANONYMOUS) -> Task:
        """The running pipeline of a token, as a caller sees it. Raises `TaskNotRegistered`."""
        return self.tasks.get(token, caller)

    def _task_of(self, call: Call, operation: operations.Tool) -> Task:
        """Find the task of a tool call: the one that was found before, or by its pipe or by its token."""
        if operation.pipe_id is None:
            task: Task = call.task or self._usual_task(operation.token, call.caller)
            if self.times is not None:
                self.times.begin(call, task.name)
            return task
        pipe = self._pipes.find(operation.pipe_id, call.caller.connection_id)
        if self.times is not None:
            self.times.begin(call, pipe.task.name)
        if (operation.token or pipe.task.token) != pipe.task.token or (call.task or pipe.task) is not pipe.task:
            raise InvalidArguments.at("/token", f"pipe {pipe.id} belongs to another pipeline than this token")
        return pipe.task

    def _usual_task(self, token: str | None, caller: Caller) -> Task:
        """The only task, if the caller names none and may use all, else that of the token."""
        return (token is None and caller.trusted and self.tasks.only) or self.tasks.get(token, caller)

    def _live(self, token: str | None, caller: Caller) -> Task:
        task = self._usual_task(token, caller)
        task.last_used = task.now()
        return task

    def _status_of(self, task: Task) -> dict[str, Any]:
        pipes = [pipe for pipe in self._pipes.of_task(task) if pipe.has_object]
        return status_of(task, pipes, self.host.redactor.text)

    async def totals(self) -> Totals:
        return self.tasks.totals(len(self._pipes))

    def require_pipeline(self, token: str, caller: Caller) -> None:
        """Raise `TaskNotRegistered` if the caller sees no running pipeline of this token."""
        self.tasks.get(token, caller)

    def note_done(self, call: Call, done: dict[str, Any]) -> None:
        """Keep what a call has done so far, for the answer of one that is stopped. From any thread."""
        call.done = done

    # -- life

    async def _is_busy(self, task: Task) -> bool:
        return task.is_busy or bool(self._pipes.of_task(task))

    async def unload(self, task: Task, reason: EndReason = "terminated", patience: float | None = None) -> None:
        """Cancel the task's calls, free its pipes, and close its components' shared state."""
        self._retire(task)
        await task.calls_returned(self.host, self.limits.drain if patience is None else patience)
        await asyncio.gather(*(component.close(self.limits.drain) for component in task.components.values()))
        self.host.events.publish_output()  # the process of a task ends with it
        self._note_end(task, reason)

    def _retire(self, task: Task) -> None:
        if task.stopping:
            return
        super()._retire(task)
        task.cancel_calls("cancelled", lambda: Cancelled("cancelled: the pipeline was terminated"))
        for pipe in self._pipes.of_task(task):
            self._objects.reclaim(pipe, "terminated")

    def _leave(self, task: Task) -> None:
        super()._leave(task)
        self._idle.forget_task(task)
        if self._known_references is not None:
            self._known_references.forget_task(task)

    def disconnect(self, connection_id: str) -> None:
        for pipe in self._pipes.of_connection(connection_id):
            self._objects.reclaim(pipe, "disconnected")
        self._pipes.forget_connection(connection_id)
        super().disconnect(connection_id)
        if self._known_references is not None:
            self._known_references.disconnect(connection_id)
        for task in (*self.tasks, *self.leaving):
            for component in task.components.values():
                component.disconnected(connection_id)

    async def aclose(self) -> None:
        """Unload every pipeline and stop the engine's tasks on the loop. Stuck ones are left behind."""
        self._idle.stop()
        ends = [self.unload(task, "closed", LAST_CALLS_TIMEOUT) for task in self.tasks]
        await asyncio.gather(*ends, *([self._end_leaving()] if self.leaving else ()))
        if self._known_references is not None:
            await self._known_references.aclose()
        await super().aclose()


class TaskLoader:
    """Loads pipelines for one engine. `root` is the folder that no node setting may leave, `paths` the rule for those settings
    on another machine.
    """

    __slots__ = ("_catalog", "_environment", "_host", "_paths", "_root", "_tasks")

    def __init__(
        self,
        host: Host,
        tasks: Tasks[Task],
        catalog: Catalog,
        environment: Environment,
        root: str | None,
        paths: PathRule | None,
    ) -> None:
        self._paths = paths
        self._host = host
        self._tasks = tasks
        self._catalog = catalog
        self._environment = environment
        self._root = root

    def load(
        self,
        text: str | bytes | dict[str, Any],
        *,
        token: str | None = None,
        name: str | None = None,
        source: str | None = None,
        threads: int | None = None,
        ttl: float | None = None,
        owner: str | None = None,
        env: Mapping[str, str] | None = None,
        folder: str | None = None,
        use_existing: bool = False,
        partial: bool = False,
        remote: bool = False,
        trace: int = 0,
        replaces: Task | FinishedTask | None = None,
    ) -> Task:
        """A new task, which has not begun, or the one that runs in its place. `folder` is where relative paths begin without a
        root.

        A `remote` pipeline is that of a caller who is not trusted, see `rrext.engine.tasks.foreign`: it reads only its own
        `env` and the variables that the operator named, and no path outside of the root; without a root, none.
        `trace` is a level of `rrext.engine.events.trace`.
        With `partial`, components whose node or settings are missing here are unavailable, and the rest runs.
        If a task with that token or, without a token, with that owner, project and source runs already, it is returned
        if the caller wants to use it; else `TaskAlreadyRunning` is raised. Raises `InvalidPipeline` with all problems.
        """
        if use_existing and token is not None:
            running = self._tasks.running(token, owner if remote else None)
            if running is not None:
                return running  # a client may join a pipeline that it could not load
        options = {"name": name, "threads": threads, "ttl": ttl, "owner": owner, "env": env, "folder": folder}
        options |= {"partial": partial, "remote": remote, "trace": trace}
        environment = self._environment.for_client(env) if remote else self._environment.with_values(env)
        limits = self._host.limits
        loaded = load_pipeline(text, self._catalog, environment, source=source, partial=partial, limits=limits)
        if remote:
            loaded.add(refusals(loaded, self._root))
        if self._paths is not None:
            loaded.add(self._paths.refusals(loaded))
        directory, confined = self._root or folder or "", remote or bool(self._root)
        components = components_of(loaded, directory=directory, confined=confined, partial=partial, remote=remote)
        references = references_of(loaded.require(), components, remote=remote)
        task = Task(token, loaded, components, limits, references=references, clock=self._host.clock, options=options)
        same = self._tasks.find_same(token, task)
        if same is not None and use_existing:
            return same
        if same is not None and same is not replaces:
            raise already_running()
        if remote and not isinstance(replaces, Task):
            self._tasks.require_room(owner)
        return task


class IdleWatch:
    """Ends idle pipelines by `unload`, and reclaims idle pipes; asleep while nothing can become idle."""

    def __init__(
        self, host: Host, tasks: Tasks[Task], pipes: Pipes, objects: ObjectCalls, unload: Callable[[Task], object]
    ) -> None:
        self._clock = host.clock
        self._tasks = tasks
        self._pipes = pipes
        self._objects = objects
        self._unload = unload
        self._pipe_idle = host.limits.pipe_idle
        self.watches_pipes = False
        self._reaper: Timer | None = None
        self._timers: dict[Task, Timer] = {}

    def stop(self) -> None:
        """Watch pipes no more."""
        if self._reaper is not None:
            self._reaper.cancel()

    def watch_task(self, task: Task) -> None:
        """End a pipeline after its `ttl` idle seconds, if it has one."""
        if task.ttl:
            self._wait(task, task.ttl)

    def _wait(self, task: Task, seconds: float) -> None:
        self._timers[task] = self._clock.call_later(seconds, lambda: self._check(task))

    def forget_task(self, task: Task) -> None:
        """Watch a task no more that ends: its timer would keep it, with its pipeline, for the whole time."""
        if (timer := self._timers.pop(task, None)) is not None:
            timer.cancel()

    def _check(self, task: Task) -> None:
        if task.stopping or not task.ttl:
            return
        now = task.now()
        if task.is_busy:
            task.last_used = now
        idle = now - task.last_used
        if idle >= task.ttl:
            self._unload(task)
        else:
            self._wait(task, task.ttl / 4 if task.is_busy else task.ttl - idle)

    def watch_pipes(self) -> None:
        """Reclaim pipes that are idle too long, while any is open."""
        self.watches_pipes = True
        self._reaper = self._clock.call_later(self._pipe_idle / 4, self._reap)

    def _reap(self) -> None:
        self.watches_pipes = False
        now = self._clock.now()
        for pipe in self._pipes.idle_since(now - self._pipe_idle):
            self._objects.reclaim(pipe, "idle", idle=now - pipe.last_used)
        if self._pipes.any_known or any(task.places.used or task.places.waiting for task in self._tasks):
            self.watch_pipes()
