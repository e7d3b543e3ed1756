"""Offers for an empty file: complete pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rrext.editor.completions.candidate_edges import PossibleEdge
from rrext.editor.completions.context import CompletionContext
from rrext.editor.completions.nodes import component_template, free_id
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.template import Stop, Template, block, deeper, inside_quotes, joined
from rrext.editor.cursor_target import EdgeKind
from rrext.editor.known_nodes import KnownNode
from rrext.nodes.base.ports import accepted_lanes, offered_lanes, served_types


class TemplateStep(msgspec.Struct, frozen=True):
    """A component of a pipeline: its node, and the edge from the component before it."""

    name: str
    entry: KnownNode
    kind: EdgeKind = "input"


def pipeline_snippets(context: CompletionContext) -> Iterator[Offer]:
    """Small pipelines: from each source to a response or a tool, with the available nodes."""
    for source in context.known_nodes.entries():
        for steps in _pipelines(source, context.known_nodes.entries()) if source.is_source else ():
            title = " → ".join(step.entry.name for step in steps)
            yield Offer(title, "snippet", _template(context, steps), "a pipeline", ("provider", source.name))


def _pipelines(source: KnownNode, entries: tuple[KnownNode, ...]) -> Iterator[list[TemplateStep]]:
    assert source.node is not None
    offered = offered_lanes(source.node)
    first = TemplateStep("", source)
    if "chat" in source.node.accepts and "questions" in offered:
        # Databases and stores answer too, but people expect a model in a chat.
        answering = min(filter(_answers, entries), key=lambda entry: not _is_model(entry), default=None)
        response = _response("answers", entries)
        if answering is not None and response is not None:
            yield [first, TemplateStep("questions", answering), TemplateStep("answers", response)]
    elif offered:
        lane = "text" if "text" in offered else offered[0]
        response = _response(lane, entries)
        if response is not None:
            yield [first, TemplateStep(lane, response)]
    else:
        tool = next((entry for entry in entries if entry.node is not None and served_types(entry.node) == ("tool",)), None)
        if tool is not None:
            yield [first, TemplateStep("tool", tool, "control")]


def _answers(entry: KnownNode) -> bool:
    """Whether a node answers questions without the help of other nodes."""
    node = entry.node
    if node is None or "answers" not in node.lanes.get("questions", ()):
        return False
    return not any(slot.get("min") for slot in node.invoke.values())


def _is_model(entry: KnownNode) -> bool:
    return entry.node is not None and "llm" in served_types(entry.node)


def _response(lane: str, entries: tuple[KnownNode, ...]) -> KnownNode | None:
    """The node that puts the data of a lane into the result; preferably one for this lane alone."""
    found = [
        (len(accepted_lanes(entry.node)), entry)
        for entry in entries
        if entry.node is not None and entry.name.startswith("response") and lane in accepted_lanes(entry.node)
    ]
    return min(found, key=lambda each: each[0])[1] if found else None


def _template(context: CompletionContext, steps: list[TemplateStep]) -> Template:
    components: list[Template] = []
    before = ""
    for step in steps:
        node_id = free_id(context, step.entry.name)
        fit = PossibleEdge(step.kind, step.name, before) if before else None
        components.append(component_template(context, step.entry, node_id, fit, "braces"))
        before = node_id
    members: list[Template] = [
        ('"components": [\n\t', *deeper(joined(components, ",\n"), 1), "\n]"),
        ('"source": "', Stop(inside_quotes(free_id(context, steps[0].entry.name))), '"'),
        ('"version": 1',),
    ]
    return block(members, context.wrapping)
