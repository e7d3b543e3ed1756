"""Checks of the whole graph: the source, the reached components, and their output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rrext.nodes.base.node import Node, offered_lanes
from rrext.pipefile.edges import EdgeCheck
from rrext.pipefile.graph import chain_order, reached
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.spec import ComponentSpec
from rrext.pipefile.text.pointer import below
from rrext.pipefile.text.problems import Problems, Related, shown


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
    if len(found) > 1:
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
