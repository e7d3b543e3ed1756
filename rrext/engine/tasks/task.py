"""A loaded pipeline: its components, its limits, its routes, and the numbers of what it has processed and of what its process
uses.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappushpop
from time import monotonic, process_time, time
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.flow.objects import NodeObjects
from rrext.engine.host.places import Places
from rrext.engine.interface.call import Call, Caller
from rrext.engine.interface.failures import readable
from rrext.engine.interface.task_identity import TaskIdentity, ToolNames
from rrext.engine.tasks.component import Component, unavailable
from rrext.engine.tasks.routes import OfferedReference, Route, RouteTable, node_not_found, tool_not_found
from rrext.errors import InvalidArguments, RrextError, TaskNotRegistered, Unavailable, near_matches
from rrext.limits import MAX_ERROR_TEXT, MAX_KEPT_ERRORS, MIB, Limits
from rrext.nodes.base.node import Node, accepted_input
from rrext.pipefile.lane_plan import LanePlan
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.tools.context import NULL_PUBLISHER
from rrext.tools.names import SEPARATOR

if TYPE_CHECKING:
    from rrext.clock import Clock
    from rrext.engine.events.trace import TaskTrace
    from rrext.engine.host.host import Host
    from rrext.engine.tasks.pipes import OpenPipe
    from rrext.tools.context import CancelReason, Publisher


def new_token(prefix: str) -> str:
    """A token that cannot be guessed: 128 random bits."""
    return f"{prefix}_{os.urandom(16).hex()}"


QUESTION_TYPE: Final = "application/rocketride-question"

log: Final = logging.getLogger("rrext.engine")


class Task(TaskIdentity):
    """One loaded pipeline under its token, in this process."""

    __slots__ = (
        "_errors", "_errors_lock", "_plan", "blocks", "components", "dynamic", "failed_calls", "member_lists", "metrics", "now",
        "only_plan", "places", "plans", "private_references", "publisher", "references", "resources", "routes", "spare", "spec",
        "sync_places", "throughput", "trace", "ttl", "warnings",
    )  # fmt: skip

    active: set[Call]

    def __init__(
        self,
        token: str | None,
        loaded: LoadedPipeline,
        components: dict[str, Component],
        limits: Limits,
        *,
        references: Sequence[OfferedReference] = (),
        clock: Clock,
        options: dict[str, Any],
    ) -> None:
        self.spec = spec = loaded.require()
        token = token or new_token("tk")
        super().__init__(
            token=token,
            public_token=new_token("pk"),
            name=options.get("name") or spec.name or token,
            project_id=spec.project_id,
            source=spec.source,
            provider=spec.component(spec.source).provider if spec.source else "",
            description=spec.description or "",
            pipeline=loaded.unresolved,
            options=options,
            active=set(),
            now=clock.now(),
        )
        self.ttl: float | None = options.get("ttl")
        self.resources = loaded.outline.resources
        self.plans = loaded.plans
        self._plan = next(iter(self.plans.values())) if self.plans else LanePlan.of(spec, limits)
        self.only_plan = self._plan if len(self.plans) == 1 else None
        """The plan of the only source."""
        self.warnings = [problem.message for problem in loaded.warnings]
        self.components = components
        threads = options.get("threads") or limits.threads
        self.places = Places(threads, f'pipe of "{self.name}"')
        self.sync_places = Places(threads, f'thread of "{self.name}"')
        self.publisher: Publisher = NULL_PUBLISHER
        self.trace = _trace_of(options.get("trace", 0))
        """The trace of its objects; None if it is not traced."""
        self.throughput = Throughput()
        self.metrics = ProcessMetrics()
        self.failed_calls = 0
        self._errors: dict[str, int] = {}
        self._errors_lock = threading.Lock()  # calls fail on any thread
        self.blocks: Counter[str] = Counter()
        self.now = clock.now
        """The time of the engine's clock."""
        self.spare: list[NodeObjects] = []
        """Node objects for calls without a pipe, which no call uses now."""
        keepers = {node_id for node_id, component in components.items() if component.node_class.keeps_references}
        self.references = [each for each in references if each[0] not in keepers]
        self.private_references = [each for each in references if each[0] in keepers]
        """Those of nodes that keep theirs for themselves."""
        self.routes = RouteTable(components.values(), references)
        self.dynamic = tuple(part for part in components.values() if part.node_class.has_dynamic_tools)
        self.member_lists = tuple(part for part in components.values() if part.knows_members)
        """The components that know the members of spaces."""

    @property
    def tool_names(self) -> ToolNames:
        """What its tools are called."""
        names = dict.fromkeys(name for route in self.routes for name in (route.spec.name, *route.names))
        denied = [route.label for route in self.routes if route.is_denied]
        return ToolNames(list(names), [part.id for part in self.unlisted()], denied)

    @property
    def offers(self) -> list[dict[str, Any]]:
        """What its nodes offer to hosts beside tools: `{nodeId, provider, name, description, offers}`. Of a server that a
        reference takes whole, the node is the hidden one of its connection.
        """
        found: list[dict[str, Any]] = []
        for part in self.spec.components:
            offers = None if part.missing or part.settings is None else part.node_class.offers(part.settings)
            if offers is not None and (part.id in self.components or "instructions" in offers):
                found.append(_offered(part.id, part.provider, offers, part.name, part.description))
        known = {each["offers"].get("server") for each in found}
        whole = [part for _, reference, part in self.references if part.is_hidden and reference.takes_all]
        servers = {part.id: part.config[1] for part in whole if part.config[1] not in known}
        return [*found, *(_offered(node_id, "", {"server": server}) for node_id, server in servers.items())]

    @property
    def text_type(self) -> str:
        """The type of a text for the pipeline: that of a question if it only chats."""
        source = self.spec.component(self.source) if self.source else None
        return QUESTION_TYPE if source is not None and source.node_class.accepts == ("chat",) else "text/plain"

    def require_member(self, caller: Caller) -> bool:
        """Return if the user of a caller is in the space that it claims, by each list of members in the pipeline. False: one is
        not set up, and knows nobody.

        Raises what `Node.require_member` raises, and `InvalidArguments` if the pipeline has no such list.
        """
        if not self.member_lists:
            raise InvalidArguments.at(
                "/context/spaceId",
                "the user and the space are those of the connection's key here: this pipeline has no list of the members of "
                "spaces",
                hint="A node `knowledge` has one.",
            )
        if not all(part.ready for part in self.member_lists):
            return False
        for part in self.member_lists:
            part.node_class.require_member(part.shared, caller.user_id, caller.space_id or "")
        return True

    async def members_known(self, host: Host, *, trusted: bool) -> None:
        """Wait until the lists of members are set up."""
        for part in self.member_lists:
            await part.ensure(host, trusted=trusted)

    def plan_from(self, source: str | None, kind: str = "") -> LanePlan:
        """The plan of the source at which an object enters: the named one, the only one, or the only one for objects of a kind,
        `send` or `chat`.

        Raises `InvalidArguments` if the name is none of the sources, or is needed; `Unavailable` without any source.
        """
        if not source and self.only_plan is not None:
            return self.only_plan
        if source in self.plans:
            return self.plans[source]
        fitting = [plan for plan in self.plans.values() if kind in accepted_input(plan.source_class)] if not source else []
        if len(fitting) == 1:
            return fitting[0]
        names = ", ".join(self.plans)
        if source:
            near = near_matches(source, self.plans)
            text = f'objects of this pipeline do not begin at "{source}", but at {names or "no component"}'
            raise InvalidArguments.at("/source", text + (f'. Did you mean "{near[0]}"?' if near else ""))
        if self.plans:
            raise InvalidArguments.at("/source", f"required: Pipeline has multiple source components ({names})")
        reasons = " ".join(f'Node "{node_id}": {reason}' for node_id, reason in list(self.unknown.items())[:3])
        raise Unavailable(f"Pipeline does not have a source component that is available here. {reasons}".rstrip())

    @property
    def unknown(self) -> dict[str, str]:
        """The nodes whose class is missing, so that their tools are not known, with the reasons."""
        return {node_id: part.missing for node_id, part in self.components.items() if part.missing and part.node_class is Node}

    def unavailable(self, redact: Callable[[str], str]) -> list[dict[str, Any]]:
        """The components that cannot run, as far as known, with the reasons, in which `redact` hides values of variables."""
        found = {part.id: part.missing for part in self.spec.components if part.missing}
        for node_id, component in self.components.items():
            reason = component.blocked or (component.failure and component.failure.message)
            if reason:
                found.setdefault(node_id, reason)
        if not found:
            return []
        return [
            {"nodeId": part.id, "provider": part.provider, "reason": readable(redact(found[part.id]))}
            for part in self.spec.components
            if part.id in found
        ]

    def new_objects(self) -> NodeObjects:
        """Make node objects for calls without a pipe, which are never opened. One call at a time uses them."""
        return NodeObjects(self._plan, self.make_object)

    def make_object(self, node_id: str, publisher: Publisher | None = None) -> Node:
        """Make a node object of a component. `publisher` takes its messages; the default is the task's.

        Raises `TaskNotRegistered` for a pipeline that ended meanwhile.
        """
        component = self.components.get(node_id)
        if component is None:
            raise TaskNotRegistered("Your pipeline is not running: it has ended")
        return component.new_object(publisher or self.publisher)

    def route(self, node_id: str | None, tool: str) -> Sequence[Route]:
        """Find the owners of a tool in the order of search: one with a node id, all without.

        An exported name means the tool of its node. Raises `NodeNotFound` and `ToolNotFound` without near matches
        (`ToolList.explain` adds them), `InvalidArguments` for an empty name.
        """
        if node_id:
            found = self.routes.of_node(node_id, tool)
            if found is not None:
                return [found]
        elif routes := self.routes.owners(tool):
            return routes
        name = tool.strip()
        if not name:
            raise InvalidArguments(
                "tool is required", data={"errors": [{"path": "/tool", "message": "expected the name of a tool"}]}
            )
        if name != tool:
            return self.route(node_id, name)
        if node_id and node_id not in self.components:
            if node_id.strip() != node_id:
                return self.route(node_id.strip(), tool)
            if not self._has(node_id):
                raise node_not_found(node_id)
        if node_id and node_id in self.unknown:
            raise unavailable(node_id, self.unknown[node_id])
        raise tool_not_found(tool, node_id)

    def only_route(self, node_id: str | None, tool: str) -> Route | None:
        return self.routes.only(node_id, tool)

    def tools_of(self, node_id: str | None) -> Iterator[Route]:
        """The routes of all tools in the order of search, or of one node. Raises `NodeNotFound` without near matches."""
        if node_id and not self._has(node_id):
            raise node_not_found(node_id)
        for route in self.routes:
            if not node_id or route.node_id == node_id:
                yield route

    def _has(self, node_id: str) -> bool:
        """Whether the file has this component; sources are not set up."""
        return node_id in self.components or any(part.id == node_id for part in self.spec.components)

    def unlisted(self, node_id: str | None = None, tool: str = "") -> list[Component]:
        """The components whose dynamic tools are not known yet, of all nodes or of one; with a tool, those that may have it.

        A component behind references has no tools but those that they offer, under names that tell the server.
        """
        if not self.dynamic:
            return []
        node, name = (node_id or "").strip(), tool.strip()
        wanted = {node} if node else {part.id for part in self.dynamic if not part.is_hidden}
        for offering, reference, component in self.references:
            may_have = not name or reference.offers(name) or name.startswith(offering + SEPARATOR)
            if may_have and (not node or offering == node):
                wanted.add(component.id)
        return [part for part in self.dynamic if part.id in wanted and not part.ready and not part.missing]

    def nodes_of(self, component_id: str) -> list[str]:
        """The ids of the nodes that offer the tools of a component: itself, or for a hidden one those with references to it."""
        if not self.components[component_id].is_hidden:
            return [component_id]
        return list(dict.fromkeys(offering for offering, _, component in self.references if component.id == component_id))

    def knows(self, node_id: str | None, tool: str) -> bool:
        """Whether a node has the tool, as far as the tools are known."""
        name = tool.strip()
        return self.routes.of_node(node_id.strip(), name) is not None if node_id else bool(self.routes.owners(name))

    @property
    def untold(self) -> dict[str, str]:
        """The nodes that could not tell their dynamic tools, with the reasons."""
        failed = ((part.failure, part) for part in self.unlisted())
        return {node: failure.message for failure, part in failed if failure is not None for node in self.nodes_of(part.id)}

    def may_learn(self, node_id: str | None, tool: str) -> bool:
        """Whether the tool is not known, and may be a dynamic one of a node that is not set up."""
        return bool(self.dynamic) and not self.knows(node_id, tool) and bool(self.unlisted(node_id))

    def may_learn_owners(self, tool: str) -> bool:
        """Whether a dynamic tool may be one of another node too. A node that failed to tell is not asked again."""
        if not self.dynamic or not all(route.is_dynamic for route in self.routes.owners(tool.strip())):
            return False
        return any(part.failure is None for part in self.unlisted(None, tool))

    def update_routes(self) -> None:
        """Take over the dynamic tools of the components, after a change."""
        self.routes = self.routes.updated(self.components.values())

    def drop_component(self, node_id: str) -> None:
        """Remove a component, if there is one of this id; calls that have found it run to their end."""
        if self.components.pop(node_id, None) is not None:
            self.spare.clear()
            self.update_routes()

    @property
    def is_busy(self) -> bool:
        """Whether a call runs or waits."""
        return bool(self.active) or self.places.used > 0

    def cancel_calls(self, reason: CancelReason, error: Callable[[], RrextError]) -> None:
        """Answer every active call of the task with an error, and stop it."""
        for call in list(self.active):
            call.cancel(reason, error())

    async def calls_returned(self, host: Host, patience: float) -> None:
        """Wait until cancelled calls have ended, before their nodes' shared state is closed; stuck calls are left behind."""
        try:
            async with asyncio.timeout(patience):
                await host.woken(self.places.when_free)
        except TimeoutError:
            log.warning("unloading %s: calls that were cancelled still run after %g s", self.name, patience)

    def note_block(self, label: str) -> None:
        """Count a tool that blocked the event loop."""
        self.blocks[label] += 1

    @property
    def left_behind(self) -> dict[str, int]:
        """The number of left-behind calls by tool."""
        found = self.places.left_behind
        return {} if found is None else found.counts()

    def note_error(self, message: str) -> None:
        """Keep the message for the task's status, once with the number of equal ones; of too many the oldest is dropped."""
        with self._errors_lock:
            self._note_error(message)

    def note_failed_call(self, message: str) -> None:
        """Count a client's call of a tool that failed, and keep its message."""
        with self._errors_lock:
            self.failed_calls += 1
            self._note_error(message[:MAX_ERROR_TEXT])

    def _note_error(self, message: str) -> None:
        message = readable(message)  # else no status could be encoded while it is kept
        self._errors[message] = self._errors.pop(message, 0) + 1
        if len(self._errors) > MAX_KEPT_ERRORS:
            del self._errors[next(iter(self._errors))]

    @property
    def errors(self) -> list[str]:
        """The last errors that differ, the latest last."""
        with self._errors_lock:
            return [text if count == 1 else f"{text} ({count} times)" for text, count in self._errors.items()]


