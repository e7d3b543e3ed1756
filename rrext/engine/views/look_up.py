"""Operations that look at the catalog, and touch no task."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rrext.engine.interface import operations
from rrext.pipefile.config import resolve_config
from rrext.pipefile.pipeline_loader import validate
from rrext.tools.names import joined_name

if TYPE_CHECKING:
    from rrext.engine.interface.call import Caller
    from rrext.engine.interface.task_identity import ToolNames
    from rrext.limits import Limits
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment


def looked_up(
    catalog: Catalog,
    environment: Environment,
    limits: Limits,
    caller: Caller,
    operation: operations.Validate | operations.Services | operations.ResolveConfig,
    root: str | None,
    running: Iterable[tuple[Mapping[str, Any], ToolNames]],
) -> dict[str, Any]:
    """Make the body of the answer. `root` is the folder that no pipeline of a caller who is not trusted leaves, `running`
    are the pipelines that run, with their tools."""
    match operation:
        case operations.Validate():
            if caller.trusted:
                return validate(operation.pipeline, catalog, environment, operation.source, limits)
            from rrext.engine.tasks.foreign import refusals

            environment = environment.for_client(None)
            refused = partial(refusals, root=root)
            return validate(operation.pipeline, catalog, environment, operation.source, limits, refused)
        case operations.Services():
            body = catalog.services(operation.service)
            return body if caller.tools is None else _with_tools(body, caller.tools, catalog, running)
        case operations.ResolveConfig():
            return resolve_config(catalog, operation.provider, operation.config or {})


def _with_tools(
    body: dict[str, Any], names: frozenset[str], catalog: Catalog, running: Iterable[tuple[Mapping[str, Any], ToolNames]]
) -> dict[str, Any]:
    """Definitions of nodes with the tools of these names alone: a tool's own, or with the id of a component that runs and whose
    settings do not deny the tool.
    """
    ids: dict[str, list[tuple[str, Container[str]]]] = {}
    for pipeline, tools in running:
        denied = frozenset(tools.denied)
        for component in pipeline["components"]:
            ids.setdefault(catalog.provider_of(component["provider"]), []).append((component["id"], denied))

    def shown(provider: str, definition: dict[str, Any]) -> dict[str, Any]:
        def may_call(tool: str) -> bool:
            return any(
                {tool, f"{owner}.{tool}", joined_name(owner, tool)} & names and f"{owner}.{tool}" not in denied
                for owner, denied in ids.get(provider, ())
            )

        return {**definition, "tools": [tool for tool in definition["tools"] if may_call(tool["name"])]}

    if "services" not in body:
        return shown(body["prefix"], body)
    return {**body, "services": {provider: shown(provider, each) for provider, each in body["services"].items()}}
