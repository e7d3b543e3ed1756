"""The check of a whole pipeline document: all its problems, or the pipeline. References to tools are checked here: the node,
its tool, the names that one node offers, and what wrappers fix and narrow.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rrext.limits import DEFAULTS, MAX_REFERENCE_CHAIN
from rrext.pipefile.edges import EdgeCheck, ReachabilityCheck, choose_sources
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.resources import NO_RESOURCES, Resources
from rrext.pipefile.shape import report_same_ids
from rrext.pipefile.spec import ComponentSpec, PipelineSpec, listed_references, offered_references
from rrext.pipefile.text.problems import Problems, Related, below
from rrext.references import OfferedReferences, Reference, same_names
from rrext.tools.decorator import ToolDefinitionError
from rrext.tools.spec import ToolSpec

if TYPE_CHECKING:
    from rrext.references import KnownConnection


class PipelineOutline(msgspec.Struct, frozen=True):
    """The readable parts of a document, right or wrong: for editors, and for `rrext_validate`.

    `source` is empty if none is chosen among several `sources`.
    """

    components: tuple[ComponentSpec, ...] = ()
    source: str = ""
    chain: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    resources: Resources = NO_RESOURCES


def validated(
    document: Mapping[str, Any],
    drafts: Sequence[ComponentSpec],
    base: str,
    problems: Problems,
    near: NearNames,
    *,
    source: str | None,
    connections: Sequence[KnownConnection] | None = None,
    resources: Resources = NO_RESOURCES,
    pause: Callable[[], None],
) -> tuple[PipelineOutline, PipelineSpec | None]:
    """Report every problem of the document at `base`; its readable parts, and the pipeline if there is no error.

    `source` replaces the document's own. `pause` is called between the steps; its exception ends the check.
    """
    report_same_ids(drafts, problems)
    pause()
    offered = offered_references(drafts)
    edges = EdgeCheck(drafts, problems, near, offered)
    edges.run()
    ReferenceCheck(drafts, edges.by_id, connections, problems, near, offered).run()
    named = source if source is not None else document.get("source")
    named = named if isinstance(named, str) else ""
    starts = choose_sources(named, drafts, edges.by_id, base, problems, near)
    pause()
    whole = ReachabilityCheck(starts, drafts, edges, problems)
    whole.run()
    chosen = starts[0].id if len(starts) == 1 else ""
    outline = PipelineOutline(tuple(drafts), chosen, whole.chain, tuple(whole.chains), resources)
    if problems.errors or any(draft.node is None and not draft.missing for draft in drafts):
        return outline, None  # a node that is not known here may be no error, but cannot run
    return outline, PipelineSpec(
        source=chosen,
        components=tuple(drafts),
        chain=whole.chain if whole.chains else whole.chain_without_source(),
        project_id=document.get("project_id") or str(uuid.uuid4()),
        name=document.get("name") or "",
        description=document.get("description") or "",
        version=document.get("version") or 1,
        chains={} if chosen else whole.chains,
    )


def offered_spec(chain: Sequence[Reference], by_id: Mapping[str, ComponentSpec]) -> ToolSpec | None:
    """The tool that a chain of references offers; None if it is not known before it runs."""
    draft = by_id.get(chain[-1].integration) if chain and chain[-1].kind == "node" else None
    spec = None if draft is None or draft.node is None else draft.node.tools.get(chain[-1].action)
    for wrapper in reversed(chain):
        spec = spec and wrapper.wrap(spec)
    return spec


class ReferenceCheck:
    """Checks the references of all components together; those to connections only if `connections` are known."""

    def __init__(
        self,
        drafts: Sequence[ComponentSpec],
        by_id: Mapping[str, ComponentSpec],
        connections: Sequence[KnownConnection] | None,
        problems: Problems,
        near: NearNames,
        offered: OfferedReferences,
    ) -> None:
        self._drafts = drafts
        self._by_id = by_id
        self._connections = connections
        self._problems = problems
        self._near = near
        self._references = listed_references(drafts)
        self._offered = offered

    def run(self) -> None:
        """Report every problem."""
        for problem in same_names(self._references):
            assert problem.related is not None
            self._problems.add("duplicate_reference", problem.message, problem.path, related=[Related(*problem.related)])
        for _, reference in self._references:
            if reference.kind == "node":
                self._check_node(reference)
            elif reference.kind == "builtin":
                self._check_builtin(reference)
            elif reference.kind != "pipeline" and reference.connection:
                self._check_connection(reference.kind, reference.connection, below(reference.path, "connection"), reference)
            elif reference.kind != "pipeline":
                self._check_connection(reference.kind, reference.integration, below(reference.path, "server"))
        for draft in self._drafts:
            for setting, provider in ({} if draft.node is None else draft.node.connections).items():
                name = draft.config.get(setting)
                if isinstance(name, str) and "${" not in name:  # a variable without a value is another problem
                    self._check_connection(provider, name, below(draft.path, "config", setting))

    def _check_node(self, reference: Reference) -> None:
        draft = self._by_id.get(reference.integration)
        if draft is None:
            message = f'No component has the id "{reference.integration}".'
            near = self._near.of(reference.integration, tuple(self._by_id))
            self._problems.add("reference_not_found", message, below(reference.path, "node"), near=near)
            return
        if draft.node is None:
            return
        chain = self._offered.chain(reference)
        spec = draft.node.tools.get(reference.action) if len(chain) == 1 else offered_spec(chain[1:], self._by_id)
        if not chain:
            is_circle = self._offered.is_in_circle(reference)
            why = ": its references form a circle" if is_circle else f" within {MAX_REFERENCE_CHAIN} references"
            message = f'No tool is behind "{reference.action}" of "{draft.id}"{why}.'
            self._problems.add("reference_not_found", message, below(reference.path, "tool"))
        elif spec is None:
            if len(chain) == 1 and not draft.node.has_dynamic_tools:
                message = f'"{draft.id}" ({draft.provider}) has no tool "{reference.action}".'
                known = (*draft.node.tools, *self._offered.names(draft.id))
                self._report_tool(reference, message, known, below(reference.path, "tool"))
        elif reference.arguments or reference.parameters:
            self._check_wrapper(reference, spec)

    def _check_builtin(self, reference: Reference) -> None:
        nodes = [draft.node for draft in self._drafts]
        if any(node is None or node.has_dynamic_tools or reference.action in node.tools for node in nodes):
            return
        if any(self._offered.find(node_id, reference.action) for node_id in self._offered.nodes):
            return
        own = (name for node in nodes if node is not None for name in node.tools)
        known = tuple(dict.fromkeys((*own, *(name for _, name in self._offered.single))))
        self._report_tool(reference, f'No node of this pipeline has a tool "{reference.action}".', known, reference.path)

    def _check_connection(self, provider: str, name: str, path: str, reference: Reference | None = None) -> None:
        """Report a connection that cannot be used. It is a warning: another file of connections may have it."""
        if self._connections is None:
            return
        found = next((each for each in self._connections if each.name == name), None)
        near: tuple[str, ...] = ()
        if found is None:
            message = f'There is no connection "{name}" for {provider}.'
            near = self._near.of(name, tuple(each.name for each in self._connections if each.provider in (provider, "")))
        elif found.provider not in (provider, ""):
            message = f'The connection "{name}" is for {found.provider}, not for {provider}.'
        elif found.reason:
            message = f'The connection "{name}" cannot be used: {found.reason}.'
        elif reference is not None and found.integration != reference.integration:
            message = f'The connection "{name}" is for {found.integration}, not for {reference.integration}.'
            near, path = (found.integration,), below(reference.path, "integration")
        else:
            return
        self._problems.add("reference_not_found", message, path, near=near, severity="warning")

    def _report_tool(self, reference: Reference, message: str, known: tuple[str, ...], path: str) -> None:
        near = self._near.of(reference.action, known)
        if not near and 0 < len(known) <= 8:
            message += f" There {'is' if len(known) == 1 else 'are'} {', '.join(known)}."
        self._problems.add("reference_not_found", message, path, near=near)

    def _check_wrapper(self, reference: Reference, spec: ToolSpec) -> None:
        from rrext.tools.narrowed_spec import narrowing_problems

        if not spec.static:
            return  # its schema is the node's, which the call has
        try:
            plan = spec.plan(None)
        except ToolDefinitionError:
            return  # an author's mistake, which each call tells
        for path, message, near in narrowing_problems(plan, reference.arguments, reference.parameters, DEFAULTS):
            on = "key" if len(path) == 2 and path[1] not in plan.schema.get("properties", {}) else "value"
            self._problems.add("invalid_reference", message, below(reference.path, *path), near=near, on=on)
