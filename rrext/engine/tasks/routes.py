"""The tools of a loaded pipeline as calls reach them: by node and by name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rrext.engine.host.large_results import learnt_size
from rrext.errors import InvalidArguments, NodeNotFound, NotFound, ToolNotFound
from rrext.limits import MAX_LISTED_IDS, QUICK_SHARE_ALONE, QUICK_SHARE_AMONG_OTHERS
from rrext.tools.names import HOST_REQUEST

if TYPE_CHECKING:
    from rrext.engine.tasks.component import Component
    from rrext.references import Reference
    from rrext.tools.names import NodeTool
    from rrext.tools.spec import ToolSpec


class Route:
    """A tool of one component, with the measured duration of its calls.

    `quick` says that the last run of a sync tool was so short that the thread which read the request may run the tool;
    `quick_alone` says the same for times without other waiting requests, as for a tool that queries a database nearby.
    `plain` says that any thread may run the tool, and that its availability does not depend on the call. `for_threads`
    says that the tool is plain and no coroutine. `returns` is the size of its results in bytes, 0 while they are small.
    `label` is its name in messages, `trail` the chain of callers that begins with it. `exported_name` is unique in the
    pipeline.

    A reference is a route too: `node_id` is the node that offers it, `origin` the tool of the component as it is without the
    reference. `asks` says that each call needs a permit.
    """

    __slots__ = (
        "asks", "component", "exported_name", "for_threads", "label", "node_id", "origin", "plain", "quick", "quick_alone",
        "returns", "spec", "trail",
    )  # fmt: skip

    def __init__(
        self,
        component: Component,
        spec: ToolSpec,
        *,
        node_id: str | None = None,
        origin: ToolSpec | None = None,
        asks: bool = False,
    ) -> None:
        self.component = component
        self.spec = spec
        self.node_id = node_id or component.id
        self.origin = origin or spec
        self.asks = asks
        self.exported_name = spec.name
        self.label = f"{self.node_id}.{spec.name}"
        self.trail = (self.label,)
        self.quick = self.quick_alone = False
        self.returns = 0
        is_free = not spec.is_def or spec.thread == "pool"
        self.plain = is_free and spec.static and not (component.missing or asks) and by_settings(component, spec) is True
        self.for_threads = self.plain and spec.is_def

    @classmethod
    def of_reference(cls, reference: Reference, node_id: str, meant: Route) -> Route:
        """The route of a reference that a node offers to another route, which may be that of a reference too."""
        asks = meant.asks or reference.permission == "ask"
        return cls(meant.component, reference.wrap(meant.spec), node_id=node_id, origin=meant.spec, asks=asks)

    @property
    def is_dynamic(self) -> bool:
        """Whether the tool is one that the node has learnt, as from a server outside."""
        return self.component.dynamic_tools.get(self.spec.name) is self.spec

    @property
    def is_denied(self) -> bool:
        """Whether the settings deny the tool to every caller. A node that is down denies nothing."""
        return not self.component.missing and by_settings(self.component, self.spec) is False

    @property
    def names(self) -> Sequence[str]:
        """What means the tool in a list of allowed ones."""
        own = () if "." in self.spec.name else (self.spec.name,)
        return (self.label, self.exported_name, f"{self.node_id}.*", *own)

    def is_among(self, names: Container[str] | None) -> bool:
        """Whether a caller who may use only the tools of these names may use this one; None are all.

        A name with a dot is `node.tool` alone: no outside server can give a tool the name of another node's. `node.*` means all
        tools of a node.
        """
        return names is None or any(name in names for name in self.names)

    def learn(self, took: float, limit: float) -> None:
        """Note the duration of the last run; a tool that may run on the reading thread takes a share of `limit` seconds."""
        self.quick_alone = self.plain and self.spec.kind == "sync" and took < QUICK_SHARE_ALONE * limit
        self.quick = self.quick_alone and took < QUICK_SHARE_AMONG_OTHERS * limit

    def learn_size(self, size: int) -> None:
        """Note the size of the last result."""
        self.returns = learnt_size(self.returns, size)

    def forget(self) -> None:
        """Forget the duration, after a run that was stopped."""
        self.quick = self.quick_alone = False


def by_settings(component: Component, spec: ToolSpec) -> bool | None:
    """Whether a tool is available to every caller (True), or to none (False), by the settings alone; None if calls differ.

    Settings of a loaded pipeline do not change.
    """
    rule: Any = spec.options.available
    if rule is None:
        return True
    return bool(rule(component, None)) if getattr(rule, "by_settings", False) else None


OfferedReference: TypeAlias = "tuple[str, Reference, Component]"
"""The id of the node that offers a reference, the reference, and the component that has the tool."""

NONE: Final[Sequence[Route]] = ()


class RouteTable:
    """All tools of some components, in chain order; the dynamic ones after them, so that an outside server takes no name
    away, and then the references, each with the node that offers it and the component that has the tool.

    A table never changes: `updated` makes another one. Any thread may read it. `private` has the references of nodes that keep
    theirs for themselves; nothing else here knows them.
    """

    __slots__ = ("_by_name", "_by_node", "_keepers", "_prefixes", "_references", "direct", "private")

    def __init__(
        self,
        components: Iterable[Component],
        references: Sequence[OfferedReference] = (),
        earlier: RouteTable | None = None,
    ) -> None:
        components = tuple(component for component in components if not component.is_hidden)
        self._references = references
        self._keepers = {component.id for component in components if component.node_class.keeps_references}
        kept = {} if earlier is None else earlier._by_node | earlier.private
        self._by_node: dict[NodeTool, Route] = {}
        self.private: dict[NodeTool, Route] = {}
        for component in components:
            for name, spec in component.node_class.tools.items():
                self._by_node[component.id, name] = kept.get((component.id, name)) or Route(component, spec)
        for component in components:
            for name, spec in component.dynamic_tools.items():
                if (component.id, name) not in self._by_node:
                    route = kept.get((component.id, name))
                    self._by_node[component.id, name] = route if route and route.spec is spec else Route(component, spec)
        self._add_offers(kept)
        self._prefixes = {component.id: component.tool_prefix for component in components if component.tool_prefix}
        self._add_references(kept)
        self._by_name: dict[str, list[Route]] = {}
        for (_, name), route in self._by_node.items():
            self._by_name.setdefault(name, []).append(route)
        if len(self._by_name) < len(self._by_node) or references or any(part.dynamic_tools for part in components):
            from rrext.tools.names import exported_names  # most pipelines need no other names

            for key, name in exported_names(self._by_node).items():
                route = self._by_node[key]
                route.exported_name = name
                self._by_name.setdefault(name, [route])

        self.direct: dict[tuple[str | None, str], Route] = {**self._by_node}
        """The tools by node and own name, and without a node those of which there is one; `only` knows the others too."""
        for name, routes in self._by_name.items():
            if len(routes) == 1:
                self.direct[None, name] = routes[0]

    def _add_offers(self, kept: Mapping[NodeTool, Route]) -> None:
        """Add the way to prompts and resources of servers that references take whole."""
        for node_id, reference, component in self._references:
            is_offer = component.is_hidden and reference.takes_all and node_id not in self._keepers
            spec = component.dynamic_tools.get(HOST_REQUEST) if is_offer else None
            if spec is not None:
                route = kept.get((component.id, HOST_REQUEST))
                self._by_node[component.id, HOST_REQUEST] = route if route and route.spec is spec else Route(component, spec)

    def _add_references(self, kept: Mapping[NodeTool, Route]) -> None:
        """Add the references; those that mean the tool of another one after it."""
        waiting, before = list(_single(self._references)), 0
        while len(waiting) != before:
            before, given, waiting = len(waiting), waiting, []
            for each in given:
                node_id, reference, component = each
                meant = self._meant(reference, component)
                if meant is None:
                    waiting.append(each)
                    continue
                route = kept.get((node_id, reference.name))
                if route is None or route.origin is not meant.spec:
                    route = Route.of_reference(reference, node_id, meant)
                table = self.private if node_id in self._keepers else self._by_node
                table.setdefault((node_id, reference.name), route)

    def _meant(self, reference: Reference, component: Component) -> Route | None:
        """The route that a reference means, as far as it is known."""
        if reference.kind == "node":
            return self._by_node.get((reference.integration, reference.action))
        spec = component.tool(reference.action)
        return None if spec is None else Route(component, spec)

    def updated(self, components: Iterable[Component]) -> RouteTable:
        """The table of components whose dynamic tools have changed. Routes of tools that stay keep what was learnt of them."""
        return RouteTable(components, self._references, self)

    def owners(self, name: str) -> Sequence[Route]:
        """The routes of an own or exported name, in the order of search."""
        return self._by_name.get(name, NONE)

    def only(self, node_id: str | None, name: str) -> Route | None:
        """The tool of a node, or without a node the only one of this name; None if there are several."""
        if node_id:
            return self.of_node(node_id, name)
        routes = self._by_name.get(name, NONE)
        return routes[0] if len(routes) == 1 else None

    def of_node(self, node_id: str, name: str) -> Route | None:
        """The tool of a node, by its own name, also with the prefix of the node, or by its exported name."""
        found = self._by_node.get((node_id, name))
        if found is None:
            owners = self._by_name.get(name, NONE)
            if owners and owners[0].exported_name == name and owners[0].node_id == node_id:
                return owners[0]
            prefix = self._prefixes.get(node_id)
            if prefix is not None and name.startswith(prefix):
                return self._by_node.get((node_id, name.removeprefix(prefix)))
        return found

    def __iter__(self) -> Iterator[Route]:
        return iter(self._by_node.values())


def _single(references: Sequence[OfferedReference]) -> Iterator[OfferedReference]:
    """References to one tool each. One to a whole server leaves out the tools, and the names, that others of its node name."""
    named = {(node_id, component.id, reference.action) for node_id, reference, component in references}
    taken = {(node_id, reference.name) for node_id, reference, _ in references if reference.action}
    for node_id, reference, component in references:
        for each in reference.single(component.tool_names if not reference.action else ()):
            is_free = (node_id, component.id, each.action) not in named and (node_id, each.name) not in taken
            if reference.action or is_free:
                yield node_id, each, component


def node_not_found(node_id: str) -> NodeNotFound:
    """The error for a node that the pipeline does not have, without near matches."""
    return NodeNotFound(f'Node "{node_id}" not found in pipeline.')


def tool_not_found(tool: str, node_id: str | None) -> ToolNotFound:
    """The error for a tool that no node has, or not the named node, without near matches."""
    where = f' on node "{node_id}"' if node_id else ""
    return ToolNotFound(f'No handler found for tool "{tool}"{where}')


def several_owners(tool: str, node_ids: Sequence[str]) -> InvalidArguments:
    """The error for a tool that several nodes own, where its caller wants the only owner."""
    listed = ", ".join(node_ids[:MAX_LISTED_IDS]) + (", …" if len(node_ids) > MAX_LISTED_IDS else "")
    error = InvalidArguments.at(
        "/nodeId", f'is required: {len(node_ids)} nodes have a tool "{tool}"', hint=f"pass `nodeId`, one of: {listed}"
    )
    error.data["nodes"] = list(node_ids)
    return error


def with_near_names(
    error: NotFound, tool: str, node_id: str | None, visible: Sequence[tuple[str, tuple[str, ...]]], unknown: Mapping[str, str]
) -> NotFound:
    """The error with near matches among the tools that its caller may call.

    `visible` has the node's id and the names of each of them. `unknown` are the nodes whose tools are not known, with the
    reasons.
    """
    if isinstance(error, NodeNotFound):
        return NodeNotFound.near(error.message, node_id or "", [owner for owner, _ in visible])
    here = [name for owner, names in visible if not node_id or owner == node_id for name in names]
    elsewhere = [owner for owner, names in visible if tool in names]
    if node_id and elsewhere:
        hint = f'Node "{elsewhere[0]}" has a tool of that name.'
        return ToolNotFound(f"{error.message}. {hint}", hint=hint, data={"near": elsewhere, "nodes": elsewhere})
    for owner, reason in [each for each in unknown.items() if node_id in (None, "", each[0])][:MAX_LISTED_IDS]:
        error.message += f'. The tools of "{owner}" are not known: {reason.rstrip(".")}'
    return ToolNotFound.near(f"{error.message}.", tool, here)
