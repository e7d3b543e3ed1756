"""Checks edges and the graph that they make: senders, lanes and class types, circles, the source, the reached components and
their output.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rrext.limits import MAX_LISTED_IDS
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node, accepted_input, accepted_lanes, offered_lanes, served_types
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.shape import LANES_OUT
from rrext.pipefile.spec import ComponentSpec, ControlEdge, DataEdge, EdgeKind
from rrext.pipefile.text.problems import Problems, Related, Severity, below, shown

if TYPE_CHECKING:
    from rrext.pipefile.catalog.foreign_nodes import ForeignNode
    from rrext.references import OfferedReferences, Reference


N = TypeVar("N")
Follows = Mapping[str, Sequence[str]]
"""Node → the nodes that one of its edges leads to, in file order."""


def chain_order(source: str, order: Mapping[str, int], data: Follows, control: Follows) -> tuple[str, ...]:
    """The chain of a pipeline, without its source. `order` has each node's place in the file.

    First the nodes that data reaches, depth-first; then, in repeated passes through the file, each node that a member of the
    chain (or the source) may invoke, with the nodes that its data reaches.
    """
    chain: dict[str, None] = {source: None}
    # (pass, place in the file): a node that becomes reachable behind the current place is met in the same pass.
    waiting: list[tuple[int, int, str]] = []

    def add(start: str, round_: int, place: int) -> None:
        for node in _depth_first(start, data, chain):
            for served in control.get(node, ()):
                if served not in chain:
                    at = order[served]
                    heappush(waiting, (round_ if at > place else round_ + 1, at, served))

    del chain[source]
    add(source, 0, -1)
    while waiting:
        round_, place, node = heappop(waiting)
        if node not in chain:
            add(node, round_, place)
    chain.pop(source, None)
    return tuple(chain)


def _depth_first(start: str, follows: Follows, seen: dict[str, None]) -> list[str]:
    """Nodes in the order in which a walk first meets them; each is added to `seen`."""
    found: list[str] = []
    pending = [start]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen[node] = None
            found.append(node)
            pending.extend(reversed(follows.get(node, ())))
    return found


def reached(starts: Iterable[str], *follows: Follows) -> set[str]:
    """Everything that is reached from some nodes over any of the edges, the starts included."""
    seen = set(starts)
    pending = list(seen)
    while pending:
        node = pending.pop()
        for edges in follows:
            for other in edges.get(node, ()):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
    return seen


def circles(nodes: Sequence[str], follows: Follows) -> list[list[str]]:
    """One shortest circle for each knot of nodes that all lead to each other, beginning at the knot's first node.

    `[a, b, a]` says that a leads to b and b back to a.
    """
    nodes = _tangled(nodes, follows)
    place = {node: index for index, node in enumerate(nodes)}
    found: list[list[str]] = []
    for knot in _knots(nodes, follows):
        start = min(knot, key=place.__getitem__)
        if len(knot) > 1 or start in follows.get(start, ()):
            found.append(_way_back(start, knot, follows))
    return sorted(found, key=lambda circle: place[circle[0]])


def _tangled(nodes: Sequence[str], follows: Follows) -> list[str]:
    """The nodes that remain after repeated removal of nodes without predecessors: none if there is no circle."""
    leading = dict.fromkeys(nodes, 0)
    for node in leading:
        for other in follows.get(node, ()):
            leading[other] += 1
    free = [node for node, count in leading.items() if not count]
    for node in free:
        for other in follows.get(node, ()):
            leading[other] -= 1
            if not leading[other]:
                free.append(other)
    return [node for node, count in leading.items() if count]


def _way_back(start: str, knot: set[str], follows: Follows) -> list[str]:
    came_from: dict[str, str] = {}
    pending = deque([start])
    while start not in came_from:
        node = pending.popleft()
        for other in follows.get(node, ()):
            if other in knot and other not in came_from:
                came_from[other] = node
                pending.append(other)
    way = [start, came_from[start]]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _knots(nodes: Sequence[str], follows: Follows) -> list[set[str]]:
    """Tarjan's strongly connected components, without recursion: a file may string ten thousand nodes together."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    knots: list[set[str]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(follows.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(follows.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    knots.append(_popped(stack, on_stack, node))
    return knots


def _popped(stack: list[str], on_stack: set[str], node: str) -> set[str]:
    knot: set[str] = set()
    while node not in knot:
        other = stack.pop()
        on_stack.discard(other)
        knot.add(other)
    return knot


