"""Operations that look at the catalog, and touch no task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from rrext.engine.interface import operations
from rrext.pipefile.config import resolve_config
from rrext.pipefile.pipeline_loader import validate
from rrext.tools.names import joined_name

if TYPE_CHECKING:
    from rrext.engine.interface.call import Caller
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
    pipelines: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """Make the body of the answer. `root` is the folder that no pipeline of a caller who is not trusted leaves, `pipelines`
    are those that run."""
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
            return body if caller.tools is None else _with_tools(body, caller.tools, catalog, pipelines)
        case operations.ResolveConfig():
            return resolve_config(catalog, operation.provider, operation.config or {})


def _with_tools(
    body: dict[str, Any], names: frozenset[str], catalog: Catalog, pipelines: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Definitions of nodes with the tools of these names alone: a tool's own, or with the id of a component that runs."""
    ids: dict[str, list[str]] = {}
    for pipeline in pipelines:
        for component in pipeline["components"]:
            ids.setdefault(catalog.provider_of(component["provider"]), []).append(component["id"])

    def shown(provider: str, definition: dict[str, Any]) -> dict[str, Any]:
        def may_call(tool: str) -> bool:
            return any({tool, f"{owner}.{tool}", joined_name(owner, tool)} & names for owner in ids.get(provider, ()))

        return {**definition, "tools": [tool for tool in definition["tools"] if may_call(tool["name"])]}

    if "services" not in body:
        return shown(body["prefix"], body)
    return {**body, "services": {provider: shown(provider, each) for provider, each in body["services"].items()}}