def _trace_of(level: int) -> TaskTrace | None:
    if not level:
        return None
    from rrext.engine.events.trace import TaskTrace  # most pipelines are not traced

    return TaskTrace(level)


def _offered(node_id: str, provider: str, offers: Mapping[str, Any], name: str = "", description: str = "") -> dict[str, Any]:
    return {"nodeId": node_id, "provider": provider, "name": name, "description": description, "offers": offers}


async def learn_tools(
    host: Host, task: Task, node_id: str | None = None, tool: str = "", *, trusted: bool
) -> dict[str, RrextError]:
    """Set up the nodes whose dynamic tools are not known yet, all or one, or those that may have a tool.

    Returns the errors of those that failed, by component.
    """
    unlisted = task.unlisted(node_id, tool)
    outcomes = await asyncio.gather(*(part.ensure(host, trusted=trusted) for part in unlisted), return_exceptions=True)
    failed: dict[str, RrextError] = {}
    for component, outcome in zip(unlisted, outcomes, strict=True):
        if isinstance(outcome, RrextError):
            failed[component.id] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return failed


async def learn_tool(host: Host, task: Task, node_id: str | None, tool: str, *, trusted: bool) -> None:
    """Learn the tools of the nodes that may have this one, and only if none has it those of the others, for near names.

    Raises the error of a node that cannot tell its tools, if the tool is one of them, and `Unavailable` if it may be.
    """
    failed = await learn_tools(host, task, node_id, tool, trusted=trusted)
    if task.knows(node_id, tool):
        return
    for component, error in failed.items():
        if node_id or task.components[component].is_hidden:
            raise error.again()
    for component, error in failed.items():
        raise Unavailable(
            f'The tools of node "{component}" cannot be told, and "{tool}" may be one of them: {error.message}',
            hint=error.hint,
            data={"tool": tool, "nodeId": component, "cause": error.code},
        )
    await learn_tools(host, task, node_id, trusted=trusted)