Lanes: TypeAlias = tuple[str, ...] | None
"""Some lanes; None if they are unknown."""

_CIRCLES: Final[dict[EdgeKind, tuple[str, str]]] = {
    "input": ("cycle", "Data would run in a circle"),
    "control": ("control_cycle", "Nodes would invoke each other in a circle"),
}
"""Kind of edge → code and begin of the message about a circle."""


class EdgeCheck:
    """Checks the edges between some components. Afterwards `data` and `control` lead from a node to those behind it.

    Edges with a missing end are left out, so that later checks can follow the rest; their components are marked `broken`.
    """

    def __init__(
        self, drafts: Sequence[ComponentSpec], problems: Problems, near: NearNames, offered: OfferedReferences
    ) -> None:
        self._drafts = drafts
        self._offered = offered
        self._problems = problems
        self._near = near
        self.by_id = {draft.id: draft for draft in reversed(drafts) if draft.id}
        self._ids = tuple(draft.id for draft in drafts if draft.id)
        self._lanes: dict[type[Node] | None, tuple[Lanes, Lanes]] = {None: (None, None)}
        self.data: dict[str, list[str]] = {}
        self.control: dict[str, list[str]] = {}

    def run(self) -> None:
        """Check every edge, then the circles that they make."""
        for draft in self._drafts:
            for edge in draft.inputs:
                self._data_edge(draft, edge)
            for edge in draft.controls:
                self._control_edge(draft, edge)
            for reference in draft.references:
                target = self.by_id.get(self._owner(reference))
                if target is not None:
                    self._link(self.control, draft, target)
        for circle in circles(self._ids, self.data):
            self._report_circle("input", circle)
        for circle in circles(self._ids, self.control):
            self._report_circle("control", circle)

    # ends

    def _producer(self, draft: ComponentSpec, source_id: str, kind: str, index: int) -> ComponentSpec | None:
        found = self.by_id.get(source_id)
        if found is None:
            draft.broken = True
            near = self._near.of(source_id, self._ids)
            message = f"No component has the id {shown(source_id)}."
            if not near and len(self._ids) <= MAX_LISTED_IDS:
                message += f" There are {', '.join(self._ids)}."
            related = [self.by_id[name].here(f"{shown(name)} stands here.") for name in near]
            path = below(draft.path, kind, index, "from")
            self._problems.add("from_not_found", message, path, near=near, related=related)
        return found

    def _owner(self, reference: Reference) -> str:
        """The id of the component that has the tool of a reference, which may mean that of another; "" for none of these."""
        target = self.by_id.get(reference.integration)
        node = None if target is None else target.node
        chain = self._offered.chain(reference)
        is_missing = len(chain) == 1 and node is not None and not (node.has_dynamic_tools or reference.action in node.tools)
        return chain[-1].integration if chain and chain[-1].kind == "node" and not is_missing else ""

    def _link(self, edges: dict[str, list[str]], producer: ComponentSpec, draft: ComponentSpec) -> None:
        if draft.id and self.by_id.get(draft.id) is draft:
            behind = edges.setdefault(producer.id, [])
            if not behind or behind[-1] != draft.id:  # several lanes between two nodes are one step
                behind.append(draft.id)

    # data

    def _data_edge(self, draft: ComponentSpec, edge: DataEdge) -> None:
        producer = self._producer(draft, edge.source_id, "input", edge.index)
        if producer is None:
            return
        self._link(self.data, producer, draft)
        offered, accepted = self._lanes_of(producer)[0], self._lanes_of(draft)[1]
        if offered is not None and accepted is not None and edge.lane in offered and edge.lane in accepted:
            return
        at = below(draft.path, "input", edge.index, "lane")
        if edge.lane not in LANES and edge.lane not in (offered or ()) and edge.lane not in (accepted or ()):
            draft.broken = True
            known = self._fitting(producer, draft, offered, accepted)
            near = self._near.of(edge.lane, known) or self._near.of(edge.lane, LANES)
            message = f"There is no lane {shown(edge.lane)}."
            self._problems.add("unknown_lane", message, at, near=near, related=_both_ends(producer, draft))
            return
        if offered is not None and edge.lane not in offered:
            if edge.lane in LANES_OUT.get(producer.provider, ()):
                self._report_missing_lane(draft, producer, edge, at)
            else:
                self._report_lane("lane_not_offered", draft, producer, edge, at, offered, accepted)
        if accepted is not None and edge.lane not in accepted:
            self._report_lane("lane_not_accepted", draft, producer, edge, at, accepted, offered)

    def _lanes_of(self, draft: ComponentSpec) -> tuple[Lanes, Lanes]:
        """The lanes that a node offers, and the lanes that it accepts."""
        node = draft.node
        if draft.foreign is not None:
            return draft.foreign.offered, draft.foreign.accepted
        found = self._lanes.get(node)
        if found is None:
            assert node is not None  # an unknown class has unknown lanes
            found = self._lanes[node] = (offered_lanes(node), accepted_lanes(node))
        return found

    def _report_missing_lane(self, draft: ComponentSpec, producer: ComponentSpec, edge: DataEdge, path: str) -> None:
        message = (
            f"RocketRide's {producer.provider} sends on the lane {shown(edge.lane)}, the one here does not: "
            f"nothing comes to {shown(draft.id)} on this edge."
        )
        self._problems.add("lane_not_offered", message, path, severity="warning", related=_both_ends(producer, draft))

    def _report_lane(
        self,
        code: str,
        draft: ComponentSpec,
        producer: ComponentSpec,
        edge: DataEdge,
        path: str,
        lanes: tuple[str, ...],
        others: Lanes,
    ) -> None:
        offers = code == "lane_not_offered"
        owner = producer if offers else draft
        severity: Severity | None = None if owner.foreign is None else "warning"  # another version of it may have the lane
        draft.broken = draft.broken or severity is None
        listed = f"it {'offers' if offers else 'accepts'} {', '.join(lanes) or 'no lane'}"
        verb = "does not send on" if offers else "does not accept"
        message = f"{shown(owner.id)} ({owner.provider}) {verb} the lane {shown(edge.lane)}: {listed}."
        fitting = tuple(lane for lane in lanes if others is None or lane in others)
        near = fitting if len(fitting) == 1 else self._near.of(edge.lane, fitting)
        self._problems.add(code, message, path, near=near, severity=severity, related=_both_ends(producer, draft))

    def _fitting(self, producer: ComponentSpec, draft: ComponentSpec, offered: Lanes, accepted: Lanes) -> tuple[str, ...]:
        """The lanes that both ends have, as far as they are known."""
        if offered is None or accepted is None:
            return offered or accepted or LANES
        return tuple(lane for lane in offered if lane in accepted)

    # control

    def _control_edge(self, draft: ComponentSpec, edge: ControlEdge) -> None:
        invoker = self._producer(draft, edge.source_id, "control", edge.index)
        if invoker is None:
            return
        self._link(self.control, invoker, draft)
        path = below(draft.path, "control", edge.index)
        if draft.foreign is not None:
            self._foreign_control_edge(draft, draft.foreign, invoker, edge, path)
        if draft.node is None or invoker.node is None or invoker is draft:
            return
        kind = edge.class_type
        serves = kind in served_types(draft.node)
        could_serve = kind in served_types(invoker.node)
        reversed_here = kind in draft.node.invoke or draft.node.is_source()
        if could_serve and reversed_here and not (kind in invoker.node.invoke or invoker.node.is_source()):
            self._report_reversed(draft, invoker, edge, path, certain=not serves)
        elif not serves and could_serve:
            self._report_reversed(draft, invoker, edge, path, certain=True)
        elif not serves:
            self._report_class_type(draft, invoker, edge, path)

    def _foreign_control_edge(
        self, draft: ComponentSpec, foreign: ForeignNode, invoker: ComponentSpec, edge: ControlEdge, path: str
    ) -> None:
        """Warn of an edge on a node of RocketRide that does not serve so: another version of it may."""
        kind = edge.class_type
        if kind in foreign.class_types:
            return
        if invoker.node is not None and kind in served_types(invoker.node):
            self._report_reversed(draft, invoker, edge, path, certain=False)
            return
        message = f"{shown(draft.id)} ({draft.provider}) serves as {', '.join(foreign.class_types)}, not as {shown(kind)}."
        self._problems.add("class_type_not_served", message, below(path, "classType"), severity="warning")

    def _report_reversed(
        self, draft: ComponentSpec, invoker: ComponentSpec, edge: ControlEdge, path: str, *, certain: bool
    ) -> None:
        draft.broken = draft.broken or certain
        edge_text = f'{{"classType": "{edge.class_type}", "from": "{draft.id}"}}'
        message = (
            f"A control edge belongs on the node that is invoked: {shown(invoker.id)} ({invoker.provider}) serves as "
            f"{edge.class_type}, so it needs {edge_text} in its control, and {shown(draft.id)} needs none."
        )
        related = [invoker.here(f"{shown(invoker.id)} is invoked."), draft.here(f"{shown(draft.id)} invokes.")]
        self._problems.add("control_on_invoker", message, path, severity=None if certain else "warning", related=related)

    def _report_class_type(self, draft: ComponentSpec, invoker: ComponentSpec, edge: ControlEdge, path: str) -> None:
        assert draft.node is not None
        draft.broken = True
        served = served_types(draft.node)
        listed = f"it serves as {', '.join(served)}" if served else "it cannot be bound by control"
        message = f"{shown(draft.id)} ({draft.provider}) does not serve as {shown(edge.class_type)}: {listed}."
        near = self._near.of(edge.class_type, served)
        related = [invoker.here(f"{shown(invoker.id)} invokes."), draft.here(f"{shown(draft.id)} would be invoked.")]
        self._problems.add("class_type_not_served", message, below(path, "classType"), near=near, related=related)

    # circles

    def _report_circle(self, kind: EdgeKind, circle: list[str]) -> None:
        text = circle[0]
        related: list[Related] = []
        for sender, receiver in pairwise(circle):
            draft = self.by_id[receiver]
            listed = [(name, below(draft.path, kind, edge.index), edge.source_id) for name, edge in draft.edges(kind)]
            listed += [("tool", each.path, sender) for each in self.by_id[sender].references if self._owner(each) == receiver]
            name, path = next((name, path) for name, path, source_id in listed if source_id == sender)
            step = f"-[{name}]->{receiver}"
            text += step
            related.append(Related(path, sender + step))
            draft.broken = True
        if len(text) > 1000:
            text = text[:1000] + "…"
        code, what = _CIRCLES[kind]
        self._problems.add(code, f"{what}: {text}.", related[-1].path, related=related[:-1][:20])


