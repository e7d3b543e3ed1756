"""Makes the components of a task from a checked pipeline."""

from __future__ import annotations

from typing import Any

from rrext.engine.tasks.component import Component
from rrext.pipefile.loaded_pipeline import LoadedPipeline
from rrext.pipefile.spec import PipelineSpec


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
