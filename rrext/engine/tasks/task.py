"""A loaded pipeline: its components, its limits, its routes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rrext.engine.flow.objects import NodeObjects
from rrext.engine.host.places import Places
from rrext.engine.interface.call import Call
from rrext.engine.interface.task_identity import TaskIdentity, ToolNames
from rrext.engine.tasks.component import Component, unavailable
from rrext.engine.tasks.measures import ProcessMetrics, Throughput
from rrext.engine.tasks.routes import OfferedReference, Route, RouteTable, node_not_found, tool_not_found
from rrext.errors import InvalidArguments, RrextError, TaskNotRegistered, Unavailable, near_matches
from rrext.limits import MAX_KEPT_ERRORS, Limits
from rrext.nodes.base.node import Node
from rrext.pipefile.lane_plan import LanePlan
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.tools.context import NULL_PUBLISHER
from rrext.tools.names import SEPARATOR

if TYPE_CHECKING:
    from rrext.clock import Clock
    from rrext.engine.events.trace import TaskTrace
    from rrext.engine.host.host import Host
    from rrext.tools.context import CancelReason, Publisher


def new_token(prefix: str) -> str:
    """A token that cannot be guessed: 128 random bits."""
    return f"{prefix}_{os.urandom(16).hex()}"


QUESTION_TYPE: Final = "application/rocketride-question"

log: Final = logging.getLogger("rrext.engine")


class Task(TaskIdentity):
    """One loaded pipeline under its token, in this process."""

    __slots__ = (
        "_plan", "blocks", "components", "dynamic", "errors", "metrics", "now", "places", "plans",
        "publisher", "references", "routes", "spare", "spec", "sync_places", "throughput", "trace", "ttl", "warnings",
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
        self.plans = loaded.plans
        self._plan = next(iter(self.plans.values())) if self.plans else LanePlan.of(spec, limits)
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
        self.errors: list[str] = []
        self.blocks: Counter[str] = Counter()
        self.now = clock.now
        """The time of the engine's clock."""
        self.spare: list[NodeObjects] = []
        """Node objects for calls without a pipe, which no call uses now."""
        self.references = references
        self.routes = RouteTable(components.values(), references)
        self.dynamic = tuple(part for part in components.values() if part.node_class.has_dynamic_tools)

    @property
    def tool_names(self) -> ToolNames:
        """What its tools are called."""
        names = dict.fromkeys(name for route in self.routes for name in (route.spec.name, route.exported_name, route.label))
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

    def plan_from(self, source: str | None) -> LanePlan:
        """The plan of the source at which an object enters: the named one, or the only one.

        Raises `InvalidArguments` if the name is none of the sources, or is needed; `Unavailable` without any source.
        """
        if not source and len(self.plans) == 1:
            return self._plan
        if source in self.plans:
            return self.plans[source]
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
            {"nodeId": part.id, "provider": part.provider, "reason": redact(found[part.id])}
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
        """Keep the message for the task's status; the oldest is dropped when there are too many."""
        self.errors.append(message)
        del self.errors[:-MAX_KEPT_ERRORS]


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