RATE_WINDOW: Final = 5
"""Seconds over which the rates in the status of a task are averaged: enough for slow objects, and still current."""

MAX_SLOW_OBJECTS: Final = 10
"""The slowest objects in the status of a task, as in the reference server's."""

MAX_SLOW_NAME: Final = 200
"""Characters of the name of such an object, as in the reference server's."""


class Throughput:
    """Counts the objects of one task, from the begin of the first one. On the loop's thread; times are the clock's."""

    __slots__ = (
        "_ends", "_idle_since", "_open", "_order", "_slowest", "completed_size", "completion_seconds", "failed_size",
        "idle_longest_at", "idle_longest_seconds", "idle_seconds", "words_count", "words_size",
    )  # fmt: skip

    def __init__(self) -> None:
        self.completed_size = 0
        self.failed_size = 0
        self.words_size = 0
        self.words_count = 0
        self.completion_seconds = 0.0
        self.idle_seconds = 0.0
        self.idle_longest_seconds = 0.0
        self.idle_longest_at = 0.0
        self._idle_since: float | None = None
        self._open = 0
        self._order = 0
        self._ends: deque[tuple[int, int, int]] = deque()
        self._slowest: list[tuple[float, int, dict[str, Any]]] = []

    def begin(self, now: float) -> None:
        """Count an object that begins."""
        self._open += 1
        if self._idle_since is not None:
            idle, self._idle_since = now - self._idle_since, None
            self.idle_seconds += idle
            if idle > self.idle_longest_seconds:
                self.idle_longest_seconds = idle
                self.idle_longest_at = time() - idle

    def end(self, pipe: OpenPipe, now: float, *, is_complete: bool) -> None:
        """Count an object that ended, with what its client sent."""
        intake, seconds = pipe.intake, now - pipe.began
        self._open -= 1
        if not self._open:
            self._idle_since = now
        self.words_size += intake.text_size
        self.words_count += intake.words
        if not is_complete:
            self.failed_size += intake.size
            return
        self.completed_size += intake.size
        self.completion_seconds += seconds
        self._note_rate(int(now), intake.size)
        self._order += 1
        entry = (seconds, -self._order, {"name": pipe.entry.name[:MAX_SLOW_NAME], "elapsed": round(seconds, 2)})
        entry[2].update(beginTime=time() - seconds, beginSeq=None)
        if len(self._slowest) < MAX_SLOW_OBJECTS:
            self._slowest.append(entry)
            self._slowest.sort()  # a sorted list is a heap
        else:
            heappushpop(self._slowest, entry)

    def _note_rate(self, second: int, size: int) -> None:
        ends = self._ends
        if ends and ends[-1][0] == second:
            _, count, bytes_before = ends.pop()
            ends.append((second, count + 1, bytes_before + size))
        else:
            ends.append((second, 1, size))
        while ends[0][0] <= second - RATE_WINDOW:
            ends.popleft()

    def counters(self, pipes: list[OpenPipe], now: float) -> dict[str, Any]:
        """The members of a task's status; `pipes` are the task's open ones."""
        recent = [(count, size) for second, count, size in self._ends if second > int(now) - RATE_WINDOW]
        arriving = sum(max(pipe.intake.size, pipe.entry.size or 0) for pipe in pipes)
        return {
            "totalSize": self.completed_size + self.failed_size + arriving,
            "completedSize": self.completed_size,
            "failedSize": self.failed_size,
            "wordsSize": self.words_size + sum(pipe.intake.text_size for pipe in pipes),
            "wordsCount": self.words_count + sum(pipe.intake.words for pipe in pipes),
            "rateSize": sum(size for _, size in recent) // RATE_WINDOW,
            "rateCount": round(sum(count for count, _ in recent) / RATE_WINDOW),
            "slowestDocs": [entry for *_, entry in sorted(self._slowest, key=lambda slow: (-slow[0], -slow[1]))],
            "completionSeconds": round(self.completion_seconds, 2),
            "idleSeconds": round(self.idle_seconds, 2),
            "idleLongestSeconds": round(self.idle_longest_seconds, 2),
            "idleLongestAt": self.idle_longest_at,
        }


