"""Stand-ins of nodes: what a case says instead of a node that needs the network, a key or a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rrext.errors import InvalidPipeline, NodeNotFound, ToolError, ToolNotFound, error_from_wire
from rrext.nodes.base.lanes import new_question
from rrext.nodes.base.node import Node, served_types
from rrext.pipefile.catalog.catalog import Catalog
from rrext.tools.decorator import MARK, ToolOptions
from rrext.tools.spec import ToolSpec

SCRIPTED = "llm_scripted"


def is_readable(pipeline: Any) -> bool:
    """Whether a value has the shape of a pipeline, as far as stand-ins need it."""
    components = pipeline.get("components") if isinstance(pipeline, dict) else None
    return isinstance(components, list) and all(
        isinstance(each, dict) and isinstance(each.get("id"), str) and isinstance(each.get("provider"), str)
        for each in components
    )


def with_stand_ins(
    pipeline: Mapping[str, Any], stubs: Mapping[str, Mapping[str, Any]], catalog: Catalog
) -> tuple[dict[str, Any], list[type[Node]]]:
    """The pipeline with stand-ins in the place of components, and their classes. A model gets a script.

    A stand-in has the lanes and the bindings of its node, and takes none of its settings. Raises `NodeNotFound`,
    `ToolNotFound`, and `InvalidPipeline` for a script of what is no model.
    """
    components: list[dict[str, Any]] = [*pipeline["components"]]
    classes: list[type[Node]] = []
    by_id = {each["id"]: place for place, each in enumerate(components)}
    for node_id, said in stubs.items():
        if node_id not in by_id:
            raise NodeNotFound.near(f'There is no node "{node_id}" to stand in for.', node_id, by_id)
        place = by_id[node_id]
        component = {**components[place]}
        original = catalog.class_of(component["provider"])
        if "script" in said or "default" in said:
            if "llm" not in original.class_types:
                raise InvalidPipeline(f'node "{node_id}" ({original.provider}) is no model: its stand-in takes no script')
            component |= {"provider": SCRIPTED, "config": {**said}}
        else:
            made = _stand_in(original, f"rrext_stand_in_{len(classes) + 1}", said)
            classes.append(made)
            component |= {"provider": made.provider, "config": {}}
        components[place] = component
    return {**pipeline, "components": components}, classes


def _stand_in(original: type[Node], provider: str, said: Mapping[str, Any]) -> type[Node]:
    members: dict[str, Any] = {
        "__doc__": original.__doc__,
        "provider": provider,
        "lanes": original.lanes,
        "class_types": served_types(original),
        "invoke": original.invoke,
        "accepts": original.accepts,
    }
    for name, result in said.get("tools", {}).items():
        known = dict(original.tools.items()).get(name)
        if known is None and not original.has_dynamic_tools:
            raise ToolNotFound.near(f'The node "{original.provider}" has no tool "{name}".', name, [*original.tools])
        members[f"tool_{name}"] = _tool(name, result, known)
    said_on = said.get("lanes", {})
    for lane in original.lanes:
        if lane != "_source":
            members[f"write_{lane}"] = _writer(said_on.get(lane, {}))
    return type("StandIn", (Node,), members)


def _tool(name: str, result: Any, known: ToolSpec | None) -> Callable[..., Any]:
    """A tool with one result. Its input is checked as that of the node's own, if that needs no node to be described."""

    def answer(self: Node, input: Any) -> Any:
        if isinstance(result, dict) and result.keys() == {"$error"}:
            raise _failure(result["$error"])
        return result

    described: dict[str, Any] = {"inputSchema": {"type": "object"}}
    if known is not None and known.static:
        described = known.describe(None)
    options = ToolOptions(
        name=name,
        description=described.get("description", "A stand-in."),
        input_schema=described["inputSchema"],
        annotations=described.get("annotations"),
        group=described.get("group"),
        takes_input=True,
    )
    setattr(answer, MARK, options)
    return answer


def _failure(said: Any) -> Exception:
    if isinstance(said, str):
        return ToolError("A stand-in fails", code=said)
    return error_from_wire(
        said.get("code", "tool_failed"), said.get("message", "A stand-in fails"), said.get("hint"), said.get("data")
    )


def _writer(sent: Mapping[str, Any]) -> Callable[..., Any]:
    def write(self: Node, payload: Any) -> None:
        for lane, value in sent.items():
            self.emit(lane, payload_of(lane, value))

    return write


def payload_of(lane: str, value: Any) -> Any:
    """What travels on a lane for a value of a case: a text stands for a question or an answer."""
    if isinstance(value, str):
        if lane == "questions":
            return new_question(value)
        if lane == "answers":
            return {"answer": value, "expectJson": False}
    return value
