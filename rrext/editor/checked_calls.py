"""The check of call lines in comments against the tools of the pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from rrext.editor.analysis import Analysis
from rrext.editor.calls.comments import comments_with
from rrext.editor.calls.lines import COMMAND, CallLine, read_call
from rrext.editor.known_nodes import input_schema
from rrext.errors import near_matches
from rrext.limits import MAX_LISTED_IDS
from rrext.nodes.base.node import Node
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.reference_check import offered_spec
from rrext.pipefile.spec import ComponentSpec, offered_references
from rrext.pipefile.text.problems import Problem, Problems, Span, shown
from rrext.references import Reference
from rrext.tools.names import NodeTool, exported_names
from rrext.tools.spec import ToolSpec
from rrext.tools.validation import InvalidSchema, SchemaValidator, pointer

# documents
MAX_CALL_LINES: Final = 1000
"""Call lines of one document that are read; nobody writes more."""


class Calls(msgspec.Struct, frozen=True):
    """The call lines of a document in the order of its text, and their problems."""

    lines: tuple[CallLine, ...] = ()
    problems: tuple[Problem, ...] = ()


def calls_in(analysis: Analysis) -> Calls:
    """The call lines of a document. No code of it runs."""
    limits = analysis.settings.limits
    problems = Problems(limits.max_problems)
    check = _Check(analysis, problems)
    lines: list[CallLine] = []
    for comment in comments_with(COMMAND, analysis.map):
        if len(lines) == MAX_CALL_LINES:
            problems.add(
                "invalid_call", f"Only the first {MAX_CALL_LINES} call lines of a document are looked at.", span=comment.span
            )
            break
        lines.append(check.line(read_call(comment, problems, limits)))
    return Calls(tuple(lines), problems.listing())


def tool_owners(analysis: Analysis) -> list[ComponentSpec]:
    """The components that have tools, in search order: those of the chain first."""
    chain = {node_id: place for place, node_id in enumerate(analysis.loaded.outline.chain)}
    owners = [draft for draft in analysis.drafts if draft.node is not None and draft.node.tools]
    return sorted(owners, key=lambda draft: chain.get(draft.id, len(chain)))


def source_takes(analysis: Analysis) -> frozenset[str] | None:
    """The kinds of input (`send`, `chat`) that the pipeline's sources accept; None if one of them is unknown."""
    sources = [analysis.by_id[name].node for name in analysis.loaded.outline.sources]
    known = [_takes(node) for node in sources if node is not None]
    return frozenset[str]().union(*known) if known and len(known) == len(sources) else None


def source_of(analysis: Analysis, kind: str) -> ComponentSpec | None:
    """The source that accepts a kind of input; None if no source does, or several do."""
    sources = [analysis.by_id[name] for name in analysis.loaded.outline.sources]
    found = [source for source in sources if source.node is not None and kind in _takes(source.node)]
    return found[0] if len(found) == 1 else None


def _may_have_more(draft: ComponentSpec) -> bool:
    """Whether a component may have tools that the text does not tell."""
    return draft.node is None or draft.node.has_dynamic_tools


def _takes(node: type[Node]) -> frozenset[str]:
    if node.accepts:
        return frozenset(node.accepts)
    lanes = node.lanes.get("_source", ())
    return frozenset(("send", "chat") if "questions" in lanes else ("send",) if lanes else ())