def _both_ends(producer: ComponentSpec, consumer: ComponentSpec) -> list[Related]:
    return [producer.here(f"{shown(producer.id)} sends."), consumer.here(f"{shown(consumer.id)} receives.")]


def choose_sources(
    named: str,
    drafts: Sequence[ComponentSpec],
    by_id: Mapping[str, ComponentSpec],
    base: str,
    problems: Problems,
    near: NearNames,
) -> list[ComponentSpec]:
    """The components at which objects may enter: the named one, else all sources."""
    at = below(base, "source")
    if named:
        source = by_id.get(named)
        if source is None:
            message = f"Pipeline source component {shown(named)} not found in components list."
            problems.add("source_not_found", message, at, near=near.of(named, tuple(by_id)))
        elif source.node is not None and not source.node.is_source() and source.config.get("mode") != "Source":
            message = f"{shown(named)} ({source.provider}) is no source: a pipeline begins with one, such as webhook or chat."
            others = tuple(draft.id for draft in _sources(drafts, by_id))
            problems.add("not_a_source", message, at, near=others[:3], related=[source.here("This is named as the source.")])
            return []
        return [] if source is None else [source]
    found = _sources(drafts, by_id)
    kinds = Counter(kind for draft in found if draft.node is not None for kind in accepted_input(draft.node))
    if len(found) > 1 and (None in [draft.node for draft in found] or max(kinds.values(), default=0) > 1):
        names = ", ".join(draft.id for draft in found[:10])
        message = (
            f'Pipeline has multiple source components ({names}), and "source" names none of them: objects need '
            "`source` (`--source ID`). Tools need none."
        )
        related = [draft.here("This is a source.") for draft in found[:10]]
        problems.add("multiple_sources", message, below(base, "components"), related=related, on="key")
    elif not found and all(draft.node is not None and draft.id for draft in drafts) and (drafts or not problems.errors):
        problems.add("no_source", "Pipeline does not have a source component defined.", below(base, "components"), on="key")
    return found


