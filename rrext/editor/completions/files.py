"""Offers for a file in which nothing stands yet: whole pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rrext.editor.completions.fitting import Fit
from rrext.editor.completions.here import Scene
from rrext.editor.completions.nodes import component_template, free_id
from rrext.editor.completions.offer import Offer
from rrext.editor.completions.shelf import Ware
from rrext.editor.completions.template import Stop, Template, block, deeper, inside_quotes, joined
from rrext.editor.spot import EdgeKind
from rrext.nodes.base.ports import accepted_lanes, offered_lanes, served_types

__all__ = ["whole_pipelines"]


class Step(msgspec.Struct, frozen=True):
    """A component of a pipeline: its node, and as what it is connected to the one before it."""

    name: str
    ware: Ware
    kind: EdgeKind = "input"


def whole_pipelines(scene: Scene) -> Iterator[Offer]:
    """Small pipelines: from each source what can be answered, or called, with the nodes that there are."""
    for source in scene.shelf.wares():
        for steps in _pipelines(source, scene.shelf.wares()) if source.is_source else ():
            title = " → ".join(step.ware.name for step in steps)
            yield Offer(title, "snippet", _template(scene, steps), "a pipeline", ("provider", source.name))


def _pipelines(source: Ware, wares: tuple[Ware, ...]) -> Iterator[list[Step]]:
    assert source.node is not None
    offered = offered_lanes(source.node)
    first = Step("", source)
    if "chat" in source.node.accepts and "questions" in offered:
        # Databases and stores answer too, but a chat is with a model first of all.
        answering = min(filter(_answers, wares), key=lambda ware: not _is_model(ware), default=None)
        response = _response("answers", wares)
        if answering is not None and response is not None:
            yield [first, Step("questions", answering), Step("answers", response)]
    elif offered:
        lane = "text" if "text" in offered else offered[0]
        response = _response(lane, wares)
        if response is not None:
            yield [first, Step(lane, response)]
    else:
        tool = next((ware for ware in wares if ware.node is not None and served_types(ware.node) == ("tool",)), None)
        if tool is not None:
            yield [first, Step("tool", tool, "control")]


def _answers(ware: Ware) -> bool:
    """Whether a node answers questions, and needs no other node for that."""
    node = ware.node
    if node is None or "answers" not in node.lanes.get("questions", ()):
        return False
    return not any(slot.get("min") for slot in node.invoke.values())


def _is_model(ware: Ware) -> bool:
    return ware.node is not None and "llm" in served_types(ware.node)


def _response(lane: str, wares: tuple[Ware, ...]) -> Ware | None:
    """The node that puts what arrives on a lane into the result: the one for this lane alone if there is one."""
    found = [
        (len(accepted_lanes(ware.node)), ware)
        for ware in wares
        if ware.node is not None and ware.name.startswith("response") and lane in accepted_lanes(ware.node)
    ]
    return min(found, key=lambda each: each[0])[1] if found else None


def _template(scene: Scene, steps: list[Step]) -> Template:
    components: list[Template] = []
    before = ""
    for step in steps:
        node_id = free_id(scene, step.ware.name)
        fit = Fit(step.kind, step.name, before) if before else None
        components.append(component_template(scene, step.ware, node_id, fit, "braces"))
        before = node_id
    members: list[Template] = [
        ('"components": [\n\t', *deeper(joined(components, ",\n"), 1), "\n]"),
        ('"source": "', Stop(inside_quotes(free_id(scene, steps[0].ware.name))), '"'),
        ('"version": 1',),
    ]
    return block(members, scene.frame)
