"""The routes of a loaded pipeline: its tools, by node and by name alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from rrext.engine.tasks.route import Route
from rrext.tools.names import HOST_REQUEST

if TYPE_CHECKING:
    from rrext.engine.tasks.component import Component
    from rrext.references import Reference
    from rrext.tools.names import NodeTool

OfferedReference: TypeAlias = "tuple[str, Reference, Component]"
"""The id of the node that offers a reference, the reference, and the component that has the tool."""
NONE: Final[Sequence[Route]] = ()


class RouteTable:
    """All tools of some components, in chain order; the dynamic ones after them, so that an outside server takes no name
    away, and then the references, each with the node that offers it and the component that has the tool.

    A table never changes: `updated` makes another one. Any thread may read it.
    """

    __slots__ = ("_by_name", "_by_node", "_prefixes", "_references", "direct")

    def __init__(
        self,
        components: Iterable[Component],
        references: Sequence[OfferedReference] = (),
        earlier: RouteTable | None = None,
    ) -> None:
        components = tuple(component for component in components if not component.is_hidden)
        self._references = references
        kept = {} if earlier is None else earlier._by_node
        self._by_node: dict[NodeTool, Route] = {}
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
        for _, reference, component in self._references:
            spec = component.dynamic_tools.get(HOST_REQUEST) if component.is_hidden and reference.takes_all else None
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
                self._by_node.setdefault((node_id, reference.name), route)

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
