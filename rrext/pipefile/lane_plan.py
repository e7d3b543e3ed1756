"""The plan of a pipeline: the receivers on each lane and the methods of each node, worked out once at load."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

import msgspec

from rrext.errors import InvalidPipeline
from rrext.limits import DEFAULTS, Limits
from rrext.nodes.base.node import Node
from rrext.pipefile.spec import PipelineSpec
from rrext.tools.context import ToolContext
from rrext.tools.decorator import kind_of, options_of

LIFECYCLE: Final = ("open", "closing", "close")
_NAMES_CONTEXT: Final = re.compile(r"\bToolContext\b")


class Method(msgspec.Struct, frozen=True):
    """A lifecycle or lane method of a node class; `context` is its parameter that takes the `ToolContext`, if any."""

    name: str
    is_async: bool
    context: str | None


class LaneReceiver(msgspec.Struct, frozen=True):
    """A node that gets a payload, and the method that takes it."""

    node_id: str
    method: Method


class LanePlan:
    """The data flow of a loaded pipeline. The plan refers to no node objects, so all pipes share it.

    `source_class` is the class of the source. `opening` and `closing` are the node ids of the chain in the order of `open`,
    and of `closing` and `close`. `source_lanes` are the lanes on which a node listens to the source. `needs_loop` says that at
    least one lifecycle or lane method of this pipeline is `async def`. `missing` maps each unavailable node to the reason:
    such a node counts as a receiver on all lanes of its edges, so that no payload is lost.
    """

    def __init__(
        self,
        source: str,
        opening: tuple[str, ...],
        closing: tuple[str, ...],
        listeners: Mapping[tuple[str, str], tuple[str, ...]],
        methods: Mapping[str, Mapping[str, Method]],
        ways: Mapping[tuple[str, str], int],
        declared: Mapping[str, tuple[str, ...]],
        limits: Limits,
        missing: Mapping[str, str],
        source_class: type[Node],
    ) -> None:
        self.source = source
        self.source_class = source_class
        self.opening = opening
        self.closing = closing
        self.limits = limits
        self.source_lanes = frozenset(lane for sender, lane in listeners if sender == source)
        self.needs_loop = any(method.is_async for table in methods.values() for method in table.values())
        self._listeners = listeners
        self.methods = methods
        """Node → its lifecycle methods, and its lane methods for its lanes in this pipeline; by name."""
        self._ways = ways
        self.declared = declared
        """Node → the lanes that it may emit on."""
        self.missing = missing
        self._reached: dict[str, tuple[str, ...]] = {}
        self._fanouts: dict[tuple[str, str], tuple[LaneReceiver, ...]] = {}

    @classmethod
    def of(cls, spec: PipelineSpec, limits: Limits = DEFAULTS) -> LanePlan:
        """The plan of a pipeline.

        Raises `InvalidPipeline` for data edges in a circle, for a method that is a generator, and for pass-through
        nodes that would multiply one payload beyond `max_receivers`.
        """
        chain = spec.chain
        classes = {component.id: component.node_class for component in spec.components}
        missing = {component.id: component.missing for component in spec.components if component.missing}
        listeners = _listeners(spec, chain)
        hears: dict[str, dict[str, None]] = {node_id: {} for node_id in chain}
        for (_, lane), nodes in listeners.items():
            for node_id in nodes:
                hears[node_id][lane] = None
        tables: dict[tuple[type[Node], tuple[str, ...]], dict[str, Method]] = {}
        methods: dict[str, dict[str, Method]] = {}
        for node_id in chain:
            if node_id in missing:
                methods[node_id] = {f"write_{lane}": Method(f"write_{lane}", False, None) for lane in hears[node_id]}
                continue
            alike = classes[node_id], tuple(hears[node_id])  # such nodes have the same methods: there are few kinds
            if alike not in tables:
                tables[alike] = _methods(node_id, *alike)
            methods[node_id] = tables[alike]
        declared = {node_class: _declared(node_class) for node_class in {classes[node_id] for node_id in chain}}
        order = _topological(chain, listeners)
        ways = _ways(spec.source, order, listeners, methods, limits.max_receivers)
        # A node that only serves others by control is opened before those who may call it, and closed after them.
        moved = {sender for sender, _ in listeners}.union(*listeners.values())
        served = [node_id for node_id in order if node_id not in moved]
        flow = [node_id for node_id in order if node_id in moved]
        return cls(
            spec.source,
            (*reversed(served), *flow),
            (*flow, *served),
            listeners,
            methods,
            ways,
            {node_id: declared[classes[node_id]] for node_id in chain},
            limits,
            missing,
            classes.get(spec.source, Node),
        )

    @classmethod
    def of_sources(cls, spec: PipelineSpec, limits: Limits = DEFAULTS) -> dict[str, LanePlan]:
        """The plan of each source of a pipeline. Raises as `of`."""
        return {source: cls.of(spec.beginning_at(source), limits) for source in spec.sources}

    def listens(self, lane: str) -> bool:
        """Whether a node listens to the source on this lane."""
        return lane in self.source_lanes

    def receivers(self, sender: str, lane: str) -> tuple[LaneReceiver, ...]:
        """The receivers of a lane of `sender`, a node or the source: in file order, pass-through nodes replaced.

        A node is named once for each way that leads to it.
        """
        found = self._fanouts.get((sender, lane))
        if found is None:
            found = self._fanouts[sender, lane] = tuple(self._resolved(sender, lane))
        return found

    def reached(self, lane: str) -> tuple[str, ...]:
        """The nodes that payloads may reach which enter at the source on this lane, the nearest first.

        A node that receives may send on every lane that it declares.
        """
        known = self._reached.get(lane)
        if known is None:
            found: dict[str, None] = {}
            pending = [*self.receivers(self.source, lane)]
            for receiver in pending:  # the list grows meanwhile
                if receiver.node_id not in found:
                    found[receiver.node_id] = None
                    for out in self.declared[receiver.node_id]:
                        pending.extend(self.receivers(receiver.node_id, out))
            known = self._reached[lane] = tuple(found)
        return known

    def _resolved(self, sender: str, lane: str) -> Iterable[LaneReceiver]:
        # A stack instead of recursion: a file may string thousands of pass-through nodes together.
        name = f"write_{lane}"
        pending = list(reversed(self._listeners.get((sender, lane), ())))
        while pending:
            node_id = pending.pop()
            method = self.methods[node_id].get(name)
            if method is not None:
                yield LaneReceiver(node_id, method)
            elif self._ways.get((node_id, lane)):
                pending.extend(reversed(self._listeners[node_id, lane]))


def _listeners(spec: PipelineSpec, chain: Sequence[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """(sender, lane) → the nodes that listen, in file order. Components outside of the chain are left out."""
    members = {spec.source, *chain}
    found: dict[tuple[str, str], dict[str, None]] = {}
    for component in spec.components:
        if component.id not in members or component.id == spec.source:
            continue
        for edge in component.inputs:
            if edge.source_id in members:
                found.setdefault((edge.source_id, edge.lane), {})[component.id] = None
    return {key: tuple(nodes) for key, nodes in found.items()}


def _topological(chain: Sequence[str], listeners: Mapping[tuple[str, str], tuple[str, ...]]) -> list[str]:
    """The chain, reordered so that every node stands behind all nodes that send to it; ties keep the chain's order.

    The chain itself will not do. It is depth-first, so in a diamond the node at the far end stands before the second
    of the two in the middle: it would be told that the object ends while that one still has data for it.
    """
    index = {node_id: i for i, node_id in enumerate(chain)}
    followers: dict[int, set[int]] = {}
    waits = [0] * len(chain)
    for (sender, _), nodes in listeners.items():
        if sender in index:
            followers.setdefault(index[sender], set()).update(index[node_id] for node_id in nodes)
    for nodes in followers.values():
        for i in nodes:
            waits[i] += 1
    ready = [i for i, waiting in enumerate(waits) if not waiting]
    heapify(ready)
    order: list[str] = []
    while ready:
        i = heappop(ready)
        order.append(chain[i])
        for follower in followers.get(i, ()):
            waits[follower] -= 1
            if not waits[follower]:
                heappush(ready, follower)
    if len(order) < len(chain):
        stuck = [node_id for node_id in chain if node_id not in set(order)]
        raise InvalidPipeline(f"The data edges of {', '.join(stuck[:10])} make a circle")
    return order


def _ways(
    source: str,
    order: Sequence[str],
    listeners: Mapping[tuple[str, str], tuple[str, ...]],
    methods: Mapping[str, Mapping[str, Method]],
    limit: int,
) -> dict[tuple[str, str], int]:
    """(sender, lane) → how many receivers one payload has; diamonds of pass-through nodes in a row double it each time."""
    lanes: dict[str, list[str]] = {}
    for sender, lane in listeners:
        lanes.setdefault(sender, []).append(lane)
    ways: dict[tuple[str, str], int] = {}
    for sender in (*reversed(order), source):
        for lane in lanes.get(sender, ()):
            name = f"write_{lane}"
            nodes = listeners[sender, lane]
            count = sum(1 if name in methods[node_id] else ways.get((node_id, lane), 0) for node_id in nodes)
            if count > limit:
                raise InvalidPipeline(
                    f'What "{sender}" sends on the lane {lane} would be received more than {limit} times (max_receivers): '
                    "the nodes behind it pass it on to each other along too many ways"
                )
            ways[sender, lane] = count
    return ways


def _methods(node_id: str, node_class: type[Node], lanes: Iterable[str]) -> dict[str, Method]:
    found: dict[str, Method] = {}
    for name in (*LIFECYCLE, *(f"write_{lane}" for lane in lanes)):
        function = getattr(node_class, name, None)
        # A tool may be called `open` or `write_text`; it is no lifecycle method.
        if callable(function) and options_of(function) is None:
            found[name] = _method(node_id, node_class, name, function)
    return found


def _method(node_id: str, node_class: type[Node], name: str, function: Any) -> Method:
    kind = kind_of(function)
    if kind not in ("sync", "async"):
        raise InvalidPipeline(
            f'Node "{node_id}": {node_class.__name__}.{name} is a generator, so its body would never run: '
            "remove `yield`, and send with self.emit(lane, value)"
        )
    return Method(name, kind == "async", _context_parameter(function))


def _context_parameter(function: Any) -> str | None:
    annotations: Mapping[str, Any] = getattr(function, "__annotations__", {})
    for name, annotation in annotations.items():
        if name == "return":
            continue
        # Under `from __future__ import annotations` it is text, and in `ToolContext | None` a part of the whole.
        if annotation is ToolContext or _NAMES_CONTEXT.search(annotation if isinstance(annotation, str) else repr(annotation)):
            return name
    return None


def _declared(node_class: type[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lane for outs in node_class.lanes.values() for lane in outs))
