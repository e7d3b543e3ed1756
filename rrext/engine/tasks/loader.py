"""From a pipeline's text to a task that can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rrext.clock import Clock
from rrext.engine.tasks.component import Component
from rrext.engine.tasks.task import Task
from rrext.limits import Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.loading import load_pipeline
from rrext.pipefile.plan import LanePlan
from rrext.pipefile.spec import PipelineSpec

__all__ = ["load_task"]


def load_task(
    text: str | bytes | Mapping[str, Any],
    *,
    token: str,
    public_token: str,
    catalog: Catalog,
    environment: Environment,
    limits: Limits,
    clock: Clock,
    threads: int,
    directory: str,
    confined: bool,
    name: str | None,
    source: str | None,
    ttl: float | None,
    owner: str | None,
) -> Task:
    """A task for a pipeline. Raises `InvalidPipeline` with all its problems."""
    loaded = load_pipeline(text, catalog, environment, source=source, limits=limits)
    spec = loaded.require()
    classes = {component.id: component.node_class for component in spec.components}
    specs = {component.id: component for component in spec.components}
    bindings = _bindings(spec)
    written = loaded.unresolved["components"]  # whoever lists the tools reads this
    components = {
        node_id: Component(
            node_id,
            classes[node_id],
            specs[node_id].settings,
            directory=directory,
            confined=confined,
            tool_description=_text(written[specs[node_id].index]["config"].get("tool_description")),
            bindings=bindings.get(node_id, {}),
        )
        for node_id in spec.chain
    }
    return Task(
        token,
        spec,
        components,
        LanePlan.of(spec, classes, limits),
        classes[spec.source],
        clock=clock,
        threads=threads,
        pipeline=loaded.unresolved,
        public_token=public_token,
        owner=owner,
        name=name,
        ttl=ttl,
        warnings=[problem.message for problem in loaded.problems if problem.severity == "warning"],
    )


def _bindings(spec: PipelineSpec) -> dict[str, dict[str, tuple[str, ...]]]:
    """Who may be invoked by whom: invoker → class type → ids of the controlled nodes."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for component in spec.components:
        for edge in component.controls:
            of_invoker = found.setdefault(edge.source_id, {})
            of_invoker[edge.class_type] = (*of_invoker.get(edge.class_type, ()), component.id)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