METRICS_INTERVAL: Final = 0.25
"""Seconds over which processor time is measured at least: the clock of the kernel is coarser than shorter times."""

_PROCESSORS: Final = os.cpu_count() or 1
SAME_LOOK: Final = 0.01
"""Seconds in which a look at the process is not repeated: the list of a thousand tasks would be a thousand looks."""

_seen: tuple[tuple[float, float], float] = ((float("-inf"), 0.0), 0.0)


class ProcessMetrics:
    """Measures the process that runs a task, when it is asked, from the begin of the task.

    All tasks of a process share its numbers. 100 percent are all processors.
    """

    __slots__ = ("_began", "_latest", "_memory", "_peak_memory", "_peak_percent", "_percent", "_samples")

    def __init__(self) -> None:
        self._began = self._latest = (monotonic(), process_time())
        self._percent = 0.0
        self._peak_percent = 0.0
        self._memory = 0.0
        self._peak_memory = 0.0
        self._samples = 0

    def measured(self) -> dict[str, Any]:
        """The metrics of now, in percent and megabytes."""
        now, memory = _process()
        if not self._samples or now[0] - self._latest[0] >= METRICS_INTERVAL:
            self._percent = _percent(self._latest, now)
            self._latest = now
            self._peak_percent = max(self._peak_percent, self._percent)
        self._memory += memory
        self._samples += 1
        self._peak_memory = max(self._peak_memory, memory)
        return {
            "cpu_percent": self._percent,
            "cpu_memory_mb": memory,
            "gpu_memory_mb": 0.0,
            "peak_cpu_percent": self._peak_percent,
            "peak_cpu_memory_mb": self._peak_memory,
            "peak_gpu_memory_mb": 0.0,
            "avg_cpu_percent": _percent(self._began, now),
            "avg_cpu_memory_mb": round(self._memory / self._samples, 2),
            "avg_gpu_memory_mb": 0.0,
        }


def _percent(since: tuple[float, float], now: tuple[float, float]) -> float:
    seconds = now[0] - since[0]
    return 0.0 if seconds <= 0 else round(min(100.0, 100 * (now[1] - since[1]) / seconds / _PROCESSORS), 2)


def _process() -> tuple[tuple[float, float], float]:
    """The time and the processor time of a moment, and the memory; one look serves all tasks of a list."""
    global _seen
    at = monotonic()
    if at - _seen[0][0] >= SAME_LOOK:
        _seen = ((at, process_time()), _memory_mb())
    return _seen


def _memory_mb() -> float:
    """The resident memory; on systems without `/proc` its peak."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            pages = int(file.read().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / MIB, 2)
    except OSError:
        import resource

        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB, 2)