def _sources(drafts: Sequence[ComponentSpec], by_id: Mapping[str, ComponentSpec]) -> list[ComponentSpec]:
    """The possible sources: components with `mode: "Source"`, else those whose class is a source."""
    own = [draft for draft in drafts if by_id.get(draft.id) is draft]
    said = [draft for draft in own if draft.config.get("mode") == "Source"]
    return said or [draft for draft in own if draft.node is not None and draft.node.is_source() and not draft.controls]


class ReachabilityCheck:
    """Checks of the whole graph.


    `chains` maps each source to its chain, `chain` has the components of all of them. Both are computed even if there are
    errors elsewhere.
    """

    def __init__(
        self, sources: Sequence[ComponentSpec], drafts: Sequence[ComponentSpec], edges: EdgeCheck, problems: Problems
    ) -> None:
        self._sources = [source for source in sources if source.id]
        self._drafts = drafts
        self._edges = edges
        self._by_id = edges.by_id
        self._problems = problems
        self._order = {draft.id: draft.index for draft in drafts if draft.id}
        self.chains = {source.id: self._chain_of(source) for source in self._sources}
        self.chain = tuple(dict.fromkeys(node_id for chain in self.chains.values() for node_id in chain))

    def _chain_of(self, start: ComponentSpec) -> tuple[str, ...]:
        return chain_order(start.id, self._order, self._edges.data, self._edges.control)

    def chain_without_source(self) -> tuple[str, ...]:
        """The chain if the nodes of all sources are missing: what the components to which nothing leads reach."""
        starts = [draft for draft in self._drafts if not draft.inputs and not draft.controls]
        return tuple(dict.fromkeys(node_id for start in starts for node_id in (start.id, *self._chain_of(start))))

    def run(self) -> None:
        """Report unreached nodes, unread output, and missing or excess bound nodes."""
        if not self._sources:
            return
        self._report_unconnected()
        if any(draft.broken or draft.node is None for draft in self._drafts):
            return  # what is wrong already makes all that follows a guess
        for node_id in dict.fromkeys((*self.chains, *self.chain)):
            draft = self._by_id[node_id]
            if draft.node is not None:
                self._check_invoke(draft, draft.node)
                self._check_response_keys(draft)
        for source in self._sources:
            self._check_output(source, [source, *(self._by_id[node_id] for node_id in self.chains[source.id])])

    def _report_unconnected(self) -> None:
        first = self._sources[0]
        others = [
            draft for draft in self._drafts if draft.id not in self.chains and draft.node is not None and draft.node.is_source()
        ]
        for draft in others:
            if draft.id not in self.chain and self._by_id.get(draft.id) is draft:
                here = f'"source": {shown(draft.id)} would begin here'
                message = f"Another source: this run begins at {shown(first.id)}; {here}."
                related = [first.here("This run begins here.")]
                self._problems.add("other_source", message, below(draft.path, "id"), related=related)
        starts = [*self.chains, *(draft.id for draft in others)]
        for draft in self._drafts:
            if draft.broken or draft.node is None:
                # Its mistake is reported already: the component and its sources count as reached, without a second problem.
                starts += [draft.id, *(edge.source_id for edge in (*draft.inputs, *draft.controls))]
            elif getattr(draft.settings, "offer", False):  # to hosts, for which no source is needed
                starts.append(draft.id)
        known = reached(starts, self._edges.data, self._edges.control)
        for draft in self._drafts:
            if draft.id and draft.id not in known and self._by_id.get(draft.id) is draft:
                begins = " and ".join(shown(source.id) for source in self._sources[:10])
                message = f"{shown(draft.id)} ({draft.provider}) is not connected: nothing leads to it from {begins}."
                related = [source.here(f"Objects begin at {shown(source.id)}.") for source in self._sources[:10]]
                self._problems.add("not_connected", message, below(draft.path, "id"), related=related)

    def _check_invoke(self, draft: ComponentSpec, node: type[Node]) -> None:
        if not node.invoke:
            return
        bound: dict[str, list[ComponentSpec]] = {}
        for served_id in self._edges.control.get(draft.id, ()):
            for edge in self._by_id[served_id].controls:
                if edge.source_id == draft.id:
                    bound.setdefault(edge.class_type, []).append(self._by_id[served_id])
        for class_type, slot in node.invoke.items():
            helpers = bound.get(class_type, [])
            count = len(helpers)
            least, most = slot.get("min") or 0, slot.get("max")
            what = f'a component with {{"classType": "{class_type}", "from": "{draft.id}"}} in its control'
            if count < least:
                message = (
                    f"{shown(draft.id)} ({draft.provider}) needs at least {least} {class_type} and has {count}: add {what}."
                )
                self._problems.add("invoke_missing", message, below(draft.path, "id"))
            elif isinstance(most, int) and count > most:
                message = f"{shown(draft.id)} ({draft.provider}) uses at most {most} {class_type} and has {count}."
                related = [helper.here(f"{shown(helper.id)} is bound to it.") for helper in helpers[:10]]
                self._problems.add("invoke_excess", message, below(draft.path, "id"), related=related)
        if draft.settings is not None:
            given = {
                class_type: [
                    (helper.node, helper.settings) for helper in helpers if helper.node and helper.settings is not None
                ]
                for class_type, helpers in bound.items()
            }
            for setting, message in node.bound_problems(draft.settings, given):
                self._problems.add("invalid_config", message, below(draft.section, setting))

    # what comes out

    def _check_output(self, source: ComponentSpec, members: list[ComponentSpec]) -> None:
        listened = {(edge.source_id, edge.lane) for draft in members for edge in draft.inputs}
        flowing = [draft for draft in members if draft.inputs]
        if not any(edge.source_id == source.id for draft in flowing for edge in draft.inputs):
            self._check_silent_source(source)
            return
        leaves = [draft for draft in flowing if self._is_unread(draft, listened)]
        if leaves and not any(is_response(draft) for draft in flowing):
            message = f"No response node is reached from {shown(source.id)}: objects leave no result."
            related = [draft.here(f"Nothing reads what {shown(draft.id)} sends.") for draft in leaves[:10]]
            self._problems.add("no_response", message, below(source.path, "id"), related=related)
            return
        for draft in leaves:
            lanes = ", ".join(sent_lanes(draft))
            message = f"Nothing reads what {shown(draft.id)} ({draft.provider}) sends ({lanes}): add a response node."
            self._problems.add("output_unread", message, below(draft.path, "id"))

    def _check_silent_source(self, source: ComponentSpec) -> None:
        """Report a source that no node listens to, unless it only invokes tools."""
        node = source.node
        if node is None or not node.accepts:
            return
        has_tools = bool(self._edges.control.get(source.id))
        if not has_tools or "chat" in node.accepts:
            calls = " and ".join(f"{name}()" for name in node.accepts)
            lanes = ", ".join(offered_lanes(node))
            message = (
                f"Nothing reads what {shown(source.id)} ({source.provider}) sends ({lanes}): {calls} would have no effect."
            )
            self._problems.add("source_unread", message, below(source.path, "id"))

    def _is_unread(self, draft: ComponentSpec, listened: set[tuple[str, str]]) -> bool:
        sends = False
        for lane in _sent(draft):
            if (draft.id, lane) in listened:
                return False
            sends = True
        return sends

    def _check_response_keys(self, draft: ComponentSpec) -> None:
        """Report keys of a response node for lanes that do not arrive at it: no result will have them."""
        lanes = draft.config.get("lanes")
        if not is_response(draft) or not isinstance(lanes, list) or not draft.inputs:
            return
        arriving = {edge.lane for edge in draft.inputs}
        related = [
            Related(below(draft.path, "input", edge.index), f"{shown(edge.lane)} arrives here.") for edge in draft.inputs[:10]
        ]
        for place, entry in enumerate(lanes):
            lane: Any = entry.get("laneId") if isinstance(entry, dict) else None
            if isinstance(lane, str) and lane not in arriving:
                listed = ", ".join(sorted(arriving))
                message = f"No result will have this key: {shown(lane)} does not arrive at {shown(draft.id)}, only {listed}."
                path = below(draft.path, "config", "lanes", place, "laneId")
                self._problems.add("response_key_unread", message, path, related=related)


def sent_lanes(draft: ComponentSpec) -> tuple[str, ...]:
    """The lanes on which a node sends, given the lanes that it receives."""
    return tuple(dict.fromkeys(_sent(draft)))


def _sent(draft: ComponentSpec) -> Iterator[str]:
    if draft.node is not None:
        for edge in draft.inputs:
            yield from draft.node.lanes.get(edge.lane, ())


def is_response(draft: ComponentSpec) -> bool:
    """Whether a component writes into the result of `close`."""
    return is_response_provider(draft.provider)


def is_response_provider(provider: str) -> bool:
    """Whether the nodes of a provider write into the result of `close`."""
    return provider == "response" or provider.startswith("response_")
