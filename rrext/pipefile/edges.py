"""Checks edges: the sender exists, both ends have the lane, the invoked node serves the class type."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from rrext.limits import MAX_LISTED_IDS
from rrext.nodes.base.lanes import LANES
from rrext.nodes.base.node import Node, accepted_lanes, offered_lanes, served_types
from rrext.pipefile.catalog.rocketride import LANES_OUT
from rrext.pipefile.graph import circles
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.spec import ComponentSpec, ControlEdge, DataEdge, EdgeKind
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problems, Related, Severity, shown

if TYPE_CHECKING:
    from rrext.pipefile.catalog.foreign_nodes import ForeignNode
    from rrext.references import OfferedReferences, Reference

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
        related = [invoker.here(f"{shown(invoker.id)} is the one that is invoked."), draft.here(f"{shown(draft.id)} invokes.")]
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
