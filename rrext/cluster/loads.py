"""What a pipeline needs on a cluster before its load: its resources, and the connections that it names, with their secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rrext.pipefile.pipeline_loader import load_pipeline, resources_in
from rrext.pipefile.resources import Resources
from rrext.pipefile.spec import ComponentSpec, listed_references
from rrext.pipefile.text.problems import Problem, below

if TYPE_CHECKING:
    from rrext.connections import Connections
    from rrext.engine.host.host import Host
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment
    from rrext.pipefile.loaded_pipeline import LoadedPipeline

OUTSIDE: Final = ("mcp", "http", "composio")
"""The kinds of references that name a connection, or a server whose connection has the same name."""


class ClusterLoads:
    """Reads pipelines before they are placed. `most` is what those of network clients may ask for. On the server's loop."""

    def __init__(
        self, host: Host, catalog: Catalog, environment: Environment, connections: Connections, most: Resources
    ) -> None:
        self._host = host
        self._catalog = catalog
        self._environment = environment
        self._connections = connections
        self._most = most

    async def prepare(
        self, pipeline: Mapping[str, Any] | str | bytes, options: Mapping[str, Any]
    ) -> tuple[Resources, dict[str, Any]]:
        """The resources of a pipeline, and members for its `worker_load`. Raises `InvalidPipeline`, `ConnectionInvalid`."""
        return await self._host.in_thread(self._prepared, pipeline, options)

    def _prepared(
        self, pipeline: Mapping[str, Any] | str | bytes, options: Mapping[str, Any]
    ) -> tuple[Resources, dict[str, Any]]:
        is_remote = bool(options.get("remote"))
        resources = resources_in(pipeline, self._too_much if is_remote else _nothing, self._host.limits)
        if not len(self._connections):
            return resources, {}
        known = self._known(is_remote)
        env = options.get("env")
        environment = self._environment.for_client(env) if is_remote else self._environment.with_values(env)
        loaded = load_pipeline(
            pipeline,
            self._catalog,
            environment,
            source=options.get("source"),
            partial=bool(options.get("partial")),
            limits=self._host.limits,
        )
        named = _named(loaded.outline.components)
        if stays := [*_staying(known, named)]:
            loaded.add(stays)
            loaded.require()
        return resources, {"connections": known.sent(named)}

    def refusals(self, loaded: LoadedPipeline, is_remote: bool) -> Iterator[Problem]:
        """What the load of a pipeline would refuse."""
        if is_remote:
            yield from self._too_much(loaded.outline.resources, below(loaded.base, "resources"))
        yield from _staying(self._known(is_remote), _named(loaded.outline.components))

    def _known(self, is_remote: bool) -> Connections:
        return self._connections.shared() if is_remote else self._connections

    def _too_much(self, resources: Resources, path: str) -> Iterator[Problem]:
        """What only the operator may ask for."""
        for name in resources.above(self._most):
            most = getattr(self._most, name)
            text = f"{name} is at most {most:g} for pipelines of network clients (--max-resources)."
            yield Problem("not_permitted", "error", text, below(path, name))
        if resources.node is not None:
            text = "A pipeline of a network client may not choose its node."
            yield Problem("not_permitted", "error", text, below(path, "node"))


def _nothing(resources: Resources, path: str) -> Iterable[Problem]:
    return ()


def _named(components: Iterable[ComponentSpec]) -> dict[str, str]:
    """The connections that a pipeline names, in its references and in the settings of its nodes, each with a place."""
    components = tuple(components)
    references = (each for _, each in listed_references(components) if each.kind in OUTSIDE)
    named = {each.connection or each.integration: each.path for each in references}
    for component in components:
        settings = component.settings
        for setting in component.node_class.connections if settings is not None else ():
            name = settings.get(setting) if isinstance(settings, Mapping) else getattr(settings, setting, None)
            if isinstance(name, str):
                named.setdefault(name, below(component.section, setting))
    return named


def _staying(connections: Connections, named: Mapping[str, str]) -> Iterator[Problem]:
    """The references to connections that cannot be used on another machine."""
    for connection in connections:
        if connection.name in named and (reason := connection.stays):
            text = f'The connection "{connection.name}" is not for a cluster: {reason}.'
            yield Problem("not_on_cluster", "error", text, named[connection.name])
