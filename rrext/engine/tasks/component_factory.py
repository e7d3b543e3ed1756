"""Makes the components of a task from a checked pipeline."""

from __future__ import annotations

from typing import Any

from rrext.engine.tasks.component import Component
from rrext.engine.tasks.hidden_nodes import ConnectionNode, PipelineNode
from rrext.engine.tasks.route_table import OfferedReference
from rrext.nodes.base.node import Node
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.spec import PipelineSpec, listed_references, offered_references
from rrext.references import Reference


def components_of(
    loaded: LoadedPipeline, *, directory: str, confined: bool, partial: bool = False, remote: bool = False
) -> dict[str, Component]:
    """Make the components in chain order, without the source. Raises `InvalidPipeline` with all problems."""
    spec = loaded.require()
    specs = {component.id: component for component in spec.components}
    bindings = _bindings(spec)
    written = loaded.unresolved["components"]  # whoever lists the tools reads this
    return {
        node_id: Component(
            node_id,
            specs[node_id].node_class,
            specs[node_id].settings,
            directory=directory,
            confined=confined,
            tool_description=_text(written[specs[node_id].index].get("config", {}).get("tool_description")),
            bindings=bindings.get(node_id, {}),
            missing=specs[node_id].missing,
            partial=partial,
            remote=remote,
        )
        for node_id in spec.chain
    }


def references_of(spec: PipelineSpec, components: dict[str, Component], *, remote: bool) -> list[OfferedReference]:
    """The references of a pipeline with the components that have their tools; components outside of the file are added."""
    offered, found = offered_references(spec.components), list[OfferedReference]()
    for offering, reference in listed_references(spec.components):
        meant = offered.chain(reference)[-1]  # which a file that can be run has
        component = component_for(meant, components, remote=remote)
        if component is not None:
            found.append((offering, reference, component))
    return found


def component_for(
    reference: Reference, components: dict[str, Component], *, remote: bool, is_hidden: bool = True
) -> Component | None:
    """The component that has the tool of a reference. None for a builtin, and for a node that is not there.

    A pipeline or a connection is a hidden component, which is added if it is the first of its name.
    """
    if reference.kind in ("builtin", "node"):
        return components.get(reference.integration)
    name = reference.connection or reference.integration
    node_class: type[Node] = PipelineNode if reference.kind == "pipeline" else ConnectionNode
    node_id, config = f"{reference.kind}:{name}", (reference.kind, name, reference.integration)
    while (component := components.get(node_id)) is not None:
        if (component.is_hidden or not is_hidden) and component.config == config:
            return component
        node_id += "'"
    component = components[node_id] = Component(node_id, node_class, config, remote=remote, is_hidden=is_hidden)
    return component


def _bindings(spec: PipelineSpec) -> dict[str, dict[str, tuple[str, ...]]]:
    """The control bindings: invoker → class type → ids of the controlled nodes."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for component in spec.components:
        for edge in component.controls:
            of_invoker = found.setdefault(edge.source_id, {})
            of_invoker[edge.class_type] = (*of_invoker.get(edge.class_type, ()), component.id)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
