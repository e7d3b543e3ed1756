"""Operations that look at the catalog, and touch no task."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
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
    from rrext.pipefile.loaded_pipeline import LoadedPipeline
    from rrext.pipefile.text.problems import Problem


def looked_up(
    catalog: Catalog,
    environment: Environment,
    limits: Limits,
    caller: Caller,
    operation: operations.Validate | operations.Services | operations.ResolveConfig,
    root: str | None,
    running: Iterable[tuple[Mapping[str, Any], ToolNames]],
    refusals: Callable[[LoadedPipeline, bool], Iterable[Problem]],
) -> dict[str, Any]:
    """Make the body of the answer. `root` is the folder that no pipeline of a caller who is not trusted leaves, `running`
    are the pipelines that run, with their tools; `refusals` has what this server refuses of a pipeline, and whether it is
    that of such a caller."""
    match operation:
        case operations.Validate():
            if not caller.trusted:
                environment = environment.for_client(None)

            def refused(loaded: LoadedPipeline) -> Iterator[Problem]:
                if not caller.trusted:
                    from rrext.engine.tasks.foreign import refusals as foreign

                    yield from foreign(loaded, root)
                yield from refusals(loaded, not caller.trusted)

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