class _Check:
    """Compares the call lines of one document with its tools."""

    def __init__(self, analysis: Analysis, problems: Problems) -> None:
        self._analysis = analysis
        self._problems = problems
        self._owners: list[ComponentSpec] | None = None
        self._exported_names: dict[str, NodeTool] | None = None
        self._takes = source_takes(analysis)
        self._validators: dict[ToolSpec, SchemaValidator | None] = {}
        self._offered = offered_references(analysis.drafts)
        self._named = {name: reference for (_, name), reference in reversed(self._offered.single.items())}
        self._wrapped: dict[str, ToolSpec | None] = {}
        self._known: dict[str, tuple[str, ...]] = {}
        self._near = NearNames()

    def line(self, call: CallLine) -> CallLine:
        """The call with its target. Reports calls that cannot work."""
        around = self._analysis.component_at(call.span[0])
        sound = call.sound
        node = call.node or (around.id if around is not None else "")
        if sound:
            sound = self._fits_tool(call, node) if call.kind == "tool" else self._fits_source(call)
        return msgspec.structs.replace(call, sound=sound, node=node)

    def _fits_source(self, call: CallLine) -> bool:
        if self._takes is None or call.kind in self._takes:
            return True
        what = " and ".join({"send": "files", "chat": "questions"}[kind] for kind in sorted(self._takes)) or "no data"
        sources = " and ".join(map(shown, self._analysis.loaded.outline.sources[:MAX_LISTED_IDS]))
        return self._refuse("invalid_call", f"This pipeline begins at {sources}, which takes {what}.", call.span)

    def _fits_tool(self, call: CallLine, node: str) -> bool:
        if node and node not in self._analysis.by_id:
            if not call.node:
                return True  # the component around the call has an unusable id
            near = near_matches(node[:100], self._analysis.by_id)
            return self._refuse("invalid_call", f"There is no component {shown(node)}.", call.node_span, near)
        asked = [self._analysis.by_id[node]] if node else self._all_owners()
        found = next((draft for draft in asked if draft.node is not None and call.tool in draft.node.tools), None)
        if found is not None and found.node is not None:
            return self._fits_schema(call, found.node.tools[call.tool])
        reference = self._offered_as(node, call.tool)
        if reference is not None:
            return self._fits_reference(call, reference)
        owner, own_name = self._exported().get(call.tool, ("", ""))
        if owner and node in ("", owner):
            called = self._analysis.by_id[owner].node if owner in self._analysis.by_id else None
            if called is not None and own_name in called.tools:
                return self._fits_schema(call, called.tools[own_name])
            return self._fits_reference(call, self._offered.single[owner, own_name])
        if any(_may_have_more(draft) for draft in ([self._analysis.by_id[node]] if node else self._analysis.drafts)):
            return True
        if node not in self._known:
            offered = (name for owner, name in self._offered.single if node in ("", owner))
            own = (name for draft in asked if draft.node is not None for name in draft.node.tools)
            self._known[node] = tuple(dict.fromkeys((*offered, *own)))
        known = self._known[node]
        near = self._near.of(call.tool, known)
        where = f"{shown(node)} has" if node else "This pipeline has"
        what = f"no tool {shown(call.tool)}" if known else "no tools"
        return self._refuse("unknown_tool", f"{where} {what}.", call.tool_span, near)

    def _offered_as(self, node: str, tool: str) -> Reference | None:
        """The reference that offers a tool of this name, at one node or, for "", at any."""
        found = None if node else self._named.get(tool)
        asked = [node] if node else self._offered.nodes
        return found or next(filter(None, (self._offered.find(each, tool) for each in asked)), None)

    def _all_owners(self) -> list[ComponentSpec]:
        if self._owners is None:
            self._owners = tool_owners(self._analysis)
        return self._owners

    def _exported(self) -> dict[str, NodeTool]:
        """The node and the tool that each exported name means."""
        if self._exported_names is not None:
            return self._exported_names
        by_id = self._analysis.by_id  # of two components with one id, calls reach the first
        owners = {draft.id: draft.node for draft in self._all_owners() if by_id.get(draft.id) is draft and draft.node}
        tools = dict.fromkeys(
            [*((owner, name) for owner, node in owners.items() for name in node.tools), *self._offered.single]
        )
        self._exported_names = {name: tool for tool, name in exported_names(tools).items()}
        return self._exported_names

    def _fits_reference(self, call: CallLine, reference: Reference) -> bool:
        """Whether a call fits a wrapped tool of a component. The tools of servers outside are not known."""
        if reference.path not in self._wrapped:
            self._wrapped[reference.path] = offered_spec(self._offered.chain(reference), self._analysis.by_id)
        wrapped = self._wrapped[reference.path]
        return wrapped is None or self._fits_schema(call, wrapped)

    def _fits_schema(self, call: CallLine, spec: ToolSpec) -> bool:
        validator = self._validator(spec)
        given = {} if call.input is None else call.input
        try:
            if validator is None or validator.fits(given):
                return True
            given = validator.meant(given)
            if validator.fits(given):
                return True
        except InvalidSchema:
            return True  # the call line is not at fault; a call reports the schema
        limits = self._analysis.settings.limits
        size = call.span[1] - call.span[0]
        for path, message in validator.problems(given, limits.max_errors if size <= limits.all_errors_input else 1):
            is_key = message.startswith("unexpected property")
            span = call.tool_span if call.place is None else call.place(pointer("", path), is_key)
            self._refuse("invalid_call", f"{spec.name}: {message}", span)
        return False

    def _validator(self, spec: ToolSpec) -> SchemaValidator | None:
        """The validator of a tool's input; None if the schema depends on settings and needs a node object."""
        if spec not in self._validators:
            schema = input_schema(spec)
            self._validators[spec] = None if schema is None else SchemaValidator(schema)
        return self._validators[spec]

    def _refuse(self, code: str, message: str, span: Span, near: Iterable[str] = ()) -> bool:
        self._problems.add(code, message, span=span, near=near)
        return False
